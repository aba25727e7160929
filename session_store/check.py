"""What is damaged in a SQLite store: every place, by session, seq and reason. Reads only, also while it is in use."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from session_store.backends.packing import PENDING
from session_store.backends.sqlite_rows import SELECT_SESSIONS
from session_store.backends.sqlite_schema import PLACE_BITS, PLACE_MASK, open_reader
from session_store.checking import Damage, Unshown, damage_in
from session_store.errors import StoreDamaged

MOST_SQLITE_LINES = 100


def check(store_path: Path) -> list[Damage]:
    """All damage, sessions in order of creation. Raises `NewerSchema`, `StoreUnavailable`."""
    try:
        connection = open_reader(store_path)
    except StoreDamaged as error:
        return [Damage("", 0, str(error.detail["reason"]))]
    with closing(connection):
        found = list(_whole_file(connection))
        try:
            connection.execute("BEGIN")  # one moment of a store that may be in use
        except sqlite3.Error as error:
            return [*found, Damage("", 0, f"the catalogue cannot be read: {error}")]
        return found + damage_in(_SqliteEvidence(connection))


def _whole_file(connection: sqlite3.Connection) -> Iterator[Damage]:
    try:
        lines = connection.execute(f"PRAGMA integrity_check({MOST_SQLITE_LINES})").fetchall()
    except sqlite3.Error as error:
        yield Damage("", 0, f"SQLite cannot check the file: {error}")
        return
    yield from (Damage("", 0, f"SQLite: {line}") for (line,) in lines if line != "ok")


class _SqliteEvidence:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def sessions(self) -> Sequence[tuple[Any, ...]]:
        with _shown():
            return self._db.execute(f"{SELECT_SESSIONS} ORDER BY s.no").fetchall()

    def entries(self, no: int) -> Iterable[tuple[int, int, int, Any]]:
        base = no << PLACE_BITS
        with _shown():
            yield from self._db.execute(
                f"SELECT place & {PLACE_MASK}, ts, crc, body FROM entries WHERE place BETWEEN ? AND ? ORDER BY place",
                (base, base | PLACE_MASK),
            )

    def waiting(self, no: int) -> int:
        with _shown():
            sql = "SELECT count(*) FROM messages WHERE session = ? AND state = ?"
            return int(self._db.execute(sql, (no, PENDING)).fetchone()[0])

    def orphans(self) -> Sequence[int]:
        with _shown():
            rows = self._db.execute(
                "SELECT DISTINCT place >> 32 FROM entries WHERE place >> 32 NOT IN (SELECT no FROM sessions)"
            )
            return [no for (no,) in rows]


@contextmanager
def _shown() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise Unshown(str(error)) from error
