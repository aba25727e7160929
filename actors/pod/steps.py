"""What comes next, in a run and at rest, after a model's answer and after the end of calls: one step, judged from the
folds alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from actors.pod import compacting, referring
from actors.pod.asking import ask_clarify, ask_permission, clarified
from actors.pod.calls import CallBoard, behind_question, wait_directive
from actors.pod.compacting import Due
from actors.pod.endings import Commit, Ending, cancel_run, segments_of
from actors.pod.instructions import Compact, ResolveReferences, Rest
from actors.pod.openings import add_gap, open_run, void
from actors.pod.replies import cut_off, judge, reply_commit
from actors.pod.rewinds import rewind
from actors.pod.state import PodState
from actors.pod.stimuli import Compacted, CompactionFailed, ReplyCompleted, RequestAborted, RequestFailed
from session_store.entries import AssistantItems, LogEntry, ToolResults
from session_store.items import AssistantItem, AssistantMessage, Problem
from session_store.status import starts_run

MAX_BROKEN = 2
"""Replies in a row that broke off, or said nothing, before the run ends with an error."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model, with the history as it stands."""


@dataclass(frozen=True, slots=True)
class Write:
    """Commit this and look again. `calling`: while calls of the reply run or wait for their stage."""

    commit: Commit
    calling: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """End the run with what `commit` already holds."""

    ending: Ending
    commit: Commit = field(default_factory=Commit)


@dataclass(frozen=True, slots=True)
class Obey:
    """Do as the standing order or the passed deadline says, with what `commit` already holds."""

    commit: Commit = field(default_factory=Commit)


@dataclass(frozen=True, slots=True)
class Call:
    """Take up the calls of the last reply."""


Step: TypeAlias = Ask | Write | End | Obey | Call | Due | ResolveReferences | Rest


def in_run(state: PodState, ordered: bool, over_wakes: bool) -> Step:
    """The next step of a run that goes on. `ordered`: an order or the time ends it."""
    if ordered:
        return Obey()
    if state.history.open_message is not None:
        return Call()
    if state.order() == "pause":
        return End(Ending("paused"))
    if (spent := state.spent(over_wakes)) is not None:
        return End(Ending("limit_reached", spent))
    if (step := before_prompt(state)) is not None:
        return step
    commit = Commit()
    if add_gap(state, commit):
        return Write(commit)
    due = compacting.due_before_request(state)
    return End(Ending("errored", due)) if isinstance(due, Problem) else due or Ask()


def at_rest(state: PodState, run_id: Callable[[], str]) -> Step:
    """The next step of a Pod without a run. `run_id` makes the id of one that starts."""
    if state.cancelled_rest() is not None:
        return End(cancel_run(state, "cancel"))
    if controls := state.void_controls():
        return Write(void(state, controls))
    starts = starts_run(state.fold, state.messages)
    if state.fold.suspended and state.order() == "interrupt" and starts:
        return End(cancel_run(state, "interrupt"))
    if (order := state.rewind) is not None:
        return Write(rewind(state, order))
    if (refused := compacting.impossible(state)) is not None:
        return Write(refused)
    if (due := compacting.due_at_rest(state, starts)) is not None:
        return due
    if not starts:
        return Rest()
    return before_prompt(state) or Write(open_run(state, run_id()))


def after_reply(state: PodState, stimulus: ReplyCompleted, broken: int, ordered: bool) -> tuple[Step, int]:
    """The step after a whole reply, and the count of useless ones in a row. `ordered`: an order or the time ends it."""
    verdict = judge(stimulus.reply)
    nothing = verdict.kind == "nothing"
    commit = reply_commit(stimulus.request_id, len(state.history.items), stimulus.reply, with_items=not nothing)
    broken = broken + 1 if nothing else 0
    if verdict.kind == "calls":
        return Write(commit), broken
    if ordered:
        return Obey(commit), broken
    if nothing and broken > MAX_BROKEN:
        text = f"The model answered {broken} times with neither text nor a tool call."
        return End(Ending("errored", Problem("empty_reply", text)), commit), broken
    if verdict.ending is None or (verdict.ending.outcome == "finished" and state.steers()):
        return Write(commit), broken
    return End(verdict.ending, commit), broken


def after_failure(state: PodState, stimulus: RequestFailed, broken: int, ordered: bool) -> tuple[Step, int]:
    """The step after a request that failed for good; only one that broke off is asked again, within a bound."""
    kept = _items(stimulus.request_id, stimulus.kept)
    retriable = stimulus.broken  # what failed before that, the model has retried itself
    broken += retriable
    if ordered:
        return Obey(Commit(entries=kept)), broken
    if stimulus.error_type == compacting.OVERFLOW and (due := compacting.due_on_overflow(state)) is not None:
        return due, broken
    if not retriable or broken > MAX_BROKEN:
        problem = Problem(stimulus.error_type, stimulus.message)
        return End(Ending("errored", problem), Commit(entries=kept)), broken
    if kept:
        return Write(Commit(entries=[*kept, cut_off(stimulus.request_id)])), broken
    return (End(Ending("paused")) if state.order() == "pause" else Ask()), broken


def after_abort(state: PodState, stimulus: RequestAborted, ordered: bool) -> Step:
    """The step after a request that was cut off on our order."""
    if ordered:
        return Obey(Commit(entries=_items(stimulus.request_id, stimulus.kept)))
    return End(Ending("paused")) if state.order() == "pause" else Ask()


def after_compaction(state: PodState, wanted: Compact, told: Compacted | CompactionFailed, ordered: bool) -> Step:
    """The step after an attempt. Where the model found the request too long and nothing came of it, the run ends."""
    commit = compacting.compacted(state, wanted, told)
    if isinstance(told, Compacted) or wanted.trigger != "overflow" or ordered:
        return Write(commit)
    why = f"The request is longer than the model takes, and the history could not be compacted: {told.message}"
    return End(Ending("errored", Problem(compacting.OVERFLOW, why)), commit)


def after_calls(state: PodState, board: CallBoard, free: bool) -> Step:
    """Commit what has finished; with the last of it also what the next request needs, or the run's rest.

    `free`: no order stands and there is time.
    """
    commit = Commit()
    results = board.take_results()
    if clarified(results) is not None:  # alone in its stage
        return End(Ending("waiting_on_user"), ask_clarify(state, board, results))
    if results:
        commit.add(ToolResults(tuple(results)))
    if board.asked and not board.running:
        return End(ask_permission(state, board, commit), commit)
    if board.running or board.more_stages():
        return Write(commit, calling=True)
    wait = wait_directive([*state.history.open_results.values(), *results])
    if wait is not None and free:
        return End(Ending("waiting_on_children", waits_for=wait.pods, mode=wait.mode), commit)
    if free:
        add_gap(state, commit)
    return Write(commit)


def cut_calls(
    state: PodState, message: AssistantMessage, opened_head: int, idempotent: Callable[[str], bool]
) -> tuple[int, ...]:
    """The open calls of an earlier incarnation (its log reached to `opened_head`) that may not run again (law 6).

    Those that never began are not among them, nor one that was permitted since.
    """
    open_calls, permits = state.history.open_calls, state.facts.permits
    fresh = state.history.put_off | behind_question(message, open_calls)

    def again(index: int) -> bool:
        permit = permits.permit_for(message.seq, index)
        return index in fresh or (permit is not None and permit.seq > opened_head)

    return tuple(i for i in open_calls if not again(i) and not idempotent(message.calls[i].name))


def before_prompt(state: PodState) -> Step | None:
    """The step before a prompt with references is taken in: look them up, or give back what cannot be carried out.
    None: nothing is in the way."""
    message = referring.next_prompt(state)
    if message is None:
        return None
    found = state.looked_up(message)
    if found is None:
        return ResolveReferences(message.message_id, segments_of(message))
    if found.refused is None:
        return None
    commit = referring.refuse(state, message, found.refused)
    if referring.leaves_nothing_to_ask(state, message):
        return End(Ending("finished"), commit)
    return Write(commit)


def _items(request_id: str, kept: Sequence[AssistantItem]) -> list[LogEntry]:
    return [AssistantItems(request_id, tuple(kept))] if kept else []
