"""Compactions of simulated Pods: the real plan, a summary of words, and a worker that fails at times."""

from __future__ import annotations

from actors.compactor.driver import shorter
from actors.compactor.plan import plan
from actors.pod import instructions as do
from actors.pod import stimuli as st
from actors.pod.compacting import compaction_order
from actors.pod.state import PodState
from actors.protocol.compaction import CompactionError, read_record
from session_store.entries import Extension, LogEntry, SegmentEnd, SegmentStart
from session_store.items import AssistantMessage, ToolResultGroup, UserMessage
from tests.simulation.world import LawBroken, World


def made(world: World, state: PodState, wanted: do.Compact) -> st.Compacted | st.CompactionFailed:
    if world.chance(0.15):
        return st.CompactionFailed(wanted.compaction_id, world.rng.choice(("timeout", "server", "no_summary")), "no")
    order = compaction_order(state, wanted)
    text = "word " * world.rng.choice((1, 10, 60))
    try:
        return st.Compacted(order.compaction_id, shorter(order, plan(order, 40), text, ()))
    except CompactionError as error:
        return st.CompactionFailed(order.compaction_id, error.type, error.message)


def check_segments(entries: list[LogEntry]) -> None:
    """One head (C04): each segment ends where the next begins, in one commit with its record. No half of a pair, and
    nothing twice, in what it begins with (C01, C06)."""
    for place, entry in enumerate(entries):
        if isinstance(entry, SegmentEnd) and not isinstance(entries[place + 1], SegmentStart):
            raise LawBroken(f"segment_end at {entry.seq} is followed by {entries[place + 1].type}")
        if not isinstance(entry, SegmentStart) or entry.seq == 1:
            continue
        after = entries[place + 1]
        if not isinstance(entries[place - 1], SegmentEnd) or not isinstance(after, Extension):
            raise LawBroken(f"the segment at {entry.seq} stands alone")
        if (record := read_record(after)) is None or record.error is not None:
            raise LawBroken(f"the segment at {entry.seq} has no record")
        _check_history(entry)


def _check_history(start: SegmentStart) -> None:
    prompts = [i.message_id for i in start.history if isinstance(i, UserMessage)]
    if len(prompts) != len(set(prompts)):
        raise LawBroken(f"the segment at {start.seq} holds a prompt twice")
    for item, following in zip(start.history, (*start.history[1:], None), strict=True):
        wants = isinstance(item, AssistantMessage) and bool(item.calls)
        if wants != isinstance(following, ToolResultGroup):
            raise LawBroken(f"the segment at {start.seq} parts a call from its result")
