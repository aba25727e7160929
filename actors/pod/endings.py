"""How a run ends: its entries, and what its parent is owed in the same commit (DESIGN §4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import ValidationError

from actors.pod.calls import CallBoard, answered_result
from actors.pod.facts import PodFacts
from actors.pod.instructions import Append
from actors.pod.state import Identity, Order, PodState
from actors.protocol.tools import ToolOutcome
from session_store.codec import from_plain, to_plain
from session_store.entries import (
    AssistantItems,
    LogEntry,
    Outcome,
    PodEnd,
    QuestionClosed,
    RunEnd,
    ToolResults,
    Withdrawn,
)
from session_store.items import AssistantMessage, Json, Problem, Segment, ToolResult
from session_store.messages import Message, PodEvent
from session_store.requests import Delivery
from session_store.status import GIVEN_UP

EVENT_TEXT_LIMIT = 32_000
"""Code points of a child's final text that its parent is told; ReadPodOutput gives the rest."""

OUT_OF_TIME = Problem("seconds", "The run used up its time.")
NEVER_BEGAN = "The call was not run: the run ended before it."
INTERRUPTED = "Interrupted before it finished; whether it took effect is not known. It will not be run again."


@dataclass(frozen=True, slots=True)
class Ending:
    """A run's end: how, why, and whom it waits for."""

    outcome: Outcome
    error: Problem | None = None
    waits_for: tuple[str, ...] | None = None
    mode: str | None = None
    wake_parent: bool = True
    text: str | None = None
    """Text of a reply that is committed together with this end; None: what the log already holds."""
    suspends: bool = False
    """The same run goes on later (a permission is asked): a pause that it was given still holds then."""


@dataclass(slots=True)
class Commit:
    """An append in the making."""

    entries: list[LogEntry] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    consumes: list[str] = field(default_factory=list)
    concluded: bool = False
    cascade: Literal["cancel", "stop"] | None = None

    def add(self, *entries: LogEntry) -> None:
        self.entries.extend(entries)

    def append(self, batch_id: str, head: int, cursor: int) -> Append:
        """The instruction that commits this on top of `head`."""
        return Append(
            batch_id,
            head,
            tuple(self.entries),
            tuple(self.deliveries),
            tuple(dict.fromkeys(self.consumes)),
            cursor,
            self.concluded,
            self.cascade,
        )


def end_run(state: PodState, ending: Ending, commit: Commit, board: CallBoard | None = None) -> Commit:
    """Close what is open, add `run_end` for the current run and the event its parent is owed. Returns `commit`."""
    fold, facts = state.fold, state.facts
    assert fold.run_id is not None
    if not ending.suspends:
        close_calls(state, commit, board)
    cancelled = ending.outcome in ("cancelled", "withdrawn")
    if cancelled and fold.question is not None:
        commit.add(QuestionClosed(fold.question.question_id, "cancelled", "system"))
        commit.consumes.extend(late_answers(state))
    mode: Any = ending.mode
    commit.add(RunEnd(fold.run_id, ending.outcome, ending.error, ending.waits_for, mode))
    commit.concluded |= facts.concludes_with(ending.outcome, ending.error)
    kind = _event_kind(ending, facts)
    if kind == "turn_ended":
        text = facts.run_text if ending.text is None else ending.text
        still_open = 0 if cancelled else facts.open_children
        event = {"outcome": ending.outcome, "text": clipped(text), "open_children": still_open}
        tell_parent(state.who, commit, kind, event, ending.wake_parent)
    elif kind == "errored":
        tell_parent(
            state.who, commit, kind, {"outcome": "errored", "error": to_plain(ending.error)}, ending.wake_parent
        )
    if not ending.suspends:
        commit.consumes.extend(m.message_id for m in state.controls() if m.kind != "stop")
    if cancelled:
        commit.cascade = "cancel"
    return commit


def cancel_run(state: PodState, order: Order, produced: bool = False) -> Ending:
    """How an ordered cancel ends the run: `withdrawn` only if nothing was produced (DESIGN §3), else `cancelled`."""
    facts = state.facts
    untouched = not (facts.run_replied or produced or facts.run_answers) and bool(facts.run_inputs)
    withdrawn = order == "cancel" and state.fold.run_open and untouched
    message = state.aimed("cancel")
    cascaded = message is not None and bool(message.body.get("cascade"))
    return Ending("withdrawn" if withdrawn else "cancelled", wake_parent=not cascaded)


def ordered_ending(state: PodState, commit: Commit, late: Problem | None) -> Ending:
    """The end by cancel or interrupt, else by time or a hook (`late` says which); `commit` may hold the last text the
    model produced."""
    order = state.order()
    produced = [i for e in commit.entries if isinstance(e, AssistantItems) for i in e.items]
    if order == "cancel" or order == "interrupt":
        ending = cancel_run(state, order, bool(produced))
    else:
        ending = Ending("limit_reached", late or OUT_OF_TIME)
    text = "".join(i.text for i in produced if i.type == "text")
    return replace(ending, text=text or None)


def withdraw_cancelled(state: PodState, commit: Commit) -> None:
    """Give back the queue that a cancel takes with it: all of it if it asks so, the parent's part if it came from
    above. What was sent after the cancel stays. An order to compact goes with it."""
    commit.consumes.extend(dropped_compactions(state, state.controls()))
    for cancel in state.controls():
        if cancel.kind != "cancel" or not (cancel.body.get("clear_queue") or cancel.body.get("cascade")):
            continue
        of = None if cancel.body.get("clear_queue") else state.who.parent_id
        earlier = [m for m in state.messages if m.position < cancel.position and of in (None, m.sender)]
        withdraw(state, commit, earlier, wake=not cancel.body.get("cascade"))


def dropped_compactions(state: PodState, controls: Iterable[Message]) -> list[str]:
    """Accepted orders to compact that a cancel which came after them takes along."""
    last = max((m.position for m in controls if m.kind == "cancel"), default=0)
    return [m.message_id for m in state.messages if m.kind == "compact" and m.position < last]


def withdraw(state: PodState, commit: Commit, messages: Iterable[Message], wake: bool | None) -> None:
    """Give these prompts back; one of the parent's is told in this commit, unless `wake` is None."""
    for message in messages:
        if message.kind != "prompt" or message.message_id in commit.consumes:
            continue
        commit.add(Withdrawn(message.message_id, segments_of(message)))
        commit.consumes.append(message.message_id)
        if wake is not None and message.sender == state.who.parent_id:
            tell_parent(state.who, commit, "turn_ended", {"outcome": "withdrawn", "open_children": 0}, wake)


def stop_pod(state: PodState, commit: Commit, board: CallBoard | None = None) -> Commit:
    """End the session: calls closed, question closed, run ended, queue given back, `pod_end`, parent told."""
    fold = state.fold
    order = next(m for m in state.messages if m.kind == "stop")
    close_calls(state, commit, board)
    if fold.question is not None:
        commit.add(QuestionClosed(fold.question.question_id, "cancelled", order.sender))
    if fold.run_id is not None and (state.running or fold.suspended or fold.outcome == "waiting_on_children"):
        commit.add(RunEnd(fold.run_id, "stopped"))
    withdraw(state, commit, state.messages, wake=None)
    commit.add(PodEnd(str(order.body.get("reason") or "stopped")))
    wake = order.sender != state.who.parent_id and not order.body.get("cascade")
    tell_parent(state.who, commit, "shut_down", {"outcome": "stopped"}, wake)
    commit.consumes.extend(m.message_id for m in state.controls())  # the rest stays, marked undeliverable
    commit.concluded, commit.cascade = True, "stop"
    return commit


def close_calls(state: PodState, commit: Commit, board: CallBoard | None) -> None:
    """One result for every call still open: what finished as it finished, what never began as not run, the rest as
    interrupted, in call order."""
    message = state.history.open_message
    if message is None:
        return
    results = board.last_results() if board is not None else []
    done = {r.index for e in commit.entries if isinstance(e, ToolResults) for r in e.results}
    done |= {r.index for r in results}
    rest = tuple(i for i in state.history.open_calls if i not in done)
    results = sorted([*results, *closing_results(message, rest, state.history.put_off)], key=lambda r: r.index)
    if results:
        commit.entries.insert(0, ToolResults(tuple(results)))


def tell_parent(who: Identity, commit: Commit, kind: str, event: dict[str, Json], wake: bool = True) -> None:
    """Owe the parent a PodEvent about the last entry added. The store gives it its id (see `Delivery.entry`)."""
    if who.parent_id is None:
        return
    kind_name: Any = kind
    plain = to_plain(PodEvent(kind_name, "", who.session, who.name, who.generation))
    plain.update({k: v for k, v in event.items() if v is not None})
    message = Message("", "pod_event", who.session, {"event": plain}, wake)
    commit.deliveries.append(Delivery(who.parent_id, message, entry=len(commit.entries) - 1))


def late_answers(state: PodState) -> list[str]:
    """Answers in the inbox: they go with their question."""
    return [m.message_id for m in state.messages if m.kind == "answer"]


def closing_results(
    message: AssistantMessage, indexes: tuple[int, ...], never_began: frozenset[int] = frozenset()
) -> list[ToolResult]:
    """One result for each of these calls, in call order: `not_run` for those that never began, else `interrupted`."""
    outcomes = [
        (i, ToolOutcome("not_run", NEVER_BEGAN) if i in never_began else ToolOutcome("interrupted", INTERRUPTED))
        for i in indexes
    ]
    return [replace(answered_result(message, i, outcome), content=outcome.summary) for i, outcome in outcomes]


def segments_of(message: Message) -> tuple[Segment, ...]:
    """The typed segments of a prompt message. What has not even the form of one is kept as a `malformed` segment, which
    no run takes (case T10)."""
    raw = message.body.get("segments") or ()
    try:
        return from_plain(tuple[Segment, ...], raw)
    except ValidationError:
        return tuple(_segment(part) for part in (raw if isinstance(raw, list | tuple) else (raw,)))


def _segment(raw: Json) -> Segment:
    try:
        return from_plain(Segment, raw)
    except ValidationError:
        return Segment("malformed", str(raw))


def clipped(text: str) -> str:
    if len(text) <= EVENT_TEXT_LIMIT:
        return text
    return f"{text[:EVENT_TEXT_LIMIT]}\n[… {len(text) - EVENT_TEXT_LIMIT} more characters; ReadPodOutput shows them]"


def _event_kind(ending: Ending, facts: PodFacts) -> str | None:
    match ending.outcome:
        case "waiting_on_children" | "stopped":
            return None  # a stop is told by `shut_down`, about the `pod_end` entry
        case "waiting_on_user":
            return None  # told with the question, about its own entry
        case "errored":
            given_up = ending.error is not None and ending.error.type == GIVEN_UP
            return "errored" if facts.parents_work or given_up else None
        case "cancelled" | "withdrawn":
            return "turn_ended" if facts.work_open or facts.parents_work else None
        case _:
            return "turn_ended" if facts.parents_work else None
