"""How a run opens: which messages it serves, and the entries of its first commit."""

from __future__ import annotations

from collections.abc import Iterable

from actors.pod.asking import decide
from actors.pod.endings import Commit, dropped_compactions, late_answers, segments_of
from actors.pod.interceptors import Gap, GapView, gap
from actors.pod.referring import attachments, ready_steers
from actors.pod.state import PodState
from actors.protocol.task_log import advance
from session_store.entries import Invoke, LogEntry, QuestionClosed, Served, UserInput
from session_store.items import Segment
from session_store.messages import Message
from session_store.status import answers, wakes


def open_run(state: PodState, run_id: str) -> Commit:
    """The first commit of a run that the inbox starts: question closed, `invoke`, `user_input` with what it brings
    along, then the gap's items.

    One prompt a run: each is answered in its own turn. Notices and PodEvents that are there already come with it.
    A run that asked for a permission is not opened anew: its decision goes on with it.
    """
    if state.fold.suspended:
        return decide(state)
    commit = Commit()
    head = state.leading()
    found = _gap(state)
    if head is not None and head.kind in ("prompt", "answer"):
        _close_question(state, commit, head)
        commit.add(Invoke(run_id, head.kind, (Served(head.message_id, head.sender),)))
        commit.add(user_input(head, _answered(state, head)), *attachments(state, head))
        commit.consumes.append(head.message_id)
    elif head is not None:  # resume of an errored run: it goes on with what that run served
        commit.add(Invoke(run_id, "resume", state.fold.serves))
        commit.consumes.append(head.message_id)
    else:
        taken = set(found.consumes)
        served = tuple(Served(m.message_id, m.sender) for m in state.messages if m.message_id in taken)
        commit.add(Invoke(run_id, _wake_kind(state), served))
    commit.add(*found.entries)
    commit.consumes.extend(found.consumes)
    return commit


def void(state: PodState, controls: list[Message]) -> Commit:
    """Take controls that change nothing out of the inbox; a cancel from above still reaches what is below."""
    passes = any(m.kind == "cancel" and m.body.get("cascade") for m in controls)
    dropped = dropped_compactions(state, controls)
    consumes = [*(m.message_id for m in controls), *dropped]
    return Commit(consumes=consumes, cascade="cancel" if passes else None)


def add_gap(state: PodState, commit: Commit) -> bool:
    """Add what comes before the next request: steering prompts, notices, PodEvents, the reminder. Whether any came."""
    found = _gap(state, commit.entries)
    steers = ready_steers(state)
    commit.add(*(e for m in steers for e in (user_input(m), *attachments(state, m))), *found.entries)
    commit.consumes.extend([*(m.message_id for m in steers), *found.consumes])
    return bool(steers or found.entries or found.consumes)


def user_input(message: Message, answers_id: str | None = None) -> UserInput:
    """The `user_input` of a prompt or an answer."""
    if message.kind == "answer":
        said = [str(message.body[k]) for k in ("choice", "text") if message.body.get(k)]
        return UserInput((Segment("text", "\n".join(said)),), message.message_id, message.sender, answers_id)
    return UserInput(segments_of(message), message.message_id, message.sender, answers_id)


def _gap(state: PodState, coming: Iterable[LogEntry] = ()) -> Gap:
    """What stands in the gap after the entries `coming` before it in the same commit."""
    config, planning = state.config, state.facts.planning.now
    for entry in coming:
        planning = advance(planning, entry)
    view = GapView(
        tuple(state.messages), state.fold.is_stale, planning, config.planning, config.reminder, place=state.head
    )
    return gap(view, state.interceptors)


def _answered(state: PodState, message: Message) -> str | None:
    """The id of the open question that the message answers, if it does."""
    question = state.fold.question
    return question.question_id if question is not None and answers(state.fold, message) else None


def _close_question(state: PodState, commit: Commit, message: Message) -> None:
    question = state.fold.question
    if question is None:
        return
    answered = answers(state.fold, message)
    commit.add(
        QuestionClosed(
            question.question_id,
            "answered" if answered else "superseded",
            message.sender,
            message.body.get("choice") if answered else None,
            message.body.get("text") if answered else None,
            message.message_id,
        )
    )
    commit.consumes.extend(late_answers(state))


def _wake_kind(state: PodState) -> str:
    """`pod_event` when a child's event is among what wakes the Pod, else `notify`."""
    woken_by = {m.kind for m in state.messages if wakes(state.fold, m)}
    if "pod_event" in woken_by or state.fold.outcome == "waiting_on_children":
        return "pod_event"
    return "notify"
