"""What is read of a SQLite store's rows, over a connection of whoever asks."""

from __future__ import annotations

import sqlite3
from typing import Any

from session_store.backends.packing import COLUMNS, config_from, fold_of, reaching, verified_rows
from session_store.backends.sqlite_schema import PLACE_BITS, PLACE_MASK
from session_store.errors import StoreDamaged
from session_store.items import Json
from session_store.reading import damaged
from session_store.requests import StoredEntry
from session_store.status import StatusFold

SELECT_SESSIONS = f"SELECT {COLUMNS} FROM sessions s LEFT JOIN configs c ON c.no = s.no"
SELECT_PENDING = (
    f"SELECT message_id, kind, sender, body, wake, place & {PLACE_MASK}, ts FROM messages"
    " WHERE place > ? AND place <= ? AND state = 0 ORDER BY place"
)


def log_head(connection: sqlite3.Connection, no: int) -> int:
    """The last seq that the log itself has."""
    base = no << PLACE_BITS
    found = connection.execute(
        "SELECT max(place) FROM entries WHERE place BETWEEN ? AND ?", (base, base | PLACE_MASK)
    ).fetchone()[0]
    return 0 if found is None else int(found) & PLACE_MASK


def read_rows(connection: sqlite3.Connection, no: int, session: str, span: tuple[int, int]) -> list[StoredEntry]:
    """Entries with `after < seq <= last`, where `span` is (after, last). Raises `StoreDamaged` at the first bad one."""
    after, last = span
    base = no << PLACE_BITS
    found = connection.execute(
        f"SELECT place & {PLACE_MASK}, ts, crc, body FROM entries WHERE place > ? AND place <= ? ORDER BY place",
        (base + after, base + last),
    )
    return verified_rows(session, span, found)


def checked_head(connection: sqlite3.Connection, no: int, session: str, catalogue: int) -> int:
    """The head as the log says it. Raises `StoreDamaged` if the catalogue has seen more than the log holds."""
    return reaching(session, log_head(connection, no), catalogue)


def derive_fold(connection: sqlite3.Connection, no: int, session: str, head: int) -> StatusFold:
    """The fold from the log alone: where the catalogue's copy is missing or damaged."""
    return fold_of(session, read_rows(connection, no, session, (0, head)))


def config_of(connection: sqlite3.Connection, row: tuple[Any, ...]) -> dict[str, Json]:
    """The config a session was created with: the catalogue's copy, or its first entry."""
    return config_from(row[26], lambda: read_rows(connection, row[0], row[1], (0, 1))[0])


def damage_of(error: sqlite3.Error, session: str) -> StoreDamaged:
    return damaged(session, 0, str(error))
