"""What is read of a PostgreSQL store's rows, over a connection of whoever asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from session_store.backends.packing import (
    COLUMNS,
    PLACES,
    config_from,
    fold_of,
    message_of,
    reaching,
    session_state,
    unpack_fold,
    verified_rows,
)
from session_store.backends.postgres_link import Connection
from session_store.codec import decode_entry
from session_store.entries import Rewound
from session_store.items import Json
from session_store.messages import Message
from session_store.requests import StoredEntry
from session_store.state import MessageRecord, SessionState
from session_store.status import ChildEvent, StatusFold

_LOG_HEAD = "coalesce((SELECT max(e.seq) FROM entries e WHERE e.session = s.no), 0)"
SELECT_SESSIONS = f"SELECT {COLUMNS}, s.version, {_LOG_HEAD} FROM sessions s LEFT JOIN configs c ON c.no = s.no"
VERSION, LOG_HEAD = 28, 29
"""Where they stand in a row of `SELECT_SESSIONS`."""
_PENDING = (
    "SELECT m.message_id, m.kind, m.sender, m.body, m.wake, m.position, m.ts FROM messages m JOIN sessions s"
    " ON s.no = m.session WHERE s.id = %s AND m.state = 0 AND m.position > %s ORDER BY m.position"
)
_CHILD_EVENTS = (
    "SELECT e.pod_id, e.seq, e.shut_down FROM child_events e JOIN sessions s ON s.no = e.session WHERE s.id = %s"
)


def fetch(db: Connection, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows; `bytea` as bytes."""
    found: list[tuple[Any, ...]] = db.execute(sql.encode(), values, binary=True).fetchall()
    return found


def load(db: Connection, session: str) -> tuple[SessionState, int] | None:
    """A session with its inbox, and its version; in a pipeline that is one trip. Raises `StoreDamaged`."""
    asked = [
        db.execute(sql.encode(), values, binary=True)
        for sql, values in (
            (f"{SELECT_SESSIONS} WHERE s.id = %s", (session,)),
            (_PENDING, (session, 0)),
            (_CHILD_EVENTS, (session,)),
        )
    ]
    row = asked[0].fetchone()
    if row is None:
        return None
    inbox = [message_of(r) for r in asked[1].fetchall()]
    events = {pod_id: ChildEvent(seq, shut_down) for pod_id, seq, shut_down in asked[2].fetchall()}
    head = reaching(session, row[LOG_HEAD], row[13])
    fold = unpack_fold(row[21])
    derived = fold is None or fold.head != head
    if fold is None or derived:
        fold = derive_fold(db, row[0], session, head)
    else:
        fold.child_events = events
    state = session_state(row, fold, config_of(db, row))
    if derived:
        _derive(db, state)
    state.inbox = {m.message_id: m for m in inbox}
    state.position = max([state.position, *(m.position for m in inbox)])
    return state, row[VERSION]


def _derive(db: Connection, state: SessionState) -> None:
    """What else follows from the log and from the rows' own columns, when the catalogue was behind them."""
    notes = {seq for (seq,) in fetch(db, "SELECT seq FROM annotations WHERE session = %s", (state.no,))}
    ends = [read_rows(db, state.no, state.id, (last - 1, last))[0] for _, last in state.fold.removed]
    decoded = (decode_entry(row.body, row.seq, row.ts) for row in ends)
    state.rewound = max((e.seq for e in decoded if isinstance(e, Rewound)), default=0)
    state.history_head = next(seq for seq in range(state.fold.head, -1, -1) if seq not in notes)
    ((epoch,),) = fetch(db, "SELECT coalesce(max(epoch), 0) FROM entries WHERE session = %s", (state.no,))
    if epoch > state.epoch:
        state.epoch, state.owned = epoch + 1, False
    ((last,),) = fetch(db, "SELECT coalesce(max(position), 0) FROM messages WHERE session = %s", (state.no,))
    state.position = max(state.position, last)


def read_rows(db: Connection, no: int, session: str, span: tuple[int, int]) -> list[StoredEntry]:
    """Entries with `after < seq <= last`, where `span` is (after, last). Raises `StoreDamaged` at the first bad one."""
    found = fetch(
        db,
        "SELECT seq, ts, crc, body FROM entries WHERE session = %s AND seq > %s AND seq <= %s ORDER BY seq",
        (no, *span),
    )
    return verified_rows(session, span, ((r[0], r[1], r[2], r[3]) for r in found))


def derive_fold(db: Connection, no: int, session: str, head: int) -> StatusFold:
    """The fold from the log alone."""
    return fold_of(session, read_rows(db, no, session, (0, head)))


def config_of(db: Connection, row: tuple[Any, ...]) -> dict[str, Json]:
    """The config a session was created with: the catalogue's copy, or its first entry."""
    return config_from(row[26], lambda: read_rows(db, row[0], row[1], (0, 1))[0])


def pending(db: Connection, session: str, after: int) -> tuple[Message, ...]:
    return tuple(map(message_of, fetch(db, _PENDING, (session, max(0, after)))))


def find_message(db: Connection, no: int, message_id: str) -> MessageRecord | None:
    found = fetch(
        db, "SELECT position, state, seq FROM messages WHERE session = %s AND message_id = %s", (no, message_id)
    )
    return MessageRecord(found[0][0], PLACES[found[0][1]], found[0][2]) if found else None
