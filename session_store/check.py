"""What is damaged in a SQLite store: every place, by session, seq and reason. Reads only, also while it is in use."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from session_store.backends.sqlite_rows import PENDING, SELECT_SESSIONS, log_head, unpack_fold
from session_store.backends.sqlite_schema import PLACE_BITS, PLACE_MASK, open_reader
from session_store.codec import decode_entry
from session_store.errors import StoreDamaged, UnreadableEntry
from session_store.status import StatusFold

MOST_SQLITE_LINES = 100


@dataclass(frozen=True, slots=True)
class Damage:
    """One place. `session` is `""` and `seq` 0 where the damage belongs to no session or no single entry.

    With `harmless` the session still opens and goes on: what is damaged follows from its log.
    """

    session: str
    seq: int
    reason: str
    harmless: bool = False


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
            for row in connection.execute(f"{SELECT_SESSIONS} ORDER BY s.no").fetchall():
                found += _session(connection, row)
            found += _orphans(connection)
        except sqlite3.Error as error:
            found.append(Damage("", 0, f"the catalogue cannot be read: {error}"))
    return found


def _whole_file(connection: sqlite3.Connection) -> Iterator[Damage]:
    try:
        lines = connection.execute(f"PRAGMA integrity_check({MOST_SQLITE_LINES})").fetchall()
    except sqlite3.Error as error:
        yield Damage("", 0, f"SQLite cannot check the file: {error}")
        return
    yield from (Damage("", 0, f"SQLite: {line}") for (line,) in lines if line != "ok")


def _session(connection: sqlite3.Connection, row: tuple[Any, ...]) -> list[Damage]:
    no, session, catalogue_head, fold_bytes = row[0], row[1], row[13], row[21]
    found: list[Damage] = []
    derived = StatusFold()
    try:
        found += _entries(connection, no, session, derived)
        head = log_head(connection, no)
    except sqlite3.Error as error:
        return [*found, Damage(session, 0, f"the log cannot be read: {error}")]
    if head < catalogue_head:
        found.append(Damage(session, head + 1, f"the log ends at {head}, but {catalogue_head} was acknowledged"))
    if not found:
        found += _catalogue(connection, row, derived)
    if fold_bytes is not None and unpack_fold(fold_bytes) is None:
        found.append(Damage(session, 0, "the catalogue's copy of the status cannot be read", harmless=True))
    return found


def _entries(connection: sqlite3.Connection, no: int, session: str, fold: StatusFold) -> list[Damage]:
    base = no << PLACE_BITS
    rows = connection.execute(
        "SELECT place, ts, crc, body FROM entries WHERE place BETWEEN ? AND ? ORDER BY place", (base, base | PLACE_MASK)
    )
    found = []
    expected = 0
    for place, ts, crc, body in rows:
        seq = place & PLACE_MASK
        expected += 1
        if seq != expected:
            missing = f"entries {expected} to {seq - 1} are" if seq - 1 > expected else f"entry {expected} is"
            found.append(Damage(session, expected, f"{missing} missing"))
            expected = seq
        reason = _entry_damage(fold, (seq, ts, crc, body))
        if reason is not None:
            found.append(Damage(session, seq, reason))
    return found


def _entry_damage(fold: StatusFold, row: tuple[int, int, int, Any]) -> str | None:
    seq, ts, crc, body = row
    if not isinstance(body, bytes) or crc32(body) != crc:
        return "its checksum is wrong"
    try:
        fold.apply(decode_entry(body, seq, ts))
    except UnreadableEntry as error:
        return error.reason
    return None


def _catalogue(connection: sqlite3.Connection, row: tuple[Any, ...], derived: StatusFold) -> Iterator[Damage]:
    """What the catalogue says beside what the (sound) log says."""
    session = row[1]
    if row[13] != derived.head:
        yield Damage(session, 0, f"the catalogue's head is {row[13]}, the log's {derived.head}", harmless=True)
    kept = unpack_fold(row[21])
    if kept is not None and kept.head == derived.head:
        kept.child_events = derived.child_events
        if kept != derived:
            yield Damage(session, 0, "the catalogue's status is not what the log says")
    if bool(row[23]) != derived.ended:
        yield Damage(session, 0, "the catalogue and the log differ on whether the session has ended")
    queue = connection.execute(
        "SELECT count(*) FROM messages WHERE session = ? AND state = ?", (row[0], PENDING)
    ).fetchone()[0]
    if row[19] != queue:
        yield Damage(session, 0, f"the catalogue counts {row[19]} waiting messages, there are {queue}", harmless=True)
    if row[26] is None:
        yield Damage(session, 0, "the catalogue's copy of the config is missing", harmless=True)


def _orphans(connection: sqlite3.Connection) -> list[Damage]:
    rows = connection.execute(
        "SELECT DISTINCT place >> 32 FROM entries WHERE place >> 32 NOT IN (SELECT no FROM sessions)"
    )
    return [Damage("", 0, f"session number {no} has a log and is not in the catalogue") for (no,) in rows]
