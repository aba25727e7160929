"""Counters and census in SQLite.

Each transaction adds one row with what it counted, in the page that the last one wrote too: a few microseconds. Every
`MOST_ROWS` of them are made into one. Refusals write nothing and so count with the next transaction that does.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress

import msgpack

from session_store.backends.census import open_since, waiting
from session_store.backends.sqlite_rows import PENDING, unpack_fold
from session_store.backends.sqlite_schema import is_damage
from session_store.codec import pack, unpack
from session_store.counters import total
from session_store.rows import CensusFigures, PodCount, Waiting

MOST_ROWS = 256


class CounterRows:
    """What the requests of one transaction after another add. Called by the one who writes; `unwritten` by anyone."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._request: dict[str, int] = {}
        self._transaction: dict[str, int] = {}
        self._refused: dict[str, int] = {}
        self._later: dict[str, int] = {}
        self._damaged = False
        self._rows = MOST_ROWS
        """Rows there may be; begins at the most, so that the first transaction makes them one."""

    def begin(self) -> None:
        """A request starts: what one before it counted and did not keep is gone."""
        if self._request:
            self._request = {}

    def count(self, key: str, more: int) -> None:
        self._request[key] = self._request.get(key, 0) + more

    def end(self) -> None:
        """The request is kept."""
        if self._transaction:
            total(self._request, self._transaction)
        else:
            self._transaction = self._request
        self._request = {}

    def refuse(self, key: str) -> None:
        """Count something that wrote nothing."""
        total({key: 1}, self._refused)

    def write(self) -> None:
        """Before the commit. Where the table is damaged, counting goes on in memory, and so do all commits."""
        try:
            self._write()
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            self._damaged = True

    def _write(self) -> None:
        if not self._transaction or self._damaged:
            return
        counted = total(self._transaction, total(self._refused, dict(self._later)))
        if self._rows >= MOST_ROWS:
            counted = total(read_counters(self._db), counted)
            self._db.execute("DELETE FROM counters")
            self._rows = 0
        self._db.execute("INSERT INTO counters (counts) VALUES (?)", (pack(counted),))
        self._rows += 1

    def written(self) -> None:
        """After the commit."""
        if self._transaction and not self._damaged:
            self._later = {}
        elif self._transaction or self._refused:
            self._later = total(self._transaction, total(self._refused, dict(self._later)))
        self._transaction, self._refused = {}, {}

    def drop(self) -> None:
        """The transaction was lost."""
        self._request, self._transaction, self._refused, self._rows = {}, {}, {}, MOST_ROWS

    def unwritten(self) -> dict[str, int]:
        return self._later


def read_counters(connection: sqlite3.Connection) -> dict[str, int]:
    counted: dict[str, int] = {}
    for (counts,) in connection.execute("SELECT counts FROM counters"):
        with suppress(ValueError, TypeError, AttributeError, msgpack.UnpackException):  # a damaged row is left out
            total({str(k): int(n) for k, n in unpack(counts).items()}, counted)
    return counted


def read_census(connection: sqlite3.Connection) -> CensusFigures:
    grouped = connection.execute(
        "SELECT status, profile, count(*), sum(queue), max(queue) FROM sessions GROUP BY status, profile"
    )
    pods = tuple(PodCount(*row) for row in grouped)
    pending = connection.execute(f"SELECT kind, count(*), min(ts) FROM messages WHERE state = {PENDING} GROUP BY kind")
    messages = tuple(Waiting(*row) for row in pending)
    asked = connection.execute("SELECT fold FROM sessions WHERE status = 'waiting_on_user'")
    folds = [unpack_fold(fold) for (fold,) in asked]
    open_ones = [fold.question for fold in folds if fold is not None and fold.question is not None]
    return CensusFigures(pods, messages, waiting(map(open_since, open_ones)))
