"""Catalogue rows, messages, folds and entries as the databases keep them, and back: what the backends share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

from session_store.codec import decode_entry, from_plain, pack, to_plain, unpack
from session_store.entries import Question, SegmentStart, Served
from session_store.errors import UnreadableEntry
from session_store.items import Json, Problem
from session_store.messages import Message
from session_store.reading import damaged
from session_store.requests import StoredEntry
from session_store.rows import Scope
from session_store.state import Batch, MessagePlace, SessionState
from session_store.status import StatusFold

FOLD_VERSION = 2
"""Goes up with any change of what `StatusFold` says of a log: older copies are then derived from their logs anew."""
PLACES: tuple[MessagePlace, ...] = ("pending", "consumed", "undeliverable")
PENDING = PLACES.index("pending")

COLUMNS = (
    "s.no, s.id, s.tenant, s.message_id, s.name, s.parent_id, s.root_id, s.depth, s.detached, s.epoch, s.owned,"
    " s.opened_by, s.untouched, s.head, s.history_head, s.rewound, s.position, s.children, s.wakes, s.queue, s.batch,"
    " s.fold, s.open, s.ended, s.status, s.needs_owner, c.config, c.scope"
)
"""Of `sessions s` and `configs c`, in the order that `session_state` reads."""


def pack_fold(fold: StatusFold) -> bytes:
    """Everything but the children's events, which have a table of their own; version and checksum before it."""
    error = None if fold.error is None else [fold.error.type, fold.error.message]
    body = pack(
        [
            (fold.head, fold.run_id, fold.run_seq, fold.run_open, fold.trigger),
            [(s.message_id, s.sender) for s in fold.serves],
            (fold.outcome, error, fold.waits_for, fold.mode),
            None if fold.question is None else to_plain(fold.question),
            (fold.ended, fold.created_at, fold.updated_at),
            (fold.requests, fold.input, fold.cache_read, fold.cache_write, fold.output),
            fold.removed,
        ]
    )
    return bytes([FOLD_VERSION]) + crc32(body).to_bytes(4, "big") + body


def unpack_fold(data: bytes | None) -> StatusFold | None:
    """The fold, or None if the bytes are missing, of another version or damaged: then the log tells."""
    if data is None or len(data) < 6 or data[0] != FOLD_VERSION or crc32(data[5:]) != int.from_bytes(data[1:5], "big"):
        return None
    run, serves, rest, question, times, usage, removed = unpack(data[5:])
    fold = StatusFold(*run)
    fold.serves = tuple(Served(*s) for s in serves)
    fold.outcome, error, waits_for, fold.mode = rest
    fold.error = None if error is None else Problem(*error)
    fold.waits_for = tuple(waits_for)
    fold.question = None if question is None else from_plain(Question, question)
    fold.ended, fold.created_at, fold.updated_at = times
    fold.requests, fold.input, fold.cache_read, fold.cache_write, fold.output = usage
    fold.removed = tuple((first, last) for first, last in removed)
    return fold


def pack_batch(batch: Batch | None) -> bytes | None:
    if batch is None:
        return None
    return pack((batch.batch_id, batch.first_seq, batch.head, batch.ts, batch.cascaded, batch.wakes))


def unpack_batch(data: bytes | None) -> Batch | None:
    if data is None:
        return None
    batch_id, first_seq, head, ts, cascaded, wakes = unpack(data)
    return Batch(batch_id, first_seq, head, ts, tuple(cascaded), wakes)


def pack_scope(scope: Scope | None) -> bytes | None:
    return None if scope is None else pack((scope.read, scope.write))


def unpack_scope(data: bytes | None) -> Scope | None:
    if data is None:
        return None
    read, write = unpack(data)
    return Scope(tuple(read), tuple(write))


def session_state(row: tuple[Any, ...], fold: StatusFold, config: dict[str, Json]) -> SessionState:
    """A state from a row of `COLUMNS`; the inbox is empty."""
    return SessionState(
        no=row[0],
        id=row[1],
        tenant=row[2],
        message_id=row[3],
        name=row[4],
        parent_id=row[5],
        root_id=row[6],
        depth=row[7],
        detached=bool(row[8]),
        epoch=row[9],
        owned=bool(row[10]),
        opened_by=row[11],
        untouched=bool(row[12]),
        history_head=row[14],
        rewound=row[15],
        position=row[16],
        children=row[17],
        wakes=row[18],
        batch=unpack_batch(row[20]),
        open=bool(row[22]),
        fold=fold,
        config=config,
        scope=unpack_scope(row[27]),
    )


def message_of(row: tuple[Any, ...]) -> Message:
    """A message from (message_id, kind, sender, body, wake, position, ts)."""
    message_id, kind, sender, body, wake, position, ts = row
    return Message(message_id, kind, sender, unpack(body), bool(wake), position, ts)


def verified_rows(session: str, span: tuple[int, int], found: Iterable[tuple[int, int, int, Any]]) -> list[StoredEntry]:
    """Entries with `after < seq <= last`, where `span` is (after, last), from (seq, ts, crc, body) in order.

    Raises `StoreDamaged` at the first bad one.
    """
    after, last = span
    rows = []
    expected = after
    for seq, ts, crc, body in found:
        expected += 1
        if seq != expected:
            raise damaged(session, expected, f"the entry is missing (the next one is {seq})")
        if not isinstance(body, bytes) or crc32(body) != crc:
            raise damaged(session, seq, "its checksum is wrong")
        rows.append(StoredEntry(seq, ts, body))
    if expected < last:
        raise damaged(session, expected + 1, f"the entry is missing (the log should reach {last})")
    return rows


def reaching(session: str, head: int, catalogue: int) -> int:
    """The head as the log says it. Raises `StoreDamaged` if the catalogue has seen more than the log holds."""
    if head < catalogue:
        raise damaged(session, head + 1, f"the log ends at {head}, but {catalogue} was acknowledged")
    return head


def fold_of(session: str, rows: Iterable[StoredEntry]) -> StatusFold:
    """The fold from the log alone: where the catalogue's copy is missing or damaged."""
    fold = StatusFold()
    try:
        for row in rows:
            fold.apply(decode_entry(row.body, row.seq, row.ts))
    except UnreadableEntry as error:
        raise damaged(session, error.seq, error.reason) from error
    return fold


def config_from(packed: bytes | None, first: Callable[[], StoredEntry]) -> dict[str, Json]:
    """The config a session was created with: the catalogue's copy, or its first entry."""
    if packed is not None:
        config: dict[str, Json] = unpack(packed)
        return config
    row = first()
    start = decode_entry(row.body, row.seq, row.ts)
    return start.config if isinstance(start, SegmentStart) else {}
