"""Stored entries as values."""

from __future__ import annotations

from collections.abc import Iterable

from session_store.codec import decode_entry
from session_store.entries import LogEntry
from session_store.errors import StoreDamaged, UnreadableEntry
from session_store.requests import Read, Store, StoredEntry


def decoded(session: str, rows: Iterable[StoredEntry]) -> tuple[LogEntry, ...]:
    """The entries of a session's log. Raises `StoreDamaged` with session, seq and reason."""
    try:
        return tuple(decode_entry(row.body, row.seq, row.ts) for row in rows)
    except UnreadableEntry as error:
        raise damaged(session, error.seq, error.reason) from error


def read_log(store: Store, session: str, after: int = 0) -> tuple[LogEntry, ...]:
    """All entries after `after`. Raises `StoreDamaged`, `UnknownSession`, `StoreUnavailable`."""
    return decoded(session, store.execute(Read(session, after)).entries)


def damaged(session: str, seq: int, reason: str) -> StoreDamaged:
    """The refusal for damage at one place. `seq` is 0 where no single entry is to blame."""
    place = f" at entry {seq}" if seq else ""
    return StoreDamaged(
        f"the log of session {session} is damaged{place}: {reason}. Other sessions are not affected; `polypod check`"
        " lists all damage",
        session=session,
        seq=seq,
        reason=reason,
    )
