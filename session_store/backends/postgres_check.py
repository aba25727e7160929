"""What is damaged in a PostgreSQL store. Reads only, also while it is in use.

The server's own checks of pages and indexes (`pg_amcheck`, data checksums) are the database's business: here is what
the store's rows say of themselves and of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import psycopg

from session_store.backends.packing import PENDING
from session_store.backends.postgres_link import Address, Connection, is_lost
from session_store.backends.postgres_reader import PostgresReader
from session_store.backends.postgres_rows import SELECT_SESSIONS, fetch
from session_store.checking import Damage, Unshown, damage_in

PAGE = 1_000


def check_postgres(address: Address) -> list[Damage]:
    """All damage, sessions in order of creation; none where there is no store yet. Raises `NewerSchema`,
    `StoreUnavailable`."""
    with closing(PostgresReader(address, retry=0.0)) as reader:
        return reader.read(_looked_at)


def _looked_at(db: Connection) -> list[Damage]:
    db.execute("SET statement_timeout = 0")
    db.execute("SET idle_in_transaction_session_timeout = 0")
    db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")  # one moment of a store that may be in use
    try:
        return damage_in(_PostgresEvidence(db))
    finally:
        db.execute("ROLLBACK")


class _PostgresEvidence:
    def __init__(self, db: Connection) -> None:
        self._db = db

    def sessions(self) -> Sequence[tuple[Any, ...]]:
        return self._shown(f"{SELECT_SESSIONS} ORDER BY s.no")

    def entries(self, no: int) -> Iterable[tuple[int, int, int, Any]]:
        return self._pages(no)

    def waiting(self, no: int) -> int:
        sql = "SELECT count(*) FROM messages WHERE session = %s AND state = %s"
        return int(self._shown(sql, (no, PENDING))[0][0])

    def orphans(self) -> Sequence[int]:
        sql = (
            "SELECT DISTINCT session FROM entries e WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.no = e.session)"
        )
        return [no for (no,) in self._shown(sql)]

    def _pages(self, no: int) -> Iterator[tuple[int, int, int, Any]]:
        after = -1
        sql = "SELECT seq, ts, crc, body FROM entries WHERE session = %s AND seq > %s ORDER BY seq LIMIT %s"
        while page := self._shown(sql, (no, after, PAGE)):
            yield from ((seq, ts, crc, body) for seq, ts, crc, body in page)
            after = page[-1][0]

    def _shown(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return fetch(self._db, sql, values)
        except psycopg.Error as error:
            if is_lost(error):
                raise
            self._db.execute("ROLLBACK")
            self._db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            raise Unshown(str(error).strip()) from error
