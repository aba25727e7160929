"""Counters and census in SQLite. A transaction's row lies in the page that the last one wrote too: microseconds."""

from __future__ import annotations

import sqlite3

from session_store.backends.census import open_since, waiting
from session_store.backends.counted import MOST_ROWS, Counted, summed
from session_store.backends.packing import PENDING, unpack_fold
from session_store.backends.sqlite_schema import is_damage
from session_store.codec import pack
from session_store.counters import total
from session_store.rows import CensusFigures, PodCount, Waiting


class CounterRows(Counted):
    """Over the writing connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._db = connection
        self._damaged = False
        self._rows = MOST_ROWS
        """Rows there may be; begins at the most, so that the first transaction makes them one."""

    def write(self) -> None:
        """Before the commit. Where the table is damaged, counting goes on in memory, and so do all commits."""
        try:
            if not self._damaged:
                self._write(self.gathered())
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            self._damaged = True

    def _write(self, counted: dict[str, int]) -> None:
        if not counted:
            return
        if self._rows >= MOST_ROWS:
            counted = total(read_counters(self._db), counted)
            self._db.execute("DELETE FROM counters")
            self._rows = 0
        self._db.execute("INSERT INTO counters (counts) VALUES (?)", (pack(counted),))
        self._rows += 1

    def written(self) -> None:
        """After the commit."""
        self.committed(written=not self._damaged)

    def drop(self) -> None:
        super().drop()
        self._rows = MOST_ROWS


def read_counters(connection: sqlite3.Connection) -> dict[str, int]:
    return summed(counts for (counts,) in connection.execute("SELECT counts FROM counters"))


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
