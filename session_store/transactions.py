"""Each request as a transaction over `Tables`: first every check, then every write.

`perform` is all that a backend calls. It knows no database and no clock: `now` is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from session_store import counters, rules
from session_store.counting import POINTER, count_start, count_taken
from session_store.delivery import cascade, deliver_free, deliver_own, queue
from session_store.entries import Extension, Invoke, LogEntry
from session_store.errors import ConditionFailed, StoreDamaged
from session_store.forks import fork_session
from session_store.importing import import_session
from session_store.recording import EncodedAppend, count, prepare, record, take_out
from session_store.requests import (
    Annotate,
    Annotated,
    Append,
    Appended,
    ClaimDirectory,
    Create,
    Created,
    Deliver,
    DirectoryEpoch,
    Fork,
    Import,
    Lease,
    Open,
    Release,
    Released,
    Request,
)
from session_store.state import Batch, SessionState
from session_store.tables import Tables

WRITES = (Create, Fork, Open, Append, Release, Deliver, Annotate, Import, ClaimDirectory)


def perform(tables: Tables, request: Request[Any], now: int) -> Any:
    """Carry out one writing request. Raises `Refused` and then has written nothing. `now` is ms since the epoch."""
    match request:
        case Append():
            return _append(tables, request, now)
        case Deliver():
            return deliver_own(tables, request, now)
        case Create():
            return _create(tables, request, now)
        case Fork():
            return fork_session(tables, request, now)
        case Open():
            return _open(tables, request)
        case Release():
            return _release(tables, request)
        case Annotate():
            return _annotate(tables, request, now)
        case Import():
            return import_session(tables, request)
        case ClaimDirectory():
            return _claim_directory(tables, request)
        case _:
            raise TypeError(f"{type(request).__name__} is no request that writes")


def _claim_directory(tables: Tables, request: ClaimDirectory) -> DirectoryEpoch:
    epoch = tables.directory_epoch() + 1
    tables.put_directory_epoch(epoch)
    if request.alone:
        tables.release_all_but(frozenset(request.held))
    return DirectoryEpoch(epoch)


def _create(tables: Tables, request: Create, now: int) -> Created:
    known = tables.made_by(request.tenant, request.message_id)
    if known is not None:
        return Created(known, rules.needed(tables, known).head, existed=True)
    rules.check_names(request)
    if tables.find(request.session) is not None:
        raise ConditionFailed(f"session {request.session} exists already", reason="conflict", session=request.session)
    parent = None if request.parent is None else rules.living_parent(tables, request.parent)
    state = _new_state(request, parent)
    rules.check_depth(state.depth, request.limits)
    if state.name and tables.name_taken(state.tenant, state.parent_id, state.name):
        raise ConditionFailed(f"the name {state.name!r} is taken: choose another", reason="name_taken", name=state.name)
    if state.open:
        rules.check_place(tables, state.parent_id, request.limits)
    if parent is not None:
        rules.check_scope(tables, state.scope, None, parent)
    rows, entries = prepare(0, (request.start,), now)

    tables.add(state)
    record(tables, state, rows, entries)
    count(tables, state, entries)
    tables.count(counters.CREATED.key("root" if parent is None else "child"), 1)
    for message in {m.message_id: m for m in request.messages}.values():
        queue(tables, state, message, now)
    tables.save(state)
    if parent is not None:
        parent.children += 1
        tables.save(parent)
    return Created(state.id, state.head, existed=False)


def _new_state(request: Create, parent: SessionState | None) -> SessionState:
    return SessionState(
        id=request.session,
        tenant=request.tenant,
        message_id=request.message_id,
        name=request.name,
        parent_id=None if parent is None else parent.id,
        root_id=request.session if parent is None else parent.root_id,
        depth=0 if parent is None else parent.depth + 1,
        detached=request.detached,
        scope=request.scope,
        config=request.start.config,
        open=parent is not None or bool(request.messages),
    )


def _open(tables: Tables, request: Open) -> Lease:
    state = rules.needed(tables, request.session)
    if rules.check_open(state, request, tables.directory_epoch()):
        if request.replaces is not None and state.epoch:  # the Directory, to write an end, names no number
            lost = state.owned or state.fold.run_open
            tables.count((counters.RESTARTS if lost else counters.WAKES).key(), 1)
        state.epoch += 1
        state.owned, state.untouched, state.opened_by = True, True, request.directory_epoch
        tables.save(state)
    last = None if state.batch is None else state.batch.batch_id
    return Lease(state.id, state.epoch, state.head, state.messages, last, state.open)


def _release(tables: Tables, request: Release) -> Released:
    state = rules.needed(tables, request.session)
    if not state.owned and request.epoch == state.epoch:
        return Released(state.head)
    rules.check_owner(state, request.epoch)
    if state.summary().needs_owner:
        raise ConditionFailed(
            f"session {state.id} wants its Pod: there is a run or a message that starts one",
            reason="pending",
            session=state.id,
        )
    state.owned = False
    tables.count(counters.PARKS.key(), 1)
    tables.save(state)
    return Released(state.head)


def _append(tables: Tables, request: Append, now: int) -> Appended:
    state = rules.needed(tables, request.session)
    rules.check_owner(state, request.epoch)
    if state.batch is not None and state.batch.batch_id == request.batch_id:
        return _answer(state, request)
    rules.check_head(state, request)
    taken = rules.consumed(state, request)
    bodies = request.bodies if isinstance(request, EncodedAppend) else ()
    rows, entries = prepare(state.head, request.entries, max(now, state.fold.updated_at), bodies)

    first = state.head + 1 if rows else 0
    bound_for_it, runs = state.untouched, state.fold.run_seq
    state.untouched = False
    record(tables, state, rows, entries)
    count(tables, state, entries)
    take_out(tables, state, taken, "consumed")
    count_taken(tables.count, taken, state.fold.updated_at)
    if bound_for_it and taken and any(isinstance(e, Invoke) for e in entries):
        count_start(tables.count, taken, state.fold.updated_at, first=not runs)
    wakes = _count_wakes(tables, state, entries)
    _rest(tables, state, request.concluded)
    for delivery in request.deliveries:
        deliver_free(tables, state, delivery, (first, now))
    cascaded = () if request.cascade is None else cascade(tables, state, request.cascade, now)
    ts = rows[0].ts if rows else now
    state.batch = Batch(request.batch_id, first, state.head, ts, cascaded, wakes)
    tables.save(state)
    return _answer(state, request)


def _answer(state: SessionState, request: Append) -> Appended:
    batch = state.batch
    assert batch is not None
    messages = state.messages_after(request.inbox_cursor)
    return Appended(batch.first_seq, batch.head, batch.ts, messages, batch.cascaded, batch.wakes)


def _rest(tables: Tables, state: SessionState, concluded: bool) -> None:
    """What an end or a conclusion gives back."""
    if state.fold.ended:
        state.open = False
        take_out(tables, state, state.messages, "undeliverable")
    elif concluded and not any(m.kind == "prompt" for m in state.inbox.values()):
        state.open = False


def _count_wakes(tables: Tables, state: SessionState, entries: Sequence[LogEntry]) -> int:
    """Runs of the tree that PodEvents started since a person's last message; kept on the root."""
    root = state if state.id == state.root_id else tables.find(state.root_id)
    if root is None:
        return 0
    more = sum(1 for e in entries if isinstance(e, Invoke) and e.trigger == "pod_event")
    if more:
        root.wakes += more
        tables.save(root)
    return root.wakes


def _annotate(tables: Tables, request: Annotate, now: int) -> Annotated:
    state = rules.needed(tables, request.session)
    known = tables.annotation(state, request.extension.domain, request.key)
    if known is not None:
        return Annotated(known, state.head, existed=True)
    if state.rewound > request.guard:
        raise ConditionFailed(
            f"session {state.id} was rewound at {state.rewound}, after {request.guard}",
            reason="rewound",
            session=state.id,
            rewound=state.rewound,
        )
    rows, entries = prepare(state.head, (request.extension,), max(now, state.fold.updated_at))
    history_head = state.history_head
    record(tables, state, rows, entries)
    count(tables, state, entries)
    _count_lag(tables, state, request.extension)
    state.history_head = history_head
    tables.put_annotation(state, request.extension.domain, request.key, state.head)
    tables.save(state)
    return Annotated(state.head, state.head, existed=False)


def _count_lag(tables: Tables, state: SessionState, extension: Extension) -> None:
    """How long the last entry of a range waited for its extraction. Damage there refuses no annotation."""
    end = extension.payload.get("processed_through_entry") if extension.domain == POINTER else None
    if isinstance(end, int) and 0 < end < state.head:
        with suppress(StoreDamaged):
            counters.EXTRACTION_LAG.observe(tables.count, state.fold.updated_at - tables.entry(state, end).ts)
