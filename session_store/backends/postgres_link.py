"""How a PostgreSQL server is reached: addresses shown without their password, connections, and what its errors mean."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from session_store.errors import ConditionFailed, Refused, StoreError, StoreUnavailable
from session_store.reading import damaged

SCHEMES = ("postgresql://", "postgres://")
SCHEMA = "polypod"
"""The PostgreSQL schema (namespace) that holds the store's tables."""
CONNECT_SECONDS = 5
LOCK_SECONDS = 4.0
"""How long a transaction waits for a row that another store actor holds; then it is rolled back and done again."""
IDLE_SECONDS = 10
STATEMENT_SECONDS = 30
STUCK_SECONDS = 20.0
"""After so long without any answer from the server the connection is cut from this side."""
_REACH = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # ms
    "target_session_attrs": "read-write",  # of several hosts the one that is no standby, to read what was just written
    "application_name": "polypod",
}
_SETTINGS = {
    "search_path": SCHEMA,
    "default_transaction_isolation": "read committed",
    "statement_timeout": f"{STATEMENT_SECONDS}s",
    # A store actor that is frozen or cut off holds no rows for longer than this.
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    # The server's own eye on the way to us: what a machine held that is gone becomes free in some 11 s.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}

Connection: TypeAlias = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Address:
    """A store's URL. Its password is in no text that this class gives but `url`."""

    url: str
    shown: str
    secret: str = ""

    def __repr__(self) -> str:
        return f"Address({self.shown})"

    def clean(self, text: str) -> str:
        """`text` without the password, in whatever form a driver may have put it there."""
        for secret in {self.secret, quote(self.secret, safe="")} if self.secret else ():
            text = text.replace(secret, "***")
        return text.replace(self.url, self.shown)


def address_of(url: str) -> Address | None:
    """None for what is no PostgreSQL URL, or is malformed. Nothing of a bad one is told: a password may be in it."""
    if not url.startswith(SCHEMES):
        return None
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        return None
    user = f"{parts['user']}@" if parts.get("user") else ""
    port = f":{parts['port']}" if parts.get("port") else ""
    shown = f"postgresql://{user}{parts.get('host') or ''}{port}/{parts.get('dbname') or ''}"
    return Address(url, shown, str(parts.get("password") or ""))


def connect(address: Address, *, reads_only: bool = False, lock_wait: float = LOCK_SECONDS) -> Connection:
    """A connection in autocommit mode with everything bounded. Raises `psycopg.Error`."""
    given = conninfo_to_dict(address.url)
    reach: dict[str, Any] = {k: v for k, v in _REACH.items() if k not in given}
    connection = psycopg.connect(address.url, autocommit=True, **reach)
    try:
        settings = {
            **_SETTINGS,
            "lock_timeout": f"{lock_wait * 1000:.0f}ms",
            **({"default_transaction_read_only": "on"} if reads_only else {}),
        }
        calls = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
        connection.execute(f"SELECT {calls}")
        if not reads_only:  # what is acknowledged is on disk, whatever the server's default is
            off = "current_setting('synchronous_commit') = 'off'"
            connection.execute(f"SELECT set_config('synchronous_commit', 'on', false) WHERE {off}".encode())
    except BaseException:
        connection.close()
        raise
    return connection


def is_lost(error: psycopg.Error) -> bool:
    """Whether the server or the way to it is gone, or is about to be: the connection is of no more use."""
    if isinstance(error, (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow)):
        return True
    if isinstance(error, (errors.IdleInTransactionSessionTimeout, errors.ReadOnlySqlTransaction)):
        return True
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and error.sqlstate is None


def passes(error: psycopg.Error) -> bool:
    """Whether the same transaction may succeed when it is done again: others were in its way."""
    return isinstance(
        error,
        (
            errors.SerializationFailure,
            errors.DeadlockDetected,
            errors.LockNotAvailable,
            errors.UniqueViolation,  # somebody else made it meanwhile: the next try finds it
            errors.TooManyConnections,
        ),
    )


def failure(
    error: psycopg.Error | UnicodeError, address: Address, session: str, *, reading: bool = False
) -> StoreError:
    """Our error for one of the driver's."""
    words = address.clean(str(error)).strip().replace("\n", " ")
    if isinstance(error, (errors.DataCorrupted, errors.IndexCorrupted)):
        return damaged(session, 0, words)
    if isinstance(error, (psycopg.DataError, errors.ProgramLimitExceeded, UnicodeError)):
        refused: Refused = ConditionFailed(
            f"PostgreSQL cannot keep this: {words}", reason="invalid", **({"session": session} if session else {})
        )
        return refused
    if reading:
        return StoreUnavailable(f"the store at {address.shown} cannot be read: {words}")
    return StoreUnavailable(
        f"the store at {address.shown} could not commit: {words}. The same request may be sent again"
    )


class Watchdog:
    """Cuts a connection whose server gives no answer: a frozen one would hold its caller for ever."""

    def __init__(self, limit: float = STUCK_SECONDS) -> None:
        self._limit = limit
        self._guard = threading.Lock()
        self._watched: dict[int, tuple[float, Connection]] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def over(self, connection: Connection) -> Iterator[None]:
        """The connection is cut when this block takes longer than the limit; its call then fails as a lost one."""
        with self._guard:
            self._watched[id(connection)] = (time.monotonic() + self._limit, connection)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="store-watchdog", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._guard:
                self._watched.pop(id(connection), None)

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(min(1.0, self._limit / 4)):
            with self._guard:
                now = time.monotonic()
                for until, connection in self._watched.values():
                    if now > until:
                        _cut(connection)


def _cut(connection: Connection) -> None:
    """End the socket under the driver: whoever waits in it hears of it at once."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=socket.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
