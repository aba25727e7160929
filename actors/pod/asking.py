"""How a run puts a question to a person, and how it goes on with a permission. Pure.

A clarify question ends the run; its answer starts a new one. A permission question suspends the run; the decision goes
on with it, whatever incarnation takes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.pod.calls import NOT_RUN, CallBoard, answered_result
from actors.pod.endings import Commit, Ending, late_answers, tell_parent
from actors.pod.permits import ALLOW_ONCE, ALLOW_SESSION, DENY
from actors.pod.state import PodState
from actors.protocol.tools import ASKING_TOOLS, ToolOutcome
from session_store.codec import to_plain
from session_store.entries import CallRef, Choice, Question, QuestionClosed, ToolResults, ToolStarted
from session_store.items import ToolResult
from session_store.status import answers

BEHIND_QUESTION = ToolOutcome("not_run", "not run: the turn ended with the question before it", NOT_RUN)
PERMISSION_CHOICES = (
    Choice(ALLOW_ONCE, "Run this call."),
    Choice(ALLOW_SESSION, "Run it, and in this session do not ask about the same again."),
    Choice(DENY, "Do not run it; the model is told, with your text as the reason."),
)


def clarified(results: Iterable[ToolResult]) -> ToolResult | None:
    """The successful clarify among these results, if any: its question is to be committed with it."""
    return next((r for r in results if r.name in ASKING_TOOLS and r.status == "ok"), None)


def ask_clarify(state: PodState, board: CallBoard, results: list[ToolResult]) -> Commit:
    """The question of a successful clarify among `results`, in one commit with them and with what is not run now.

    The caller ends the run `waiting_on_user`.
    """
    asked = clarified(results)
    assert asked is not None
    assert asked.data is not None
    done = {r.index for r in results}
    left = [i for i in state.history.open_calls if i not in done]
    behind = [answered_result(board.message, i, BEHIND_QUESTION) for i in left]
    commit = Commit()
    commit.add(ToolResults(tuple(sorted([*results, *behind], key=lambda r: r.index))))
    said = asked.data["question"]
    choices = tuple(Choice(c["label"], c.get("description")) for c in said.get("choices") or ())
    _put(state, commit, Question(_question_id(state, "q", asked), "clarify", str(said["question"]), choices))
    return commit


def ask_permission(state: PodState, board: CallBoard, commit: Commit) -> Ending:
    """Add the question about the first call that wants a permission, in call order; the end that suspends the run."""
    index = min(board.asked)
    ask, call = board.asked[index], board.message.calls[index]
    ref = CallRef(board.message.seq, index, call)
    _put(
        state,
        commit,
        Question(_question_id(state, "p", ref), "permission", ask.question, PERMISSION_CHOICES, ref, ask.subject),
    )
    return Ending("waiting_on_user", suspends=True)


def decide(state: PodState) -> Commit:
    """Go on with the run that asked for a permission: `tool_started`, or the refusal as the call's result."""
    question = state.fold.question
    assert question is not None
    assert question.call is not None
    message = next(m for m in state.messages if m.kind == "answer" and answers(state.fold, m))
    choice, text = message.body.get("choice"), message.body.get("text")
    commit = Commit(consumes=late_answers(state))
    closed = QuestionClosed(question.question_id, "answered", message.sender, choice, text, message.message_id)
    commit.add(closed)
    if choice in (ALLOW_ONCE, ALLOW_SESSION):
        commit.add(ToolStarted(question.call))
        return commit
    assert state.history.open_message is not None
    commit.add(ToolResults((answered_result(state.history.open_message, question.call.index, _denial(text)),)))
    return commit


def _denial(text: str | None) -> ToolOutcome:
    reason = (text or "").strip()
    said = f" Their reason: {reason}" if reason else " They gave no reason."
    summary = " ".join(f"denied by a person{': ' if reason else ''}{reason}".split())[:200]
    return ToolOutcome("denied", summary, f"Not run: a person denied this call.{said}")


def _put(state: PodState, commit: Commit, question: Question) -> None:
    """The question, and the event about it that the parent is owed."""
    commit.add(question)
    told = {
        "question_id": question.question_id,
        "kind": question.kind,
        "question": question.question,
        "choices": to_plain(question.choices),
    }
    tell_parent(state.who, commit, "waiting_on_user", {"question": told})


def _question_id(state: PodState, kind: str, call: ToolResult | CallRef) -> str:
    """Follows from the call, so that asking again after a crash asks the same; told apart from other sessions'."""
    return f"{kind}-{state.who.session[-12:]}-{call.call_seq}-{call.index}"
