"""From a store URL to a store: `sqlite:///absolute/path/store.db`, `memory://`."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from session_store.backends.memory import MemoryStore
from session_store.backends.sqlite import SqliteStore, wall_clock_ms
from session_store.errors import StoreError, StoreUnavailable

AnyStore: TypeAlias = MemoryStore | SqliteStore
LOCK_NAME = "store.lock"
_SQLITE = "sqlite://"


class UnknownStoreUrl(StoreError):
    """The settings name a store that this polypod has no backend for."""


def open_store(url: str) -> AnyStore:
    """Raises `UnknownStoreUrl`, `NewerSchema`, `StoreDamaged`, `StoreUnavailable`. Takes no lock."""
    path = sqlite_path(url)
    if path is None:
        return MemoryStore(wall_clock_ms)
    make_folder(path)
    return SqliteStore(path)


def make_folder(store: Path) -> None:
    """The folder of a store file. Raises `StoreUnavailable`."""
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"{store.parent} cannot be made: {error.strerror}") from error


def sqlite_path(url: str) -> Path | None:
    """The file of a `sqlite:` URL, None for `memory://`. Raises `UnknownStoreUrl`."""
    if url == "memory://":
        return None
    path = url.removeprefix(_SQLITE)
    if not url.startswith(_SQLITE) or not path.startswith("/") or path.endswith("/"):
        raise UnknownStoreUrl(f"{url!r} is no store URL: use sqlite:///absolute/path/store.db or memory://")
    return Path("/" + path.lstrip("/"))


def lock_path(store: Path) -> Path:
    """The lock that whoever writes this store holds."""
    return store.with_name(LOCK_NAME)
