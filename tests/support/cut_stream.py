"""A Pod, a gateway and a client without sockets or time: the real live log, topic text, reader, parser and following.

For tests that cut the connection at any byte. Only the store and what lies between the parts is played.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TypeVar

from actors.pod.live import LiveLog
from orchestrator.event_lines import EventLines
from orchestrator.events import (
    AlertEvent,
    EntryEvent,
    PodStreamEvent,
    Resync,
    StatusEvent,
    SystemItemEvent,
)
from orchestrator.following import PodFollowing
from orchestrator.gateway.alerts import Ring
from orchestrator.gateway.live_text import LiveText, committed_blocks, ended_by
from orchestrator.gateway.reader import PodReader, start_of
from orchestrator.gateway.sse import frame
from orchestrator.gateway.topic import Told
from orchestrator.gateway.views import JsonObject, entry_events
from orchestrator.transcript import Transcript
from session_store.backends.memory import MemoryStore
from session_store.entries import AssistantItems, LogEntry, RunEnd, ToolResults
from session_store.items import Text, ToolResult
from session_store.requests import Query
from session_store.rows import PodRow
from tests.support import store as words
from tests.support.at_once import at_once

T = TypeVar("T")


class PlayedPod:
    """A Pod that streams and commits as it is told. `printing`: calls that print and have no result yet."""

    def __init__(self) -> None:
        self.memory = MemoryStore(words.Ticks())
        words.running(self.memory, "p")
        self.owner = words.Owner.of(self.memory, "p")
        self.entries: list[LogEntry] = []
        self.attempt = self.request = 0
        self.texts: dict[str, str] = {}
        self.printing: set[int] = set()
        self.live = LiveLog(lambda: self.owner.head)

    @property
    def row(self) -> PodRow:
        return self.memory.execute(Query(ids=("p",))).rows[0]

    @property
    def request_id(self) -> str:
        return f"r{self.request}"

    def append(self, *entries: LogEntry) -> None:
        self.entries += [replace(e, seq=self.owner.head + n, ts=n) for n, e in enumerate(entries, 1)]
        self.owner.append(*entries)

    def say(self, block: int, text: str) -> None:
        name = f"{self.request_id}.{self.owner.epoch}.{self.attempt}.{block}"
        self.texts[name] = self.texts.get(name, "") + text
        self.live.text(self.request_id, name, text)

    def print(self, call: int, text: str) -> None:
        """Output of a tool that the reply at entry 1 (as if) has called."""
        self.printing.add(call)
        self.live.text(self.request_id, f"tool:1.{call}", text)

    def finish_tool(self, call: int) -> None:
        self.printing.discard(call)
        self.append(ToolResults((ToolResult(1, call, "c", "Shell", "ok", "s"),)))
        self.live.committed_blocks({f"tool:1.{call}"})

    def commit(self, leave_out: bool = False) -> None:
        """The reply is in the log (without its first block)."""
        blocks = list(self.texts.items())[1 if leave_out else 0 :]
        self.append(AssistantItems(self.request_id, tuple(Text(text, name) for name, text in blocks)))
        self.live.committed(self.request_id)
        self.request, self.attempt, self.texts = self.request + 1, 0, {}

    def retry(self) -> None:
        self.live.discard(self.request_id)
        self.attempt, self.texts = self.attempt + 1, {}
        self.live.retry(self.request_id, self.attempt + 1, 0.1, "busy")

    def crash(self) -> None:
        """Another incarnation goes on."""
        self.owner = words.Owner.of(self.memory, "p")
        self.live = LiveLog(lambda: self.owner.head)
        self.request, self.attempt, self.texts = self.request + 1, 0, {}

    def rest(self) -> None:
        for call in tuple(self.printing):
            self.finish_tool(call)
        self.live.discard(self.request_id)
        self.texts = {}
        self.append(RunEnd(f"run{self.owner.epoch}", "finished"))


class PlayedTopic:
    """What `PodTopic` is to a reader, moved by `pull` (live text) and `look` (the store)."""

    closed = False
    failure = None

    def __init__(self, pod: PlayedPod) -> None:
        self._pod = pod
        self.row = pod.row
        self.end = self.row.head
        self.live = LiveText()
        self.alerts: Ring[AlertEvent] = Ring()
        self.watchers: set[asyncio.Event] = set()
        self._cursor = 0
        self._fresh = True
        for entry in pod.entries:
            self.live.commit(entry)

    def look(self) -> None:
        self.row = self._pod.row
        for entry in self._pod.entries:
            if entry.seq > self.end:
                self.live.commit(entry)
        self.end = self.row.head

    def pull(self) -> None:
        generation = self._pod.owner.epoch
        if self.live.generation not in (None, generation):
            self.live.restart(generation)
            self._cursor = 0
        self.live.generation = generation
        self._cursor, events = self._pod.live.since(self._cursor)
        assert self.live.take(events, snapshot=self._fresh)
        self._fresh = False

    async def entries(self, after: int) -> list[Told]:
        return [
            Told(e.seq, b"".join(map(frame, entry_events(e))), ended_by(e), committed_blocks(e))
            for e in self._pod.entries
            if after < e.seq <= self.end
        ]


class PlayedGateway:
    """`connection` is what the client is attached to, if it is."""

    def __init__(self, pod: PlayedPod) -> None:
        self._pod = pod
        self.topic = PlayedTopic(pod)

    def restart(self) -> None:
        self.topic = PlayedTopic(self._pod)

    def attach(self, place: str | None) -> PodReader:
        start = start_of(place, self.topic.row.head)
        return PodReader(self.topic, start, _no_snapshot, 1.0, lambda: 0)  # type: ignore[arg-type]


async def _no_snapshot(row: PodRow) -> JsonObject:
    return {"id": row.id}


def says(reader: PodReader) -> bytes:
    """What a reader sends until it has nothing to say."""

    async def all_of_it() -> bytes:
        out = bytearray()
        async for chunk in reader._entries():
            out += chunk
        return bytes(out + reader._present())

    return at_once(all_of_it())


@dataclass
class Client:
    """Attaches, is cut off at any byte, attaches again; and checks every law of what it is told."""

    gateway: PlayedGateway
    following: PodFollowing = field(default_factory=lambda: PodFollowing(3))
    transcript: Transcript = field(default_factory=Transcript)
    told: list[PodStreamEvent] = field(default_factory=list)
    reader: PodReader | None = None
    lines: EventLines = field(default_factory=EventLines)

    def hear(self, limit: int | None = None) -> None:
        """Take what there is, or its first `limit` bytes, after which the connection breaks."""
        if self.reader is None:
            self.reader, self.lines = self.gateway.attach(self.following.place), EventLines()
            self.following.connected()
        raw = says(self.reader)
        for wire in self.lines.feed(raw[:limit]):
            for event in self.following.take(wire):
                self._check(event)
                self.told.append(event)
                self.transcript.take(event)
        if limit is not None and limit < len(raw):
            self.reader = None

    def _check(self, event: PodStreamEvent) -> None:
        match event:
            case EntryEvent(seq, {"type": "assistant_items", "items": items}):
                self._check_next(seq)
                for item in items:
                    live = self.transcript.live.get(item["block"])
                    assert live is None or item["text"].startswith(live.text)  # the entry brings the rest
            case EntryEvent(seq) | SystemItemEvent(seq):
                self._check_next(seq)
            case StatusEvent(head_seq=head):
                assert self.transcript.committed[-1].seq >= head if self.transcript.committed else head == 3
            case Resync():
                raise AssertionError(event)
            case _ if event.type == "delta":
                live = self.transcript.live.get(event.block)
                assert event.offset == (0 if live is None else len(live.text))
                assert event.after <= (self.transcript.committed[-1].seq if self.transcript.committed else 3)
            case _:
                pass

    def _check_next(self, seq: int) -> None:
        before = self.transcript.committed[-1] if self.transcript.committed else None
        same_entry = isinstance(before, SystemItemEvent) and not before.last
        assert seq == (3 if before is None else before.seq) + (0 if same_entry else 1)
