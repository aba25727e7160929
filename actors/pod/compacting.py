"""Whether a Pod's history is to be compacted now, and what comes of an attempt. Pure.

Everything is judged from the log: how full the context is (`occupancy`), and what became of earlier attempts
(`attempts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from actors.pod.attempts import BREAKER
from actors.pod.endings import Commit
from actors.pod.instructions import Compact, RaiseAlert
from actors.pod.state import PodState
from actors.pod.stimuli import Compacted, CompactionFailed
from actors.protocol.compaction import NO_PROGRESS, CompactionOrder, CompactionRecord, Trigger, read_record
from actors.protocol.sizes import in_tokens
from actors.protocol.task_log import snapshot_item
from session_store.entries import Extension, Origin, SegmentEnd, SegmentStart
from session_store.items import AssistantMessage, Problem, SystemItem
from session_store.status import compact_of, starts_run

OVERFLOW = "context_overflow"
"""`type` of the error of a model that finds a request longer than it takes."""
EAGER = frozenset({"finished", "limit_reached", "waiting_on_user", "waiting_on_children"})
"""Rests in which the history is compacted at once. After any other (after a cancel nobody wants a request to go out) it
is compacted when the next run is about to start."""
CHILDREN = 200
"""Children that a summary lists, the youngest."""


@dataclass(frozen=True, slots=True)
class Due:
    """Compact now. `limit`: see `CompactionOrder`."""

    trigger: Trigger
    limit: int = 0


def due_at_rest(state: PodState, starts: bool) -> Due | None:
    """Between runs. `starts`: the next run is about to start. What a person ordered is tried whatever came before."""
    rule, fold, facts = state.config.compaction, state.fold, state.facts
    if overtaken(state) or state.history.open_message is not None:
        return None
    if compact_of(state.messages) is not None:
        return Due("order")
    if fold.suspended or not (starts or fold.outcome in EAGER):
        return None
    return Due("rest", rule.threshold) if _over(state, rule.threshold) and not facts.attempts.spent else None


def overtaken(state: PodState) -> bool:
    """Whether an order goes before any compaction (case T02). An interrupting prompt does if it starts a run now."""
    order = state.order()
    if order == "interrupt" and not state.running:
        return starts_run(state.fold, state.messages)
    return order is not None or state.rewind is not None


def due_before_request(state: PodState) -> Due | Problem | None:
    """Between the requests of a run. A `Problem`: the run must end, since nothing makes it shorter (case C02)."""
    limit, attempts = state.config.compaction.request_threshold, state.facts.attempts
    if not _over(state, limit) or attempts.broken:
        return None
    if not attempts.spent:
        return Due("request", limit)
    if not attempts.fruitless:
        return None  # nobody could make a summary; the model may take the request all the same
    about = f"about {state.facts.occupancy.tokens} tokens; compaction.request_threshold is {limit}"
    return Problem(NO_PROGRESS, f"The history cannot be made shorter: the next request would have {about}.")


def due_on_overflow(state: PodState) -> Due | None:
    """When the model has found the request too long: one attempt, where anything is compacted at all."""
    attempts = state.facts.attempts
    if not state.config.compaction.on or attempts.overflow_tried or attempts.spent or overtaken(state):
        return None
    return Due("overflow")


def impossible(state: PodState) -> Commit | None:
    """Puts an accepted order aside that cannot be carried out: meanwhile a call waits for a permission."""
    if state.history.open_message is None:
        return None
    return set_aside(state, Problem("busy", "A call waits for a permission; compact when that is decided."))


def set_aside(state: PodState, problem: Problem) -> Commit | None:
    """Answers an accepted order with `problem`; None when there is none."""
    message = compact_of(state.messages)
    if message is None:
        return None
    orders = (message.message_id,)
    record = CompactionRecord(message.message_id, "order", state.facts.occupancy.tokens, error=problem, orders=orders)
    return Commit(entries=[record.entry()], consumes=list(orders))


def compaction_order(state: PodState, wanted: Compact) -> CompactionOrder:
    """What the compactor is told."""
    facts, history = state.facts, state.history
    tasks = facts.planning.now.tasks
    at_work = state.fold.run_open or state.fold.suspended
    return CompactionOrder(
        compaction_id=wanted.compaction_id,
        session=state.who.session,
        trigger=wanted.trigger,
        history=tuple(history.items),
        frame=in_tokens(facts.occupancy.frame),
        occupancy=facts.occupancy.tokens,
        limit=wanted.limit,
        pinned=frozenset(i.message_id for i in facts.run_inputs) if at_work else frozenset(),
        question=_asked_in(state),
        tasks=None if tasks.next_id == 1 else _snapshot(state, wanted.compaction_id),
        children=_children(state),
        seen=tuple(facts.seen),
        through=state.head,
    )


def compacted(state: PodState, wanted: Compact, told: Compacted | CompactionFailed) -> Commit:
    """The commit of an attempt: the end of the old segment and the new one in one transaction, or why there is none."""
    record = CompactionRecord(wanted.compaction_id, wanted.trigger, state.facts.occupancy.tokens, wanted.limit)
    ordered = tuple(m.message_id for m in state.messages if m.kind == "compact")
    if isinstance(told, CompactionFailed):
        orders = ordered if wanted.trigger == "order" else ()
        failed = replace(record, error=Problem(told.error, told.message), orders=orders)
        return Commit(entries=[failed.entry()], consumes=list(orders))
    made, history = told.made, state.history
    start = SegmentStart(
        state.who.session,
        history.config,
        history.system_prompt,
        history.tools,
        history.wire_version,
        made.items,
        Origin(state.who.session, state.head),
    )
    done = replace(record, after=made.after, summarised=made.summarised, retained=made.retained, orders=ordered)
    return Commit(entries=[SegmentEnd(), start, done.entry()], consumes=list(ordered))


def alerts(state: PodState, entry: Extension) -> Iterator[RaiseAlert]:
    """What people are told of a committed attempt. `state` has seen it."""
    record = read_record(entry)
    if record is None:
        return
    if record.error is None:
        words = f"The history was compacted from about {record.before} to {record.after} tokens."
        yield RaiseAlert("info", "compaction_done", words)
        return
    words = f"The history (about {record.before} tokens) was not compacted: {record.error.message.rstrip('.')}."
    yield RaiseAlert("warning", f"compaction_{record.error.type}", f"{words} Everything stays as it was.")
    if state.facts.attempts.in_a_row == BREAKER:
        words = f"{BREAKER} compactions in a row gained nothing; no more are tried until one is ordered"
        yield RaiseAlert("error", "compaction_given_up", f"{words} (`polypod compact {state.who.session}`).")


def _over(state: PodState, limit: int) -> bool:
    return limit > 0 and state.facts.occupancy.tokens >= limit


def _asked_in(state: PodState) -> int | None:
    """Seq of the reply that asked the open question."""
    if state.fold.question is None:
        return None
    said = [item for item in state.history.items if isinstance(item, AssistantMessage) and item.calls]
    return said[-1].seq if said else None


def _snapshot(state: PodState, compaction_id: str) -> SystemItem:
    return snapshot_item(state.facts.planning.now.tasks, state.config.planning, f"tasks:{compaction_id}")


def _children(state: PodState) -> tuple[str, ...]:
    listed = list(state.facts.children.items())[-CHILDREN:]
    return tuple(f"{c.name or pod_id} ({pod_id}): {'concluded' if c.concluded else 'at work'}" for pod_id, c in listed)
