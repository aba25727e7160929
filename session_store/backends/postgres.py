"""The store of a cluster: a PostgreSQL database that several store actors may write at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from session_store.backends.postgres_link import (
    LOCK_SECONDS,
    Address,
    Connection,
    Watchdog,
    address_of,
    connect,
    failure,
    is_lost,
    passes,
)
from session_store.backends.postgres_listener import CHANNEL, PostgresListener, notices
from session_store.backends.postgres_locks import Contended, Locks, locks_for
from session_store.backends.postgres_reader import FIRST_DELAY, LONGEST_DELAY, RETRY_SECONDS, PostgresReader
from session_store.backends.postgres_schema import migrate, refused
from session_store.backends.postgres_tables import PostgresTables
from session_store.backends.sqlite import wall_clock_ms
from session_store.backends.sqlite_reader import READS
from session_store.counters import total
from session_store.counting import refusal
from session_store.errors import Refused, StoreError, StoreUnavailable
from session_store.notices import Notices
from session_store.requests import ClaimDirectory, Commit, Commits, Counters, Follow, ReplyT, Request
from session_store.rows import CounterValues
from session_store.transactions import perform

_NEXT_WRITER = (
    "INSERT INTO meta VALUES ('incarnation', 1) ON CONFLICT (key) DO UPDATE SET value = meta.value + 1 RETURNING value"
)

MOST_TRIES = 50
"""Of one transaction that others are in the way of, if its time is not over before."""


class _RolledBack(Exception):
    """A request that failed had written, and cannot be taken back alone: those before it must be done again."""


class PostgresStore:
    """A `Store` over one database; also carries out whole batches in one commit.

    Safe to call from any thread: writes go one batch at a time, reads do not wait for them. While the server is away
    or others are in the way, a batch is done again for some seconds; a commit whose answer was lost is asked after by
    its transaction's number first, so that nothing is done twice.
    """

    def __init__(self, url: str, now_ms: Callable[[], int] = wall_clock_ms, retry: float = RETRY_SECONDS) -> None:
        """Makes or updates the schema. Raises `NewerSchema`, `StoreUnavailable`."""
        address = address_of(url)
        if address is None:
            raise StoreUnavailable("the store's address is no PostgreSQL URL")
        self._address: Address = address
        self._now_ms = now_ms
        self._retry = retry
        self._db, writer = self._prepared()
        self._tables = PostgresTables()
        self._tables.writer = writer
        self._reader = PostgresReader(address, retry)
        self._watchdog = Watchdog()
        self._writing = threading.Lock()
        self._closed = False
        self._notices = Notices(writer)
        self._listener = PostgresListener(address, writer, self._notices)

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

        Nothing is answered as done before the server has it on disk. What the server cannot keep is found by trying
        each by itself, so that one that does not fit spoils no other.
        """
        with self._writing:
            if self._closed:
                return [StoreUnavailable("the store is closed")] * len(requests)
            until = time.monotonic() + self._retry
            if len(requests) == 1 or any(isinstance(r, ClaimDirectory) for r in requests):
                return [self._one(request, until) for request in requests]
            try:
                return self._settled(requests, until)
            except StoreError as error:
                return [error] * len(requests)
            except (psycopg.Error, UnicodeError, _RolledBack):
                return self._each(requests, until)

    def close(self) -> None:
        """Let followers go and the connections. What is committed is committed."""
        self._notices.close()
        self._listener.close()
        with self._writing:
            self._closed = True
            self._reader.close()
            self._watchdog.close()
            if self._db is not None:
                self._db.close()

    def _each(self, requests: Sequence[Request[Any]], until: float) -> list[Any]:
        """One by one; within a bound, however many of them wait for what somebody holds."""
        replies: list[Any] = []
        longest = time.monotonic() + self._retry
        for request in requests:
            if time.monotonic() > longest:
                replies.append(StoreUnavailable("the store was busy with others: the same request may be sent again"))
            else:
                replies.append(self._one(request, until))
        return replies

    def _one(self, request: Request[Any], until: float) -> Any:
        try:
            return self._settled((request,), until)[0]
        except (psycopg.Error, UnicodeError) as error:
            return failure(error, self._address, str(getattr(request, "session", "")))
        except Exception as error:  # a refusal that came after the request had written, or a defect: its caller's
            return error

    def _settled(self, requests: Sequence[Request[Any]], until: float) -> list[Any]:
        """The transaction, done again while others are in its way or the server is away. Raises what does not pass."""
        locks = locks_for(requests)
        delay, tries = FIRST_DELAY, 0
        while True:
            tries += 1
            last = tries == MOST_TRIES or time.monotonic() + delay > until
            try:
                return self._transaction(requests, locks)
            except Contended as error:
                locks.add(error)
                if last:
                    words = f"other store actors keep changing {error}: the same request may be sent again"
                    raise StoreUnavailable(words) from None
            except psycopg.Error as error:
                if last and is_lost(error):  # the same for each of them
                    raise failure(error, self._address, "") from None
                if last or not (is_lost(error) or passes(error)):
                    raise
                time.sleep(delay)
                delay = min(2 * delay, LONGEST_DELAY)

    def _transaction(self, requests: Sequence[Request[Any]], locks: Locks) -> list[Any]:
        db, tables = self._connection(), self._tables
        tables.xid = None
        replies: list[Any] = []
        committing = False
        try:
            with self._watchdog.over(db), db.pipeline():
                tables.enter(db, locks, alone=isinstance(requests[0], ClaimDirectory))
                replies = [self._perform(request, alone=len(requests) == 1) for request in requests]
                tables.counters.write(db)
                committing = True
                db.execute("COMMIT")
                commits = [Commit(s, h) for s, h in tables.touched.items()]
                for payload in notices(tables.writer, commits):
                    db.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload))
        except BaseException as error:
            xid, touched = tables.xid, tables.touched
            tables.forget()
            lost = self._given_up(db, error)
            if not (committing and lost and isinstance(error, psycopg.Error) and self._came_through(xid)):
                tables.counters.drop()
                raise
            commits = [Commit(s, h) for s, h in touched.items()]
        tables.counters.committed()
        if commits:
            self._notices.publish(commits)
        return replies

    def _perform(self, request: Request[Any], *, alone: bool) -> Any:
        self._tables.begin()
        try:
            reply = perform(self._tables, request, self._now_ms())
        except (psycopg.Error, UnicodeError, Contended):
            raise
        except Exception as error:
            if not self._tables.wrote:
                if isinstance(error, Refused):
                    self._tables.counters.refuse(refusal(request, error))
                return error
            if alone:
                raise
            raise _RolledBack from error
        self._tables.counters.end()
        return reply

    def _given_up(self, db: Connection, error: BaseException) -> bool:
        """Roll back. True if the connection is gone, and with it the knowledge of what became of a commit."""
        try:
            if not isinstance(error, psycopg.Error):
                with self._watchdog.over(db):
                    db.execute("ROLLBACK")
                return False
        except psycopg.Error:
            pass
        # After an error in a pipeline the driver may believe in prepared statements that the server skipped.
        db.close()
        self._db = None
        return True

    def _came_through(self, xid: str | None) -> bool:
        """Whether the transaction whose answer was lost has been committed. False also where that cannot be known.

        Then the requests are done again and are found done by their own ids.
        """
        until = time.monotonic() + self._retry
        delay = FIRST_DELAY
        while xid is not None and time.monotonic() < until:
            try:
                db = self._connection()
                with self._watchdog.over(db):
                    row = db.execute("SELECT pg_xact_status(%s::xid8)", (xid,)).fetchone()
            except psycopg.Error as error:
                if not is_lost(error):
                    return False
            else:
                if row is None or row[0] != "in progress":
                    return row is not None and row[0] == "committed"
            time.sleep(delay)
            delay = min(2 * delay, LONGEST_DELAY)
        return False

    def _connection(self) -> Connection:
        """The writing connection, made anew when it was lost. Raises `psycopg.Error`."""
        if self._db is None or self._db.closed:
            self._db = None
            self._db = connect(self._address, lock_wait=min(LOCK_SECONDS, self._retry / 2))
        return self._db

    def _prepared(self) -> tuple[Connection | None, int]:
        """The writing connection with the schema up to date, and this store's number among all there ever were."""
        try:
            db = connect(self._address, lock_wait=min(LOCK_SECONDS, self._retry / 2))
        except psycopg.Error as error:
            raise StoreUnavailable(
                f"the store at {self._address.shown} cannot be reached: {self._address.clean(str(error)).strip()}"
            ) from None
        try:
            migrate(db, self._address)
            row = db.execute(_NEXT_WRITER).fetchone()
        except psycopg.Error as error:
            db.close()
            raise refused(error, self._address) from None
        except BaseException:
            db.close()
            raise
        assert row is not None
        return db, int(row[0])

    def _follow(self, request: Follow) -> Commits:
        self._listener.start()
        found = self._notices.wait(request.cursor, request.wait)
        if found is not None:
            return found
        cursor = self._notices.cursor  # before the heads are read: a commit in between is told twice, never missed
        return Commits(cursor, self._reader.heads())
