"""Entries into a log, and what the catalogue keeps of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from session_store.codec import encode_entry
from session_store.counting import Tally
from session_store.entries import LogEntry, Question, QuestionClosed, Rewound, SystemItems, Withdrawn
from session_store.errors import ConditionFailed
from session_store.messages import Message
from session_store.requests import Append, StoredEntry
from session_store.state import MessagePlace, QuestionRecord, SessionState
from session_store.tables import Tables


@dataclass(frozen=True, slots=True)
class EncodedAppend(Append):
    """An append that came over a wire: `bodies` are its entries as they will be stored, which spares encoding anew."""

    bodies: tuple[bytes, ...] = ()


def prepare(
    head: int, entries: Sequence[LogEntry], ts: int, bodies: Sequence[bytes] = ()
) -> tuple[list[StoredEntry], list[LogEntry]]:
    """The entries as they will be stored after `head`, and as values with their seq. Refuses what msgpack cannot."""
    try:
        encoded = bodies or [encode_entry(e) for e in entries]
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ConditionFailed(f"an entry cannot be stored: {error}", reason="invalid") from error
    rows = [StoredEntry(seq, ts, body) for seq, body in enumerate(encoded, head + 1)]
    return rows, [replace(e, seq=seq, ts=ts) for seq, e in enumerate(entries, head + 1)]


def record(tables: Tables, state: SessionState, rows: Sequence[StoredEntry], entries: Sequence[LogEntry]) -> None:
    """Add prepared entries with everything that the catalogue derives from them; the caller saves `state`."""
    if not rows:
        return
    tables.add_entries(state, rows)
    for entry in entries:
        state.fold.apply(entry)
        _note(tables, state, entry)
    state.history_head = state.head


def count(tables: Tables, state: SessionState, entries: Sequence[LogEntry]) -> None:
    """Add recorded entries to the counters: all but those of an import, which were counted where they were made."""
    if entries:
        tally = Tally(tables.count, state.config, state.begun)
        tally.take(entries)
        state.begun = tally.begun


def take_out(tables: Tables, state: SessionState, messages: Sequence[Message], place: MessagePlace) -> None:
    """Take pending messages out of the inbox: consumed by the entries just recorded, or never to be read."""
    if not messages:
        return
    tables.move_messages(state, messages, place, state.head)
    for message in messages:
        del state.inbox[message.message_id]


def _give_up_answer(tables: Tables, state: SessionState, message_id: str) -> None:
    """A prompt that was to answer the open question is given back: somebody else may answer it."""
    question = state.fold.question
    record = None if question is None else tables.question(state, question.question_id)
    if question is not None and record is not None and record.how is None and record.taken_by == message_id:
        tables.put_question(state, question.question_id, QuestionRecord())


def _note(tables: Tables, state: SessionState, entry: LogEntry) -> None:
    match entry:
        case Question():
            tables.put_question(state, entry.question_id, QuestionRecord())
        case QuestionClosed():
            known = tables.question(state, entry.question_id) or QuestionRecord()
            tables.put_question(state, entry.question_id, QuestionRecord(entry.message_id or known.taken_by, entry.how))
        case Withdrawn(message_id=message_id):
            _give_up_answer(tables, state, message_id)
        case Rewound():
            state.rewound = entry.seq
        case SystemItems():
            events = [e for i in entry.items if isinstance(e := i.payload.get("event"), dict)]
            for pod_id in dict.fromkeys(str(e.get("pod_id")) for e in events):
                if pod_id in state.fold.child_events:
                    tables.note_child(state, pod_id)
        case _:
            pass
