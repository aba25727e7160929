"""The embedded default: one SQLite file, WAL, `synchronous = FULL`, one writer, any number of readers."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from session_store.backends.sqlite_reader import READS, SqliteReader
from session_store.backends.sqlite_rows import damage_of
from session_store.backends.sqlite_schema import is_damage, open_writer
from session_store.backends.sqlite_tables import SqliteTables
from session_store.counters import total
from session_store.counting import refusal
from session_store.errors import Refused, StoreError, StoreUnavailable
from session_store.notices import Notices
from session_store.requests import Commit, Commits, Counters, Follow, ReplyT, Request
from session_store.rows import CounterValues
from session_store.transactions import perform


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class SqliteStore:
    """A `Store` over one file; also carries out whole batches in one commit.

    Safe to call from any thread: writes go one batch at a time, reads do not wait for them. Whoever makes one sees to
    it that no other process writes the file (see `session_store.lock`).
    """

    def __init__(self, path: Path, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        """Opens or creates the file. Raises `NewerSchema`, `StoreDamaged`, `StoreUnavailable`."""
        self._now_ms = now_ms
        self._db = open_writer(path)
        self._reader = SqliteReader(path)
        self._tables = SqliteTables(self._db)
        self._writing = threading.Lock()
        self._closed = False
        self._notices = Notices(self._next_incarnation())

    def execute(self, request: Request[ReplyT]) -> ReplyT:
        """Carry out one request. Raises `Refused` or `StoreUnavailable`."""
        reply: Any
        if isinstance(request, READS) and not isinstance(request, Counters):
            reply = self._reader.execute(request)
        elif isinstance(request, Counters):
            with self._writing:  # so that what the next commit will hold is told neither twice nor not at all
                reply = CounterValues(total(self._reader.execute(request).values, self._tables.counters.unwritten()))
        elif isinstance(request, Follow):
            reply = self._follow(request)
        else:
            (reply,) = self.execute_batch((request,))
            if isinstance(reply, Exception):
                raise reply
        return reply  # type: ignore[no-any-return]  # the request names its reply's type

    def execute_batch(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """Carry out writing requests with one commit; for each its reply, or the exception it would have raised.

        Nothing is answered as done before the commit is on disk. If the commit fails, each is tried by itself, so that
        one that does not fit spoils no other; what then fails is `StoreUnavailable`.
        """
        with self._writing:
            if self._closed:
                return [StoreUnavailable("the store is closed")] * len(requests)
            try:
                return self._commit(requests)
            except sqlite3.Error as error:
                if len(requests) == 1:
                    return [_failure(error, requests[0])]
            return [self._commit_one(request) for request in requests]

    def close(self) -> None:
        """Let followers go and close the file. What is committed is committed."""
        self._notices.close()
        with self._writing:
            self._closed = True
            self._reader.close()
            self._db.close()

    def _commit_one(self, request: Request[Any]) -> Any:
        try:
            return self._commit((request,))[0]
        except sqlite3.Error as error:
            return _failure(error, request)

    def _commit(self, requests: Sequence[Request[Any]]) -> list[Any]:
        tables = self._tables
        tables.touched = {}
        try:
            self._db.execute("BEGIN IMMEDIATE")
            replies = [self._perform(request, alone=len(requests) == 1) for request in requests]
            if self._db.in_transaction:  # a request alone in its batch may have been rolled back
                tables.counters.write()
                self._db.execute("COMMIT")
            tables.counters.written()
        except BaseException:
            tables.forget()
            tables.counters.drop()
            self._roll_back()
            raise
        tables.trim()
        if tables.touched:
            self._notices.publish(Commit(s, h) for s, h in tables.touched.items())
        return replies

    def _perform(self, request: Request[Any], *, alone: bool) -> Any:
        self._tables.begin(savepoint=not alone)
        try:
            reply = perform(self._tables, request, self._now_ms())
            self._tables.end()
        except sqlite3.Error:
            raise
        except Exception as error:
            if not self._tables.undo():
                self._take_all_back(alone)
            if isinstance(error, Refused):
                self._tables.counters.refuse(refusal(request, error))
            return error
        return reply

    def _take_all_back(self, alone: bool) -> None:
        self._roll_back()
        if not alone:
            raise sqlite3.OperationalError("the transaction was lost")  # what came before it must be done again

    def _roll_back(self) -> None:
        """SQLite may have rolled back by itself, as it does when the disk is full."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _follow(self, request: Follow) -> Commits:
        found = self._notices.wait(request.cursor, request.wait)
        if found is not None:
            return found
        cursor = self._notices.cursor  # before the heads are read: a commit in between is told twice, never missed
        return Commits(cursor, self._reader.heads())

    def _next_incarnation(self) -> int:
        try:
            number = self._tables.meta("incarnation") + 1
            self._db.execute("BEGIN IMMEDIATE")
            self._tables.begin(savepoint=False)
            self._tables.put_meta("incarnation", number)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            self._db.close()
            raise StoreUnavailable(f"the store cannot be written: {error}") from error
        return number


def _failure(error: sqlite3.Error, request: Request[Any]) -> StoreError:
    if is_damage(error):
        refused: Refused = damage_of(error, str(getattr(request, "session", "")))
        return refused
    return StoreUnavailable(
        f"the store could not commit: {error}. Nothing was written; the same request may be sent again"
    )
