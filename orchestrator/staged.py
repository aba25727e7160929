"""What lies staged in a memory's folder, for people and programs that look at it. Nothing is changed here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.extractor.staging import FOLDER, NotStaged, read_staged

SUFFIX = ".json"
MOST_BYTES = 16 << 20
"""A larger file is not read: a worker's answer is some kilobytes."""


class FolderUnreadable(Exception):
    """The staging folder cannot be listed; says which and why."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """One staged file. `plain` is what stands in it (docs/formats/memory.md); `at`: when it appeared, Unix ms."""

    id: str
    path: Path
    at: int
    plain: dict[str, Any]

    @property
    def session(self) -> str:
        return str(self.plain["source"]["session_id"])

    @property
    def range(self) -> tuple[int, int]:
        start, end = self.plain["source"]["range"]
        return start, end


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file of the folder that is no extraction, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """`extractions`: oldest first."""

    folder: Path
    extractions: tuple[Extraction, ...]
    left_out: tuple[LeftOut, ...]


def listing(root: Path) -> Listing:
    """All that is staged below this memory root. Raises `FolderUnreadable`.

    Names that begin with a dot are being written. A file that is consumed meanwhile is in the list or is not.
    """
    folder = root / FOLDER
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        paths = []
    except OSError as error:
        raise FolderUnreadable(f"the folder {folder} cannot be read: {error.strerror or error}") from None
    extractions: list[Extraction] = []
    left_out: list[LeftOut] = []
    for path in paths:
        try:
            extractions.append(_read(path))
        except FileNotFoundError:
            continue
        except NotStaged as error:
            left_out.append(LeftOut(path, str(error)))
        except OSError as error:
            left_out.append(LeftOut(path, f"it cannot be read: {error.strerror or error}"))
    extractions.sort(key=lambda extraction: (extraction.at, extraction.id))
    return Listing(folder, tuple(extractions), tuple(left_out))


def _read(path: Path) -> Extraction:
    found = path.stat()
    if not path.is_file() or path.suffix != SUFFIX:
        raise NotStaged(f"it is no {SUFFIX} file")
    if found.st_size > MOST_BYTES:
        raise NotStaged(f"it is larger than {MOST_BYTES >> 20} MiB")
    return Extraction(path.stem, path, found.st_mtime_ns // 1_000_000, read_staged(path.stem, path.read_bytes()))
