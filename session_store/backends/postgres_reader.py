"""Reads of a PostgreSQL store on connections of their own, kept for the next one: they hold no writer up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

from session_store.backends.packing import reaching, session_state, unpack_fold
from session_store.backends.postgres_counters import read_census, read_counters
from session_store.backends.postgres_link import (
    Address,
    Connection,
    Watchdog,
    connect,
    failure,
    is_lost,
    passes,
)
from session_store.backends.postgres_rows import (
    LOG_HEAD,
    SELECT_SESSIONS,
    config_of,
    derive_fold,
    fetch,
    find_message,
    pending,
    read_rows,
)
from session_store.backends.postgres_schema import SCHEMA_VERSION, check_version
from session_store.errors import StoreUnavailable, UnknownSession
from session_store.requests import (
    Census,
    Commit,
    Counters,
    EntryRange,
    FindMessage,
    Pending,
    PendingMessages,
    Query,
    Read,
    ReplyT,
    Request,
)
from session_store.rows import CounterValues, MessageState, PodRow, Rows
from session_store.state import Summary, message_state, pod_row

MOST_CONNECTIONS = 8
RETRY_SECONDS = 8.0
"""How long a read or a commit is tried again while the server is away."""
FIRST_DELAY, LONGEST_DELAY = 0.05, 0.5
T = TypeVar("T")


class PostgresReader:
    """Answers the requests that only read, from any thread; also beside store actors that someone runs."""

    def __init__(self, address: Address, retry: float = RETRY_SECONDS) -> None:
        """Connects when first asked. `retry`: seconds for which a read is tried while the server is away."""
        self.address = address
        self._retry = retry
        self._idle: list[Connection] = []
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._guard = threading.Lock()
        self._watchdog = Watchdog()
        self._closed = False

    def execute(self, request: Request[ReplyT]) -> ReplyT:
        """Raises `UnknownSession`, `StoreDamaged`, `NewerSchema`, `StoreUnavailable`."""
        reply: ReplyT = self.read(lambda db: _answer(db, request), str(getattr(request, "session", "")))
        return reply

    def heads(self) -> tuple[Commit, ...]:
        """Every session with its head."""
        return self.read(
            lambda db: tuple(Commit(s, h) for s, h in fetch(db, "SELECT id, head FROM sessions ORDER BY no"))
        )

    def read(self, act: Callable[[Connection], T], session: str = "") -> T:
        """`act` on a connection, tried again while the server is away; the driver's errors come out as ours."""
        until = time.monotonic() + self._retry
        delay = FIRST_DELAY
        while True:
            try:
                with self._connection() as db, self._watchdog.over(db):
                    return act(db)
            except (psycopg.Error, UnicodeError) as error:
                again = isinstance(error, psycopg.Error) and (is_lost(error) or passes(error))
                if not again or time.monotonic() + delay > until:
                    raise failure(error, self.address, session, reading=True) from None
            time.sleep(delay)
            delay = min(2 * delay, LONGEST_DELAY)

    def close(self) -> None:
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        self._watchdog.close()
        for connection in idle:
            connection.close()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        if not self._places.acquire(timeout=self._retry or 1.0):
            raise StoreUnavailable(f"{MOST_CONNECTIONS} reads of the store are under way: try again later")
        try:
            with self._guard:
                db = self._idle.pop() if self._idle else None
            if db is None:
                db = self._opened()
            try:
                yield db
            except psycopg.Error as error:
                if is_lost(error):
                    self._drop_idle()
                raise
            finally:
                self._give_back(db)
        finally:
            self._places.release()

    def _opened(self) -> Connection:
        db = connect(self.address, reads_only=True)
        try:
            version = check_version(db, self.address)
        except BaseException:
            db.close()
            raise
        if version != SCHEMA_VERSION:
            db.close()
            what = "there is no store yet" if version == 0 else f"its schema has version {version}"
            raise StoreUnavailable(f"the store at {self.address.shown} cannot be read: {what}")
        return db

    def _give_back(self, db: Connection) -> None:
        with self._guard:
            if not self._closed and not db.closed:
                self._idle.append(db)
                return
        db.close()

    def _drop_idle(self) -> None:
        """After a restart of the server none of them is of use."""
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def exists(address: Address) -> bool:
    """Whether the database has a store. Raises `NewerSchema`, `StoreUnavailable`."""
    try:
        with connect(address, reads_only=True) as db:
            return check_version(db, address) > 0
    except psycopg.Error as error:
        raise failure(error, address, "", reading=True) from None


def _answer(db: Connection, request: Request[Any]) -> Any:
    match request:
        case Read():
            return _read(db, request)
        case Pending():
            head = _session(db, request.session)[1]
            return PendingMessages(pending(db, request.session, request.after), head)
        case Query():
            return _query(db, request)
        case FindMessage():
            return _find_message(db, request)
        case Counters():
            return CounterValues(read_counters(db))
        case Census():
            return read_census(db)
        case _:
            raise TypeError(f"{type(request).__name__} is no request that only reads")


def _session(db: Connection, session: str) -> tuple[int, int, int]:
    """The session's number, the head that the catalogue has, and the log's."""
    found = fetch(
        db,
        "SELECT no, head, coalesce((SELECT max(seq) FROM entries WHERE session = no), 0) FROM sessions WHERE id = %s",
        (session,),
    )
    if not found:
        raise UnknownSession(f"there is no session {session!r} in this store", session=session)
    no, catalogue, log = found[0]
    return no, catalogue, log


def _read(db: Connection, request: Read) -> EntryRange:
    no, catalogue, log = _session(db, request.session)
    head = reaching(request.session, log, catalogue)
    after = max(0, request.after)
    last = min(head, after + request.limit) if request.limit else head
    rows = read_rows(db, no, request.session, (after, last)) if after < last else []
    return EntryRange(tuple(rows), head)


def _find_message(db: Connection, request: FindMessage) -> MessageState:
    found = fetch(db, "SELECT no FROM sessions WHERE id = %s", (request.session,))
    record = find_message(db, found[0][0], request.message_id) if found else None
    if record is None:
        key = (request.session, request.message_id)
        if fetch(db, "SELECT 1 FROM strays WHERE session = %s AND message_id = %s", key):
            return MessageState(request.session, "undeliverable")
    return message_state(request.session, record)


def _query(db: Connection, request: Query) -> Rows:
    where, values = _conditions(request)
    limit = f" LIMIT {request.limit + 1}" if request.limit else ""
    found = fetch(db, f"{SELECT_SESSIONS} WHERE {where} ORDER BY s.no{limit}", values)
    page = found[: request.limit] if request.limit else found
    following = str(page[-1][0]) if len(found) > len(page) else None
    return Rows(tuple(_pod_row(db, row) for row in page), following)


def _conditions(request: Query) -> tuple[str, list[Any]]:
    wanted: tuple[tuple[str, Any], ...] = (
        ("s.no > %s", int(request.cursor or 0)),
        ("s.id = ANY(%s)", None if request.ids is None else list(request.ids)),
        ("s.tenant = %s", request.tenant),
        ("s.status = %s", request.status),
        ("s.parent_id = %s", request.parent),
        ("s.root_id = %s", request.root),
        ("s.name = %s", request.name),
        ("s.message_id = %s", request.made_by),
        ("s.needs_owner = %s", request.needs_owner),
        ("(s.status = 'waiting_on_user') = %s", request.waiting_on_person),
    )
    given = [(condition, value) for condition, value in wanted if value is not None]
    return " AND ".join(condition for condition, _ in given), [value for _, value in given]


def _pod_row(db: Connection, row: tuple[Any, ...]) -> PodRow:
    fold = unpack_fold(row[21])
    if fold is None:
        fold = derive_fold(db, row[0], row[1], reaching(row[1], row[LOG_HEAD], row[13]))
    state = session_state(row, fold, config_of(db, row))
    summary = Summary(row[24], row[25], row[24] == "waiting_on_user")
    return pod_row(state, summary, row[19])
