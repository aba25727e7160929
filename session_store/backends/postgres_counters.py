"""Counters and census in PostgreSQL. Several store actors add rows at the same time; whoever has added enough of them
makes those that nobody else is at into one."""

from __future__ import annotations

from session_store.backends.census import open_since, waiting
from session_store.backends.counted import MOST_ROWS, Counted, summed
from session_store.backends.packing import PENDING, unpack_fold
from session_store.backends.postgres_link import Connection
from session_store.backends.postgres_rows import fetch
from session_store.codec import pack
from session_store.counters import total
from session_store.rows import CensusFigures, PodCount, Waiting

_GATHER = (
    "DELETE FROM counters WHERE no IN (SELECT no FROM counters ORDER BY no FOR UPDATE SKIP LOCKED) RETURNING counts"
)


class PostgresCounters(Counted):
    def __init__(self) -> None:
        super().__init__()
        self._rows = 0
        """Rows that were added here since they were made one."""

    def write(self, db: Connection) -> None:
        """Before the commit; in a pipeline it costs no trip."""
        counted = self.gathered()
        if not counted:
            return
        if self._rows >= MOST_ROWS:
            counted = total(summed(row[0] for row in fetch(db, _GATHER)), counted)
            self._rows = 0
        db.execute("INSERT INTO counters (counts) VALUES (%s)", (pack(counted),))
        self._rows += 1


def read_counters(db: Connection) -> dict[str, int]:
    return summed(row[0] for row in fetch(db, "SELECT counts FROM counters"))


def read_census(db: Connection) -> CensusFigures:
    grouped = fetch(
        db,
        "SELECT status, profile, count(*), sum(queue)::bigint, max(queue) FROM sessions GROUP BY status, profile",
    )
    pods = tuple(PodCount(*row) for row in grouped)
    pending = fetch(db, f"SELECT kind, count(*), min(ts) FROM messages WHERE state = {PENDING} GROUP BY kind")
    messages = tuple(Waiting(*row) for row in pending)
    folds = [unpack_fold(fold) for (fold,) in fetch(db, "SELECT fold FROM sessions WHERE status = 'waiting_on_user'")]
    open_ones = [fold.question for fold in folds if fold is not None and fold.question is not None]
    return CensusFigures(pods, messages, waiting(map(open_since, open_ones)))
