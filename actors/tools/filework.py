"""Reading and replacing files, blocking; run it through `offload`. Paths are real (see `scope`)."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from actors.tools.offload import StopSign
from actors.tools.paths import LinkMet, open_file, parent_of, stat_file

BLOCK = 256 * 1024


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A file's bytes as they were, its SHA-256 in hex, and what identifies this state of it."""

    data: bytes
    digest: str
    state: tuple[int, ...]


class ChangedMeanwhile(Exception):
    """Somebody else changed the file between looking at it and replacing it."""


class TooLarge(Exception):
    """`size` in bytes."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes")
        self.size = size


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def blocks(real: str, stop: StopSign) -> Iterator[bytes]:
    """The file's bytes, block by block."""
    with os.fdopen(open_file(real), "rb", buffering=0) as file:
        while block := file.read(BLOCK):
            stop.check()
            yield block


def snapshot(real: str, limit: int, stop: StopSign) -> Snapshot | None:
    """The file whole, or None when there is none. Raises `TooLarge`, `LinkMet`, `NotAFile`, `OSError`."""
    try:
        fd = open_file(real)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb", buffering=0) as file:
        status = os.fstat(fd)
        if status.st_size > limit:
            raise TooLarge(status.st_size)
        data = file.read()
    stop.check()
    return Snapshot(data, digest_of(data), _state(status))


def replace(real: str, data: bytes, before: Snapshot | None, stop: StopSign) -> str:
    """Put `data` in place of the file in one step, keeping mode and owner; returns the digest.

    `before` is what is expected to be there (None: nothing). Missing folders are made. Raises `ChangedMeanwhile`,
    `LinkMet`, `OSError`; then the file is as it was.
    """
    with parent_of(real, create=before is None) as (folder, name):
        temporary = f".polypod-{secrets.token_hex(6)}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
        try:
            with os.fdopen(fd, "wb", buffering=0) as file:
                _write_all(fd, data)
                now = _status(name, folder)
                if (None if now is None else _state(now)) != (None if before is None else before.state):
                    raise ChangedMeanwhile
                if now is not None:
                    _keep(fd, now)
                os.fsync(file.fileno())
            stop.check()
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise
    return digest_of(data)


def exists(real: str) -> bool:
    return stat_file(real) is not None


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _status(name: str, folder: int) -> os.stat_result | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise LinkMet(name)
    return found


def _state(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _keep(fd: int, status: os.stat_result) -> None:
    """Mode and, where allowed, owner of the file that is replaced."""
    mine = os.fstat(fd)
    if (mine.st_uid, mine.st_gid) != (status.st_uid, status.st_gid):
        with suppress(PermissionError):
            os.fchown(fd, status.st_uid, status.st_gid)
    os.fchmod(fd, stat.S_IMODE(status.st_mode))
