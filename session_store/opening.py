"""From a store URL to a store: `sqlite:///absolute/path/store.db`, `postgresql://user@host/database`, `memory://`.

The driver of PostgreSQL is imported only for such a URL. A URL may hold a password: `shown` is what people get to see.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from session_store.backends.memory import MemoryStore
from session_store.backends.sqlite import SqliteStore, wall_clock_ms
from session_store.backends.sqlite_reader import SqliteReader
from session_store.check import check as check_sqlite
from session_store.checking import Damage
from session_store.errors import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from session_store.backends.postgres import PostgresStore
    from session_store.backends.postgres_link import Address
    from session_store.backends.postgres_owner import DatabaseOwnership
    from session_store.backends.postgres_reader import PostgresReader

AnyStore: TypeAlias = "MemoryStore | SqliteStore | PostgresStore"
AnyReader: TypeAlias = "SqliteReader | PostgresReader"
LOCK_NAME = "store.lock"
_SQLITE = "sqlite://"
_POSTGRES = ("postgresql://", "postgres://")


class UnknownStoreUrl(StoreError):
    """The settings name a store that this polypod has no backend for, or an address that is malformed."""


def is_postgres(url: str) -> bool:
    return url.startswith(_POSTGRES)


def open_store(url: str) -> AnyStore:
    """Raises `UnknownStoreUrl`, `NewerSchema`, `StoreDamaged`, `StoreUnavailable`. Takes no lock."""
    if is_postgres(url):
        from session_store.backends.postgres import PostgresStore  # lazy: the driver, see above

        _address(url)
        return PostgresStore(url)
    path = sqlite_path(url)
    if path is None:
        return MemoryStore(wall_clock_ms)
    make_folder(path)
    return SqliteStore(path)


def open_reader(url: str) -> AnyReader | None:
    """For reads only, also beside whoever runs the store; None while there is none at that address.

    Raises `UnknownStoreUrl`, `NewerSchema`, `StoreUnavailable`.
    """
    if is_postgres(url):
        from session_store.backends.postgres_reader import PostgresReader, exists  # lazy: the driver, see above

        address = _address(url)
        return PostgresReader(address, retry=0.0) if exists(address) else None
    path = sqlite_path(url)
    return SqliteReader(path) if path is not None and path.exists() else None


def own_database(url: str) -> DatabaseOwnership | None:
    """Hold a database against other owners, until closed; None for a store that a home's lock guards.

    Raises `UnknownStoreUrl`, `StoreUnavailable` (`DatabaseOwned` when somebody else holds it).
    """
    if not is_postgres(url):
        return None
    from session_store.backends.postgres_owner import DatabaseOwnership  # lazy: the driver, see above

    _address(url)
    return DatabaseOwnership(url)


def damage_of(url: str) -> list[Damage] | None:
    """All damage; None where there is no store yet. Raises `UnknownStoreUrl`, `NewerSchema`, `StoreUnavailable`."""
    if is_postgres(url):
        from session_store.backends.postgres_check import check_postgres  # lazy: the driver, see above
        from session_store.backends.postgres_reader import exists  # lazy: the driver, see above

        address = _address(url)
        return check_postgres(address) if exists(address) else None
    path = sqlite_path(url)
    return check_sqlite(path) if path is not None and path.exists() else None


def shown(url: str) -> str:
    """What to call the store before people: a path, or an address without its password."""
    if is_postgres(url):
        return _address(url).shown
    path = sqlite_path(url)
    return url if path is None else str(path)


def make_folder(store: Path) -> None:
    """The folder of a store file. Raises `StoreUnavailable`."""
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"{store.parent} cannot be made: {error.strerror}") from error


def sqlite_path(url: str) -> Path | None:
    """The file of a `sqlite:` URL, None for a store that is no file. Raises `UnknownStoreUrl`."""
    if url == "memory://" or is_postgres(url):
        return None
    path = url.removeprefix(_SQLITE)
    if not url.startswith(_SQLITE) or not path.startswith("/") or path.endswith("/"):
        told = url if "@" not in url else f"{url.partition(':')[0]}:…"  # there may be a password before the @
        raise UnknownStoreUrl(
            f"{told!r} is no store URL: use sqlite:///absolute/path/store.db, postgresql://user@host/database or memory://"
        )
    return Path("/" + path.lstrip("/"))


def lock_path(store: Path) -> Path:
    """The lock that whoever writes this store holds."""
    return store.with_name(LOCK_NAME)


def _address(url: str) -> Address:
    from session_store.backends.postgres_link import address_of  # lazy: the driver, see above

    address = address_of(url)
    if address is None:
        raise UnknownStoreUrl(
            "the store's URL is malformed: use postgresql://user@host:port/database, with `%40` for a `@` and `%2F`"
            " for a `/` in a password"
        )
    return address
