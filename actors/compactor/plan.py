"""What a compaction keeps and what its summary stands for. Pure.

A history is cut between *units*, never within one: a prompt with what it brought along; a reply with the results of its
calls. Kept are the newest units that fit into the retained tokens, everything from an open question on, and the prompts
that the run at work was given. What an earlier compaction put at the beginning is summarised anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from actors.protocol.compaction import NO_PROGRESS, CompactionError, CompactionOrder
from actors.protocol.sizes import BYTES_PER_TOKEN, in_tokens, item_bytes
from actors.protocol.system_items.file_attachment import FILE_ATTACHMENT
from actors.protocol.system_items.summary import SUMMARY
from actors.protocol.system_items.task_snapshot import TASK_SNAPSHOT
from session_store.items import AssistantMessage, HistoryItem, SystemMessage, ToolResultGroup, UserMessage
from session_store.restore import ATTACHMENT_KINDS

RETAINED = 20_000
"""Tokens that stay as they are where the settings do not say, but at most a quarter of the limit and of the history."""
SUMMARY_TOKENS = 8_000
"""The most that a summary may have, if there is room: about six pages."""
LEAST_SUMMARY = 200
"""Tokens; with less room a compaction is not begun."""
FILE_TOKENS = 10_000
"""The most that files read again may have together, if there is room."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`summarised` is told to the worker, `kept` goes into the new segment as it is. Sizes are tokens.

    `goal` is what the new history must stay under, `kept_size` what of it is taken (with system prompt, tools and the
    task snapshot); `summary_size` and `file_size` share the room that is left. `scale` is what the provider measures
    for one estimated token, where the two are too far apart to be compared.
    """

    summarised: tuple[HistoryItem, ...]
    kept: tuple[HistoryItem, ...]
    goal: int
    kept_size: int
    summary_size: int
    file_size: int
    scale: float = 1.0

    @property
    def attached(self) -> tuple[str, ...]:
        """Paths of attached files that are not shown any more."""
        shown = set(attached_paths(self.kept))
        return tuple(dict.fromkeys(p for p in attached_paths(self.summarised) if p not in shown))


@dataclass(frozen=True, slots=True)
class _Unit:
    start: int
    end: int
    size: int
    """Bytes."""


def plan(order: CompactionOrder, retained_tokens: int | None) -> Plan:
    """Raises `CompactionError` (`no_progress`) when nothing would be gained."""
    history, goal, scale = order.history, goal_of(order), 1.0
    fixed = order.frame + _snapshot_size(order)
    units = list(_units(history))
    if goal < order.frame + LEAST_SUMMARY:
        # Measured, or allowed, is less than system prompt and tools are estimated at: all that an estimate can say is
        # whether the history becomes shorter. What comes of it the next request measures.
        goal = order.frame + in_tokens(sum(u.size for u in units))
        scale = min(1.0, order.occupancy / max(1, goal))
    pinned = [_has(history, u, order.pinned) for u in units]
    must = next((i for i, u in enumerate(units) if _asks(history, u, order.question)), len(units))
    floor = 1 + max((i for i, u in enumerate(units) if _begins_segment(history, u)), default=-1)
    size = sum(u.size for u, pin in zip(units, pinned, strict=True) if pin)
    room = min(retained(order, retained_tokens), goal - fixed - LEAST_SUMMARY) * BYTES_PER_TOKEN
    cut = len(units)
    while cut > floor:
        more = 0 if pinned[cut - 1] else units[cut - 1].size
        if cut - 1 < must and size + more > room:
            break
        cut, size = cut - 1, size + more
    gone = [u for u, pin in zip(units[:cut], pinned, strict=False) if not pin]
    stay = [u for u, pin in zip(units, pinned, strict=True) if pin or u.start >= _start(units, cut, history)]
    kept_size = fixed + in_tokens(size)
    left = goal - kept_size
    if not any(u.start >= _start(units, floor, history) for u in gone):
        raise CompactionError(NO_PROGRESS, f"there is nothing to summarise beside what is kept ({kept_size} tokens)")
    if left < LEAST_SUMMARY:
        words = f"what must be kept has about {kept_size} tokens, of {goal} that there may be"
        raise CompactionError(NO_PROGRESS, words)
    summary_size = min(SUMMARY_TOKENS, max(LEAST_SUMMARY, left // 2))
    file_size = min(FILE_TOKENS, (left - summary_size) // 2)
    return Plan(_items(history, gone), _items(history, stay), goal, kept_size, summary_size, file_size, scale)


def goal_of(order: CompactionOrder) -> int:
    """Tokens that the new history must stay under."""
    return min(order.limit, order.occupancy) if order.limit else order.occupancy


def retained(order: CompactionOrder, retained_tokens: int | None) -> int:
    """Tokens of the newest history that stay as they are."""
    if retained_tokens is not None:
        return retained_tokens
    return min(RETAINED, goal_of(order) // 4, in_tokens(sum(map(item_bytes, order.history))) // 4)


def attached_paths(items: Iterable[HistoryItem]) -> Iterator[str]:
    for item in items:
        if isinstance(item, SystemMessage) and item.item.kind == FILE_ATTACHMENT.name:
            path = item.item.payload.get("path")
            if isinstance(path, str):
                yield path


def _units(history: Sequence[HistoryItem]) -> Iterator[_Unit]:
    start = 0
    for place in range(1, len(history) + 1):
        if place == len(history) or not _belongs(history[place]):
            yield _Unit(start, place, sum(map(item_bytes, history[start:place])))
            start = place


def _belongs(item: HistoryItem) -> bool:
    """Whether the item is part of what stands before it."""
    return isinstance(item, ToolResultGroup) or (isinstance(item, SystemMessage) and item.item.kind in ATTACHMENT_KINDS)


def _has(history: Sequence[HistoryItem], unit: _Unit, message_ids: frozenset[str]) -> bool:
    first = history[unit.start]
    return isinstance(first, UserMessage) and first.message_id in message_ids


def _asks(history: Sequence[HistoryItem], unit: _Unit, question: int | None) -> bool:
    first = history[unit.start]
    return question is not None and isinstance(first, AssistantMessage) and first.seq == question


def _begins_segment(history: Sequence[HistoryItem], unit: _Unit) -> bool:
    first = history[unit.start]
    return isinstance(first, SystemMessage) and first.item.kind in (SUMMARY.name, TASK_SNAPSHOT.name)


def _start(units: Sequence[_Unit], index: int, history: Sequence[HistoryItem]) -> int:
    return units[index].start if index < len(units) else len(history)


def _items(history: Sequence[HistoryItem], units: Iterable[_Unit]) -> tuple[HistoryItem, ...]:
    return tuple(item for unit in units for item in history[unit.start : unit.end])


def _snapshot_size(order: CompactionOrder) -> int:
    return 0 if order.tasks is None else in_tokens(item_bytes(SystemMessage(order.tasks)))
