"""Reads of a SQLite store on connections of their own: they hold no one up, in this process or another."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from session_store.backends.packing import message_of, session_state, unpack_fold
from session_store.backends.sqlite_counters import read_census, read_counters
from session_store.backends.sqlite_rows import (
    SELECT_PENDING,
    SELECT_SESSIONS,
    checked_head,
    config_of,
    damage_of,
    derive_fold,
    read_rows,
)
from session_store.backends.sqlite_schema import PLACE_BITS, PLACE_MASK, is_damage, open_reader
from session_store.backends.sqlite_tables import find_message
from session_store.errors import StoreDamaged, StoreUnavailable, UnknownSession
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

READS = (Read, Pending, Query, FindMessage, Counters, Census)


class SqliteReader:
    """Answers the requests that only read, from any thread; also beside a store that someone runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._closed = False

    def execute(self, request: Request[ReplyT]) -> ReplyT:
        """Raises `UnknownSession`, `StoreDamaged`, `StoreUnavailable`."""
        with self.connection(str(getattr(request, "session", ""))) as db:
            reply: Any = _answer(db, request)
        return reply  # type: ignore[no-any-return]  # the request names its reply's type

    def heads(self) -> tuple[Commit, ...]:
        """Every session with its head."""
        with self.connection("") as db:
            return tuple(Commit(s, h) for s, h in db.execute("SELECT id, head FROM sessions ORDER BY no"))

    def close(self) -> None:
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def connection(self, session: str) -> Iterator[sqlite3.Connection]:
        """A connection for one read; SQLite's errors come out as ours."""
        with self._guard:
            db = self._idle.pop() if self._idle else None
        try:
            db = db or open_reader(self._path)
            yield db
        except sqlite3.Error as error:
            raise _failure(error, session) from error
        finally:
            self._give_back(db)

    def _give_back(self, db: sqlite3.Connection | None) -> None:
        if db is None:
            return
        with self._guard:
            if not self._closed:
                self._idle.append(db)
                return
        db.close()


def _failure(error: sqlite3.Error, session: str) -> StoreDamaged | StoreUnavailable:
    return damage_of(error, session) if is_damage(error) else StoreUnavailable(f"the store cannot be read: {error}")


def _answer(db: sqlite3.Connection, request: Request[Any]) -> Any:
    match request:
        case Read():
            return _read(db, request)
        case Pending():
            return _pending(db, request)
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


def _session_no(db: sqlite3.Connection, session: str) -> tuple[int, int]:
    """The session's number and the head that the catalogue has."""
    row = db.execute("SELECT no, head FROM sessions WHERE id = ?", (session,)).fetchone()
    if row is None:
        raise UnknownSession(f"there is no session {session!r} in this store", session=session)
    return row[0], row[1]


def _read(db: sqlite3.Connection, request: Read) -> EntryRange:
    no, catalogue = _session_no(db, request.session)
    head = checked_head(db, no, request.session, catalogue)
    after = max(0, request.after)
    last = min(head, after + request.limit) if request.limit else head
    rows = read_rows(db, no, request.session, (after, last)) if after < last else []
    return EntryRange(tuple(rows), head)


def _pending(db: sqlite3.Connection, request: Pending) -> PendingMessages:
    no, head = _session_no(db, request.session)
    base = no << PLACE_BITS
    found = db.execute(SELECT_PENDING, (base + max(0, request.after), base | PLACE_MASK))
    return PendingMessages(tuple(map(message_of, found)), head)


def _find_message(db: sqlite3.Connection, request: FindMessage) -> MessageState:
    row = db.execute("SELECT no FROM sessions WHERE id = ?", (request.session,)).fetchone()
    record = None if row is None else find_message(db, row[0], request.message_id)
    if record is None:
        stray = db.execute(
            "SELECT 1 FROM strays WHERE session = ? AND message_id = ?", (request.session, request.message_id)
        )
        if stray.fetchone() is not None:
            return MessageState(request.session, "undeliverable")
    return message_state(request.session, record)


def _query(db: sqlite3.Connection, request: Query) -> Rows:
    where, values = _conditions(request)
    limit = request.limit + 1 if request.limit else -1
    found = db.execute(f"{SELECT_SESSIONS} WHERE {where} ORDER BY s.no LIMIT ?", (*values, limit)).fetchall()
    page = found[: request.limit] if request.limit else found
    following = str(page[-1][0]) if len(found) > len(page) else None
    return Rows(tuple(_pod_row(db, row) for row in page), following)


def _conditions(request: Query) -> tuple[str, list[Any]]:
    pairs: list[tuple[str, Any]] = [("s.no > ?", int(request.cursor or 0))]
    if request.ids is not None:
        marks = ", ".join("?" * len(request.ids))
        pairs += [(f"s.id IN ({marks})", request.ids)]
    wanted = (
        ("s.tenant = ?", request.tenant),
        ("s.status = ?", request.status),
        ("s.parent_id = ?", request.parent),
        ("s.root_id = ?", request.root),
        ("s.name = ?", request.name),
        ("s.message_id = ?", request.made_by),
    )
    pairs += [(condition, value) for condition, value in wanted if value is not None]
    if request.needs_owner is not None:
        pairs.append((f"s.needs_owner = {int(request.needs_owner)}", ()))
    if request.waiting_on_person is not None:
        pairs.append((f"s.status {'=' if request.waiting_on_person else '<>'} 'waiting_on_user'", ()))
    values: list[Any] = []
    for _, value in pairs:
        values.extend(value if isinstance(value, tuple) else (value,))
    return " AND ".join(condition for condition, _ in pairs), values


def _pod_row(db: sqlite3.Connection, row: tuple[Any, ...]) -> PodRow:
    fold = unpack_fold(row[21])
    if fold is None:
        fold = derive_fold(db, row[0], row[1], checked_head(db, row[0], row[1], row[13]))
    state = session_state(row, fold, config_of(db, row))
    summary = Summary(row[24], bool(row[25]), row[24] == "waiting_on_user")
    return pod_row(state, summary, row[19])
