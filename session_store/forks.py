"""A fork: a new session that begins with another one's history. The source is only looked at."""

from __future__ import annotations

from session_store import counters, rules
from session_store.entries import Question
from session_store.errors import ConditionFailed, UnknownSession
from session_store.recording import count, prepare, record
from session_store.requests import Created, Fork
from session_store.state import SessionState
from session_store.tables import Tables


def fork_session(tables: Tables, request: Fork, now: int) -> Created:
    """Add the session. Refused: `unknown_session`; `condition_failed`: `conflict`, `name_taken`, `limit`, `invalid`."""
    known = tables.made_by(request.tenant, request.message_id)
    if known is not None:
        return Created(known, rules.needed(tables, known).head, existed=True)
    start = request.start
    rules.check_names(request)
    if tables.find(request.session) is not None:
        raise ConditionFailed(f"session {request.session} exists already", reason="conflict", session=request.session)
    _check_origin(tables, request)
    if request.name and tables.name_taken(request.tenant, None, request.name):
        raise ConditionFailed(
            f"the name {request.name!r} is taken: choose another", reason="name_taken", name=request.name
        )
    waits = any(isinstance(entry, Question) for entry in request.more)
    if waits:
        rules.check_place(tables, None, request.limits)
    rows, entries = prepare(0, (start, *request.more), now)

    state = SessionState(
        id=request.session,
        tenant=request.tenant,
        message_id=request.message_id,
        name=request.name,
        parent_id=None,
        root_id=request.session,
        depth=0,
        detached=False,
        scope=request.scope,
        config=start.config,
        open=waits,
    )
    tables.add(state)
    record(tables, state, rows, entries)
    count(tables, state, entries)
    tables.count(counters.CREATED.key("fork"), 1)
    tables.save(state)
    return Created(state.id, state.head, existed=False)


def _check_origin(tables: Tables, request: Fork) -> None:
    origin = request.start.origin
    if origin is None or origin.session == request.session or request.start.session != request.session:
        raise ConditionFailed("a fork names another session as its origin", reason="invalid", session=request.session)
    source = rules.needed(tables, origin.session)
    if source.tenant != request.tenant:
        raise UnknownSession(f"there is no session {origin.session!r} in this store", session=origin.session)
    if not 1 <= origin.seq <= source.head:
        raise ConditionFailed(
            f"session {source.id} has no entry {origin.seq} (the last one is {source.head})",
            reason="invalid",
            session=source.id,
            head=source.head,
        )
