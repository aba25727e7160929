"""Following a stream over any number of connections: what is sent again is told once. Pure.

A shell (`pod_events` over aiohttp, `cli.pod_stream` over the standard library) connects with `cursor`, calls
`connected`, and hands every event of the connection to `take`, which gives what is news. Entries are known by their
seq, alerts by their id, and live text by block and offset: a block that goes on after a reconnect goes on where it
stopped. One that a reconnect does not bring again is void as soon as something says so, and then told as `Discard`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from actors.protocol.live import TOOL_BLOCK, Delta, Discard, Retry
from orchestrator.event_lines import PLACE
from orchestrator.events import (
    AlertEvent,
    EntryEvent,
    EntryHeader,
    PodStreamEvent,
    Resync,
    StatusEvent,
    StoreEvent,
    SystemItemEvent,
    UnknownEvent,
    Wire,
    parse_event,
    parse_store_event,
)

KNOWN_ALERTS = 1024
KNOWN_ENDS = 256
"""Requests and tools' blocks whose end is remembered, for deltas that come late."""

EventT_co = TypeVar("EventT_co", covariant=True)
KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Following(Protocol[EventT_co]):
    """One stream followed."""

    @property
    def place(self) -> str | None:
        """What to send as `Last-Event-ID`."""

    def connected(self) -> None:
        """A connection begins, from `place`."""

    def take(self, wire: Wire) -> Iterable[EventT_co]:
        """What is news in an event of this connection."""


@dataclass(slots=True)
class LiveBlock:
    """Text in the making. `sure`: this connection has brought it."""

    request_id: str
    after: int
    text: str = ""
    sure: bool = True


class PodFollowing:
    """One Pod's stream. `cursor` is the last entry told in full; `blocks` the text in the making, in order of birth."""

    def __init__(self, after: int = 0) -> None:
        self.cursor = after
        self.blocks: dict[str, LiveBlock] = {}
        self.status: StatusEvent | None = None
        self._items_told = self._items_seen = 0
        self._alerts: _Recent[str, None] = _Recent(KNOWN_ALERTS)
        self._ends: _Recent[str, int] = _Recent(KNOWN_ENDS)

    @property
    def place(self) -> str | None:
        return str(self.cursor)

    def connected(self) -> None:
        self._items_seen = 0
        for block in self.blocks.values():
            block.sure = False

    def take(self, wire: Wire) -> list[PodStreamEvent]:
        return [] if wire.name == PLACE else self.take_event(parse_event(wire.name, wire.id, wire.data))

    def take_event(self, event: PodStreamEvent) -> list[PodStreamEvent]:
        """What of this event is news: none, it, or it after what it makes void."""
        match event:
            case EntryEvent():
                return self._entry(event)
            case SystemItemEvent():
                return self._item(event)
            case Delta():
                return self._delta(event)
            case Discard(request_id):
                return self._void(n for n, b in self.blocks.items() if b.request_id == request_id)
            case Retry(request_id):
                return [*self._void(self._unsure(request_id)), event]
            case StatusEvent():
                return self._status(event)
            case AlertEvent():
                return [event] if self._alerts.add(event.alert_id, None) else []
            case Resync():
                return self._resync(event)
            case UnknownEvent():
                return self._unknown(event)

    def _entry(self, event: EntryEvent) -> list[PodStreamEvent]:
        if event.seq <= self.cursor:
            return []
        self._pass(event.seq)
        for key in _ended(event.entry)[1]:
            self._ends.add(key, event.seq)
        over = ended_blocks(event.entry, ((n, b.request_id) for n, b in self.blocks.items()))
        held = _ended(event.entry)[0]
        # What the entry should have committed and did not is void; the rest is in it.
        for name in held.intersection(over):
            del self.blocks[name]
        return [*self._void(n for n in over if n not in held), event]

    def _item(self, event: SystemItemEvent) -> list[PodStreamEvent]:
        if event.seq <= self.cursor:
            return []
        self._items_seen += 1
        known = self._items_seen <= self._items_told
        self._items_told = max(self._items_told, self._items_seen)
        if event.last:
            self._pass(event.seq)
        return [] if known else [event]

    def _delta(self, event: Delta) -> list[PodStreamEvent]:
        name, block = event.block, self.blocks.get(event.block)
        key = name if _is_tool(name) else event.request_id
        if event.after < (self._ends.get(key) or 0):
            return []  # the entry is out
        have = len(block.text) if block is not None else 0
        if event.offset > have:
            return []  # no beginning: the entry will bring it
        void: list[PodStreamEvent] = []
        if (
            block is not None
            and block.text[event.offset : event.offset + len(event.text)] != event.text[: have - event.offset]
        ):
            void, block, have = self._void([name]), None, 0  # another block of the same name
            if event.offset:
                return void
        # Blocks come in order of birth: an older one that has not come again will not.
        void += self._void(self._unsure(before=name)) if not _is_tool(name) else []
        if block is None or name not in self.blocks:
            block = self.blocks[name] = LiveBlock(event.request_id, event.after)
        block.sure, block.after = True, max(block.after, event.after)
        new = event.text[have - event.offset :]
        block.text += new
        return [*void, replace(event, offset=have, text=new)] if new else void

    def _status(self, event: StatusEvent) -> list[PodStreamEvent]:
        told, self.status = self.status, event
        over = event.status != "running" or (told is not None and told.generation != event.generation)
        void = self._void(self._unsure(tools=True)) if over else []
        if told is not None and (told.status, told.generation) == (event.status, event.generation):
            return void
        return [*void, event]

    def _resync(self, event: Resync) -> list[PodStreamEvent]:
        if not event.goes_on:
            return [event]
        void = self._void(self.blocks)
        self._pass(self.cursor if event.head_seq is None else event.head_seq)
        return [*void, event]

    def _unknown(self, event: UnknownEvent) -> list[PodStreamEvent]:
        if event.id is not None and event.id.isascii() and event.id.isdecimal() and len(event.id) < 19:
            if int(event.id) <= self.cursor:
                return []
            self._pass(int(event.id))
        return [event]

    def _pass(self, seq: int) -> None:
        self.cursor, self._items_told, self._items_seen = seq, 0, 0

    def _unsure(self, request_id: str | None = None, before: str | None = None, tools: bool = False) -> list[str]:
        """Blocks that this connection has not brought (of one request; born before a block)."""
        names: list[str] = []
        for name, block in self.blocks.items():
            if name == before:
                break
            if not block.sure and (tools or not _is_tool(name)) and request_id in (None, block.request_id):
                names.append(name)
        return names

    def _void(self, names: Iterable[str]) -> list[PodStreamEvent]:
        """Forget blocks, telling so; what still counts of the same requests is told again."""
        gone = {name: self.blocks.pop(name) for name in tuple(names)}
        told: list[PodStreamEvent] = []
        for request_id in dict.fromkeys(block.request_id for block in gone.values()):
            told.append(Discard(request_id))
            for name, block in self.blocks.items():
                if block.request_id == request_id:
                    told.append(Delta(request_id, name, 0, block.text, block.after))
        return told


class StoreFollowing:
    """The stream of many Pods. A header is known by its Pod and its seq."""

    def __init__(self, cursor: str | None = None) -> None:
        self._cursor = cursor
        self._heads: dict[str, int] = {}
        self._alerts: _Recent[str, None] = _Recent(KNOWN_ALERTS)

    @property
    def place(self) -> str | None:
        return self._cursor

    def connected(self) -> None:
        """Nothing belongs to one connection."""

    def take(self, wire: Wire) -> list[StoreEvent]:
        if wire.id is not None:
            self._cursor = wire.id
        if wire.name == PLACE:
            return []
        event = parse_store_event(wire.name, wire.id, wire.data)
        match event:
            case EntryHeader(pod_id=pod_id, seq=seq):
                if seq <= self._heads.get(pod_id, 0):
                    return []
                self._heads[pod_id] = seq
            case AlertEvent() if not self._alerts.add(event.alert_id, None):
                return []
            case _:
                pass
        return [event]


class _Recent(Generic[KeyT, ValueT]):
    """The last `limit` keys."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: OrderedDict[KeyT, ValueT] = OrderedDict()

    def add(self, key: KeyT, value: ValueT) -> bool:
        """Whether it is new."""
        new = key not in self._known
        self._known[key] = value
        self._known.move_to_end(key)
        if len(self._known) > self._limit:
            self._known.popitem(last=False)
        return new

    def get(self, key: KeyT) -> ValueT | None:
        return self._known.get(key)


def _is_tool(name: str) -> bool:
    return name.startswith(TOOL_BLOCK)


def ended_blocks(entry: Mapping[str, Any], live: Iterable[tuple[str, str]]) -> list[str]:
    """Which of these blocks in the making (name, request id) an entry ends."""
    ended = _ended(entry)[1]
    return [name for name, request_id in live if (name if _is_tool(name) else request_id) in ended]


def _ended(entry: Mapping[str, Any]) -> tuple[frozenset[str], frozenset[str]]:
    """The blocks whose text the entry holds; and what it ends: a request (by its id), or tools' blocks."""
    match entry:
        case {"type": "assistant_items", "request_id": str(request_id), "items": list(items)}:
            held = (item.get("block") for item in items if isinstance(item, Mapping))
            return frozenset(block for block in held if isinstance(block, str)), frozenset({request_id})
        case {"type": "tool_results", "results": list(results)}:
            calls = (result for result in results if isinstance(result, Mapping))
            ended = frozenset(f"{TOOL_BLOCK}{call.get('call_seq')}.{call.get('index')}" for call in calls)
            return ended, ended
        case _:
            return frozenset(), frozenset()
