"""The staged file: what stands in it, when one that lies there already is taken as it is, and the folder it lies in."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from actors.extractor.ports import StagingError
from actors.extractor.ranges import Range
from actors.extractor.ranges import staging_id as make_id
from actors.extractor.schema import Extraction
from session_store.items import Json

FOLDER = "_staging"
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_FIELDS = ("decisions", "discussions", "attempts", "requests")

PARTIAL_AGE = 600.0
"""Seconds after which a file that was not renamed is a dead extractor's."""

ResultT = TypeVar("ResultT")


class NotStaged(ValueError):
    """The bytes are no extraction of that id; `str` says why."""


def staged(session: str, done: Range, extraction: Extraction) -> bytes:
    """The file of one extraction: `source` first, attached by the machine, then the four arrays."""
    source = {"session_id": session, "range": [done.start, done.end]}
    text = json.dumps({"source": source, **extraction.plain()}, ensure_ascii=False, indent=2)
    return text.encode("utf-8", "replace") + b"\n"


def read_staged(staging_id: str, data: bytes) -> dict[str, Json]:
    """A staged file as it stands: `source`, then the four arrays. Raises `NotStaged`."""
    try:
        plain: Json = json.loads(data)
    except (ValueError, RecursionError):
        raise NotStaged("it is no JSON") from None
    if not isinstance(plain, dict) or set(plain) != {"source", *_FIELDS}:
        raise NotStaged(f"it has not exactly the fields source, {', '.join(_FIELDS)}")
    session, start, end = _source(plain["source"])
    if staging_id != make_id(session, start, end):
        raise NotStaged("its name is not the id of its session and range")
    try:
        Extraction.model_validate({name: plain[name] for name in _FIELDS})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise NotStaged(f"{place}: {first['msg']}") from None
    return plain


def is_staged(data: bytes, session: str, done: Range) -> bool:
    """Whether `data` is a whole and valid file of this range."""
    try:
        read_staged(make_id(session, done.start, done.end), data)
    except NotStaged:
        return False
    return True


def _source(source: Json) -> tuple[str, int, int]:
    if isinstance(source, dict) and set(source) == {"session_id", "range"}:
        session, ends = source["session_id"], source["range"]
        if isinstance(session, str) and isinstance(ends, list) and len(ends) == 2:
            start, end = ends
            if type(start) is int and type(end) is int and 1 <= start <= end:
                return session, start, end
    raise NotStaged("its source is not a session_id and a range of two entries")


class FolderStaging:
    """Implements `Staging` over `<root>/_staging`, a local folder or a shared volume, made when needed."""

    def __init__(self, root: Path) -> None:
        self._folder = root / FOLDER

    async def read(self, staging_id: str) -> bytes | None:
        return await self._do(lambda: _read(self._path(staging_id)))

    async def write(self, staging_id: str, data: bytes) -> None:
        await self._do(lambda: _write(self._path(staging_id), data))

    async def remove(self, staging_id: str) -> None:
        await self._do(lambda: _remove(self._path(staging_id)))

    async def ids(self) -> tuple[str, ...]:
        return await self._do(lambda: _ids(self._folder))

    def _path(self, staging_id: str) -> Path:
        if not _ID.fullmatch(staging_id):
            raise StagingError(f"{staging_id!r} is no staging id")
        return self._folder / f"{staging_id}.json"

    async def _do(self, work: Callable[[], ResultT]) -> ResultT:
        """In a thread: a disk may be slow, and one session's must not hold up another's."""
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            raise StagingError(
                f"the memory's folder {self._folder} cannot be used: {error.strerror or error}"
            ) from None


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, also when the machine dies: to a file beside it, then renamed, with both made durable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    _clear_partials(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    _clear_partials(path)


def _clear_partials(path: Path) -> None:
    """What a killed extractor left of the same extraction; not what another is writing now."""
    for left in path.parent.glob(f".{path.name}.*"):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > PARTIAL_AGE:
                left.unlink()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ids(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        return ()
    return tuple(path.stem for path in folder.glob("*.json") if _ID.fullmatch(path.stem))
