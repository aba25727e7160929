"""A session from another store: its whole log at once, entry for entry as it was stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from session_store import rules
from session_store.codec import decode_entry
from session_store.entries import Invoke, LogEntry, QuestionClosed, SegmentStart, SystemItems, UserInput, Withdrawn
from session_store.errors import ConditionFailed, UnreadableEntry
from session_store.messages import USER, Message
from session_store.recording import record
from session_store.requests import Create, Created, Import
from session_store.state import SessionState
from session_store.tables import Tables


def import_session(tables: Tables, request: Import) -> Created:
    """Add the session. Refused (`condition_failed`): `conflict` if it exists, `name_taken`, `invalid` log."""
    if tables.find(request.session) is not None:
        raise ConditionFailed(
            f"session {request.session} exists already: an import replaces nothing",
            reason="conflict",
            session=request.session,
        )
    entries = _decoded(request)
    start = entries[0]
    assert isinstance(start, SegmentStart)
    rules.check_names(Create(request.session, request.tenant, "", start, name=request.name))
    parent = None if request.parent_id is None else tables.find(request.parent_id)
    state = _new_state(request, start, parent)
    if state.name and tables.name_taken(state.tenant, state.parent_id, state.name):
        raise ConditionFailed(f"the name {state.name!r} is taken: choose another", reason="name_taken", name=state.name)

    tables.add(state)
    record(tables, state, request.entries, entries)
    for message_id, seq in _consumed_ids(entries):
        if tables.message(state, message_id) is None:
            state.position += 1
            gone = Message(message_id, "prompt", USER, position=state.position)
            tables.add_message(state, gone, "consumed", seq)
    for message in request.inbox:
        if tables.message(state, message.message_id) is None:
            _queue(tables, state, message)
    state.open = not state.fold.ended and (state.fold.run_open or any(m.kind == "prompt" for m in state.messages))
    tables.save(state)
    if parent is not None:
        parent.children += 1
        tables.save(parent)
    return Created(state.id, state.head, existed=False)


def _queue(tables: Tables, state: SessionState, message: Message) -> None:
    state.position += 1
    placed = Message(
        message.message_id, message.kind, message.sender, message.body, message.wake, state.position, message.ts
    )
    if state.fold.ended:
        tables.add_message(state, placed, "undeliverable", state.head)
        return
    tables.add_message(state, placed, "pending")
    state.inbox[placed.message_id] = placed


def _decoded(request: Import) -> list[LogEntry]:
    entries = []
    for expected, row in enumerate(request.entries, 1):
        if row.seq != expected:
            raise ConditionFailed(
                f"entry {expected} is missing (found {row.seq})",
                reason="invalid",
                session=request.session,
                seq=expected,
            )
        try:
            entries.append(decode_entry(row.body, row.seq, row.ts))
        except UnreadableEntry as error:
            raise ConditionFailed(str(error), reason="invalid", session=request.session, seq=row.seq) from error
    if not entries or not isinstance(entries[0], SegmentStart):
        raise ConditionFailed("a log begins with `segment_start`", reason="invalid", session=request.session, seq=1)
    return entries


def _new_state(request: Import, start: SegmentStart, parent: SessionState | None) -> SessionState:
    return SessionState(
        id=request.session,
        tenant=request.tenant,
        message_id=f"import:{request.session}",
        name=request.name,
        parent_id=None if parent is None else parent.id,
        root_id=request.session if parent is None else parent.root_id,
        depth=0 if parent is None else parent.depth + 1,
        detached=request.detached,
        scope=request.scope,
        config=start.config,
        epoch=request.epoch,
    )


def _consumed_ids(entries: Sequence[LogEntry]) -> Iterator[tuple[str, int]]:
    """Ids of messages that the log has taken: none of them may come in again."""
    for entry in entries:
        match entry:
            case Invoke():
                yield from ((s.message_id, entry.seq) for s in entry.serves)
            case UserInput() | Withdrawn():
                yield entry.message_id, entry.seq
            case QuestionClosed(message_id=str(message_id)):
                yield message_id, entry.seq
            case SystemItems():
                for item in entry.items:
                    event = item.payload.get("event")
                    yield (
                        (str(event["event_id"]) if isinstance(event, dict) and "event_id" in event else item.item_id),
                        entry.seq,
                    )
            case _:
                pass
