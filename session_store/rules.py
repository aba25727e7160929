"""What the store refuses, as pure checks on what it knows. Each raises its refusal, or says what is to be written.

Both backends decide by these functions, so they cannot differ. A transaction checks everything before it writes
anything: a refusal leaves no trace.
"""

from __future__ import annotations

import re
from dataclasses import replace

from session_store import status
from session_store.entries import Question
from session_store.errors import ConditionFailed, HeadMoved, StaleEpoch, UnknownSession
from session_store.messages import CONTROL_KINDS, USER, Message
from session_store.requests import Append, Create, Expect, Fork, Open, Parent, PodLimits
from session_store.rows import Scope
from session_store.scopes import outside, overlap, resolved
from session_store.state import QuestionRecord, SessionState
from session_store.status import StatusFold
from session_store.tables import Tables

_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
_BAD_IN_NAME = re.compile(r"[/\\\x00-\x1f\x7f]|\.\.")
NAME_LIMIT = 64
_CLOSED = {
    "unknown": "it was never asked here",
    "superseded": "another message came first and the Pod went on with that",
    "cancelled": "the Pod was cancelled, stopped or rewound",
    "answered": "it is answered already",
}


def needed(tables: Tables, session: str) -> SessionState:
    """The session; raises `UnknownSession`."""
    state = tables.find(session)
    if state is None:
        raise UnknownSession(f"there is no session {session!r} in this store", session=session)
    return state


def check_owner(state: SessionState, epoch: int) -> None:
    """Only the newest incarnation, while it holds the lease."""
    if epoch != state.epoch or not state.owned:
        says = f"epoch {state.epoch}" if state.owned else f"epoch {state.epoch}, released"
        raise StaleEpoch(
            f"epoch {epoch} of session {state.id} is over (now {says}): stop",
            session=state.id,
            epoch=epoch,
            current=state.epoch,
        )


def check_head(state: SessionState, request: Append) -> None:
    """`expected_head` = n holds when no entry after n other than annotations exists."""
    if not state.history_head <= request.expected_head <= state.head:
        raise HeadMoved(
            f"session {state.id} is at {state.head}, not at {request.expected_head}: someone else wrote history",
            session=state.id,
            expected=request.expected_head,
            head=state.head,
        )


def check_open(state: SessionState, request: Open, newest: int) -> bool:
    """Whether the lease is to be made anew (False: this request is a retry and the lease it made still stands)."""
    if request.directory_epoch != newest:
        raise StaleEpoch(
            f"Directory epoch {request.directory_epoch} is over (now {newest}): stop",
            session=state.id,
            directory_epoch=request.directory_epoch,
            current=newest,
        )
    if request.replaces in (None, state.epoch):
        return True
    if request.replaces == state.epoch - 1 and state.owned and state.untouched and state.opened_by == newest:
        return False
    raise StaleEpoch(
        f"session {state.id} is at epoch {state.epoch}, not {request.replaces}: it was opened by someone else",
        session=state.id,
        epoch=request.replaces,
        current=state.epoch,
    )


def consumed(state: SessionState, request: Append) -> tuple[Message, ...]:
    """The messages that the append takes out of the inbox; each is taken once."""
    taken = []
    for message_id in dict.fromkeys(request.consumes):
        message = state.inbox.get(message_id)
        if message is None:
            raise ConditionFailed(
                f"message {message_id!r} is not in the inbox of session {state.id} (unknown, or consumed before)",
                reason="conflict",
                session=state.id,
                message_id=message_id,
            )
        taken.append(message)
    return tuple(taken)


def check_names(request: Create | Fork) -> None:
    """Ids and names can be shown, typed and used in paths without harm (case G07)."""
    if _ID.fullmatch(request.session) is None or ".." in request.session:
        raise ConditionFailed(
            f"{request.session[:80]!r} is no session id: 1 to {NAME_LIMIT} letters, digits, `.`, `_`, `-`",
            reason="invalid",
        )
    name = request.name
    if name and (len(name) > NAME_LIMIT or name != name.strip() or _BAD_IN_NAME.search(name)):
        raise ConditionFailed(
            f"{name[:80]!r} is no name for a Pod: 1 to {NAME_LIMIT} characters without `/`, `\\`, `..` or control"
            " characters",
            reason="invalid",
        )


def living_parent(tables: Tables, parent: Parent) -> SessionState:
    """The spawning session, if its incarnation and run still go on and nobody has cancelled them."""
    state = needed(tables, parent.session)
    check_owner(state, parent.epoch)
    cancelled = any(
        m.kind == "stop" or (m.kind == "cancel" and m.body.get("run_id") in (None, parent.run_id))
        for m in state.inbox.values()
    )
    if state.fold.ended or not state.fold.run_open or state.fold.run_id != parent.run_id or cancelled:
        raise ConditionFailed(
            f"run {parent.run_id} of session {state.id} is cancelled or over: it spawns nothing more",
            reason="run_over",
            session=state.id,
            run_id=parent.run_id,
        )
    return state


def check_place(tables: Tables, parent_id: str | None, limits: PodLimits) -> None:
    """One more open Pod must fit, in the store and among the parent's children."""
    if tables.open_pods() >= limits.max_pods:
        raise _limit("max_pods", limits.max_pods, "Pods are at work")
    if parent_id is not None and len(tables.children(parent_id, open_only=True)) >= limits.max_children:
        raise _limit("max_children", limits.max_children, "children of this Pod are at work")


def check_depth(depth: int, limits: PodLimits) -> None:
    if depth > limits.max_depth:
        raise _limit("max_depth", limits.max_depth, "levels of Pods stand above this one")


def check_scope(tables: Tables, scope: Scope | None, child: SessionState | None, parent: SessionState) -> None:
    """An explicit scope is part of the parent's, and its write folders are no open sibling's.

    `child` is the session that takes its scope again, None for a new one.
    """
    if scope is None:
        return
    workspace = workspace_of(child or parent)
    mine = resolved(scope, workspace)
    whole = _scope_of(tables, parent)
    if whole is not None and (path := outside(mine, whole)) is not None:
        raise ConditionFailed(
            f"{path} is outside the scope of the parent {parent.id}", reason="scope", path=path, session=parent.id
        )
    for sibling in tables.children(parent.id, open_only=True):
        if sibling.scope is None or (child is not None and sibling.id == child.id):
            continue
        path = overlap(mine.write, resolved(sibling.scope, sibling.workspace).write)
        if path is not None:
            raise ConditionFailed(
                f"{path} is being written by Pod {sibling.id} until its work has ended",
                reason="scope",
                path=path,
                session=sibling.id,
            )


def check_reopen(tables: Tables, state: SessionState, limits: PodLimits) -> None:
    """A prompt to a concluded Pod takes its place and write scope again, or is refused."""
    check_place(tables, state.parent_id, limits)
    parent = None if state.parent_id is None else tables.find(state.parent_id)
    if parent is not None:
        check_scope(tables, state.scope, state, parent)


def workspace_of(state: SessionState) -> str:
    return str(state.config.get("workspace") or "")


def check_not_ended(state: SessionState) -> None:
    if state.fold.ended:
        raise ConditionFailed(f"session {state.id} has ended and takes nothing more", reason="ended", session=state.id)


def check_busy(state: SessionState) -> None:
    """`not_busy`: at rest, no open question, no unconsumed message that may start a run."""
    fold = state.fold
    if fold.run_open or fold.question is not None or fold.suspended or status.starts_run(fold, state.messages):
        raise ConditionFailed(
            f"session {state.id} is busy ({state.status})", reason="busy", session=state.id, status=state.status
        )


def check_run(state: SessionState, message: Message, expect: Expect) -> None:
    """`run`: the control message is aimed at a run that it can still change."""
    fold = state.fold
    if expect.id is not None and expect.id != fold.run_id:
        raise _not_running(state, expect.id)
    if message.kind == "stop" and expect.id is None:
        return
    if message.kind == "cancel" and expect.id is None and status.compact_of(state.messages) is not None:
        return
    about_to_start = expect.id is None and status.starts_run(fold, state.messages)
    if message.kind == "resume" and state.owned and (about_to_start or fold.run_open):
        if any(m.kind == "pause" and m.body.get("run_id") in (None, fold.run_id) for m in state.messages):
            return
        raise _not_running(state, None)
    if about_to_start or fold.run_open or _can_change(fold, message.kind):
        return
    raise _not_running(state, expect.id or fold.run_id)


def aimed(state: SessionState, message: Message) -> Message:
    """A control message with the run that is current now as its `body.run_id`.

    It stays without one where no run is current: then it means the run that messages before it in the inbox start.
    """
    fold = state.fold
    if message.kind not in CONTROL_KINDS or message.body.get("run_id") is not None or fold.run_id is None:
        return message
    current = fold.run_open or fold.suspended
    if not current and status.starts_run(fold, state.messages):
        return message
    if not current and not _can_change(fold, message.kind):
        return message
    return replace(message, body={**message.body, "run_id": fold.run_id})


def check_answer(state: SessionState, message: Message, question_id: str, record: QuestionRecord | None) -> None:
    """`question_open`: the question is open, nobody took it, and the answer fits it."""
    question = state.fold.question
    taken = record is not None and (record.how == "answered" or (record.how is None and record.taken_by is not None))
    if taken:
        raise ConditionFailed(
            f"question {question_id} is answered already",
            reason="already_answered",
            session=state.id,
            question_id=question_id,
        )
    is_open = question is not None and question.question_id == question_id and record == QuestionRecord()
    how = _fate(state, record) if question is None or not is_open else closing(state, question)
    if question is None or how is not None:
        raise ConditionFailed(
            f"question {question_id} of session {state.id} is closed: {_CLOSED[how or 'unknown']}",
            reason="question_closed",
            session=state.id,
            question_id=question_id,
            how=how,
        )
    if question.kind == "permission" and message.sender != USER:
        raise ConditionFailed(
            "a permission is given by a person only", reason="conflict", session=state.id, question_id=question_id
        )
    _check_choice(question, message)


def _fate(state: SessionState, record: QuestionRecord | None) -> str:
    """What became of a question that is not open."""
    if record is None:
        return "unknown"
    return record.how or ("cancelled" if state.fold.ended else "superseded")


def closing(state: SessionState, question: Question) -> str | None:
    """How a message that waits in the inbox is about to close the question: no answer that comes now would count."""
    for message in state.messages:
        ends = message.kind == "cancel" and message.body.get("run_id") in (None, state.fold.run_id)
        if ends or message.kind == "stop":
            return "cancelled"
        other = message.kind == "prompt" and message.body.get("answers") != question.question_id
        if other and question.kind == "clarify":
            return "superseded"
    return None


def takes_question(state: SessionState, message: Message, record: QuestionRecord | None) -> bool:
    """Whether a plain prompt is the answer to the open clarify question: a person's or the direct parent's, once."""
    question = state.fold.question
    return (
        message.kind == "prompt"
        and question is not None
        and question.kind == "clarify"
        and message.sender in (USER, state.parent_id)
        and (record is None or (record.taken_by is None and record.how is None))
    )


def _scope_of(tables: Tables, state: SessionState | None) -> Scope | None:
    """The scope in force: the session's own, or that of the nearest one above; None if there is no bound at all."""
    while state is not None:
        if state.scope is not None:
            return resolved(state.scope, workspace_of(state))
        if state.parent_id is None:
            break
        state = tables.find(state.parent_id)
    workspace = "" if state is None else workspace_of(state)
    return resolved(Scope((".",), (".",)), workspace) if workspace else None


def _check_choice(question: Question, message: Message) -> None:
    choice = message.body.get("choice")
    if choice is None and question.kind == "clarify":
        return
    labels = [c.label for c in question.choices]
    if choice not in labels:
        known = ", ".join(repr(label) for label in labels) or "none: answer by text"
        raise ConditionFailed(
            f"{choice!r} is no choice of question {question.question_id} (choices: {known})",
            reason="unknown_choice",
            question_id=question.question_id,
            choices=labels,
        )


def _can_change(fold: StatusFold, kind: str) -> bool:
    """Whether a control message changes a rest: pausing a paused run does nothing, and says yes to that."""
    if fold.outcome == "paused":
        return True
    if kind in ("cancel", "stop"):
        return fold.suspended or fold.question is not None or fold.outcome == "waiting_on_children"
    return kind == "resume" and fold.outcome == "errored"


def _not_running(state: SessionState, run_id: str | None) -> ConditionFailed:
    what = "no run" if run_id is None else f"run {run_id}"
    says = f"session {state.id} has {what} that goes on" if run_id is None else f"{what} of {state.id} is over"
    return ConditionFailed(says, reason="not_running", session=state.id, run_id=run_id, current=state.fold.run_id)


def _limit(name: str, most: int, what: str) -> ConditionFailed:
    return ConditionFailed(f"the limit is reached: {name} = {most} {what}", reason="limit", limit=name, most=most)
