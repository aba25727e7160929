"""How a run opens: which messages it serves, and the entries of its first commit."""

from __future__ import annotations

from actors.pod.endings import Commit, late_answers, segments_of
from actors.pod.interceptors import gap
from actors.pod.reminder import reminder
from actors.pod.state import PodState
from session_store.entries import Invoke, QuestionClosed, Served, UserInput
from session_store.items import Segment
from session_store.messages import Message
from session_store.status import answers, wakes


def open_run(state: PodState, run_id: str) -> Commit:
    """The first commit of a run that the inbox starts: question closed, `invoke`, `user_input`, then the gap's items.

    One prompt a run: each is answered in its own turn. Notices and PodEvents that are there already come with it.
    """
    commit = Commit()
    head = _leading(state)
    found = gap(state.fold, state.messages)
    if head is not None and head.kind in ("prompt", "answer"):
        _close_question(state, commit, head)
        commit.add(Invoke(run_id, head.kind, (Served(head.message_id, head.sender),)))
        commit.add(user_input(head, _answered(state, head)))
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
    _remind(state, commit)
    return commit


def void(state: PodState, controls: list[Message]) -> Commit:
    """Take controls that change nothing out of the inbox; a cancel from above still reaches what is below."""
    passes = any(m.kind == "cancel" and m.body.get("cascade") for m in controls)
    return Commit(consumes=[m.message_id for m in controls], cascade="cancel" if passes else None)


def add_gap(state: PodState, commit: Commit) -> bool:
    """Add what comes before the next request: steering prompts, notices, PodEvents, the reminder. Whether any came."""
    found = gap(state.fold, state.messages)
    steers = state.steers()
    commit.add(*(user_input(m) for m in steers), *found.entries)
    commit.consumes.extend([*(m.message_id for m in steers), *found.consumes])
    return _remind(state, commit) or bool(steers or found.consumes)


def _remind(state: PodState, commit: Commit) -> bool:
    """Put a reminder that is due at the end of the commit. Its id is that of the place: the head only grows."""
    found = reminder(state.facts.planning.now, commit.entries, state.config, f"reminder:{state.head}")
    if found is not None:
        commit.add(found)
    return found is not None


def user_input(message: Message, answers_id: str | None = None) -> UserInput:
    """The `user_input` of a prompt or an answer."""
    if message.kind == "answer":
        said = [str(message.body[k]) for k in ("choice", "text") if message.body.get(k)]
        return UserInput((Segment("text", "\n".join(said)),), message.message_id, message.sender, answers_id)
    return UserInput(segments_of(message), message.message_id, message.sender, answers_id)


def _leading(state: PodState) -> Message | None:
    """The prompt, answer or `resume` that opens the run; None when notices or PodEvents do."""
    messages = state.messages
    prompts = [m for m in messages if m.kind == "prompt"]
    urgent = [m for m in prompts if m.body.get("when_busy") == "interrupt"]
    if urgent:
        return urgent[0]
    if state.fold.question is not None:
        answer = next((m for m in messages if answers(state.fold, m)), None)
        earlier = prompts[0] if prompts else None
        if answer is not None and (earlier is None or answer.position <= earlier.position):
            return answer
        return earlier or answer
    if prompts:
        return prompts[0]
    return state.aimed("resume") if state.fold.outcome == "errored" else None


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
