"""`ControlPlane` over the memory store: one whose Pods are played by the test, one whose Pods really run."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from actors.models.scripted import ScriptedModel
from actors.pod.live import LiveLog
from actors.protocol.alerts import Alert
from actors.protocol.config import ModelSpec, PodConfig
from actors.protocol.ids import uuid7
from actors.protocol.live import LiveSink
from actors.protocol.model import ModelReply, ModelRequest
from orchestrator.directory.alerts import AlertBook
from orchestrator.ports import AlertBatch, ControlPlaneError, LiveBatch, NewPod, NewPodReply
from session_store.backends.memory import MemoryStore
from session_store.codec import to_plain
from session_store.entries import LogEntry, SegmentStart
from session_store.errors import StoreDamaged, StoreUnavailable
from session_store.items import Json
from session_store.messages import USER, Message
from session_store.reading import read_log
from session_store.requests import Create, Deliver, EntryRange, Follow, Query, Read, ReplyT, Request
from session_store.rows import PodRow
from tests.support.local_pods import TOOLS, LocalPods
from tests.support.store import Owner

POLL = 0.002


class WaitingStore:
    """`AsyncStore` over the memory store whose `Follow` waits. `down`: no answer; `calls` counts requests by kind.

    `purged`: entries up to this seq are gone, of every session.
    """

    def __init__(self, memory: MemoryStore) -> None:
        self.memory = memory
        self.down = False
        self.purged = 0
        self.calls: Counter[str] = Counter()

    async def execute(self, request: Request[ReplyT]) -> ReplyT:
        self.calls[type(request).__name__] += 1
        await asyncio.sleep(0)
        if self.down:
            raise StoreUnavailable("the disk is away")
        if isinstance(request, Read):
            return self._left(request)  # type: ignore[return-value]
        if not isinstance(request, Follow):
            return self.memory.execute(request)
        limit = time.monotonic() + request.wait
        while True:
            found = self.memory.execute(request)
            if found.commits or time.monotonic() >= limit or self.down:
                return found  # type: ignore[return-value]
            await asyncio.sleep(POLL)

    def _left(self, request: Read) -> EntryRange:
        found = self.memory.execute(request)
        return replace(found, entries=tuple(e for e in found.entries if e.seq > self.purged))


class FakePlane:
    """Pods that only the test moves: by `owner` it appends, by `live` it streams."""

    def __init__(self, memory: MemoryStore | None = None) -> None:
        self.memory = memory or MemoryStore(lambda: time.time_ns() // 1_000_000)
        self.waiting = WaitingStore(self.memory)
        self.lives: dict[str, tuple[int, LiveLog]] = {}
        self.hints: list[str] = []
        self.watching: Counter[str] = Counter()
        self.stuck: set[str] = set()
        self.damaged: dict[str, str] = {}
        self.ready = True
        self.book = AlertBook()
        self._made = 0

    @property
    def store(self) -> WaitingStore:
        return self.waiting

    async def create(self, new: NewPod) -> NewPodReply:
        if new.model == "unknown":
            raise ControlPlaneError("invalid", "There is no model `unknown`.")
        self._made += 1
        session = uuid7(1_790_000_000_000 + self._made, f"pod{self._made}".encode())
        messages = ()
        if new.segments:
            messages = (Message(new.message_id, "prompt", USER, {"segments": to_plain(new.segments)}),)
        start = self.start(session, new)
        create = Create(session, new.tenant, new.message_id, start, messages, new.name or "", scope=new.scope)
        reply = await self.store.execute(create)
        await self.hint((reply.session,))
        return NewPodReply(reply.session, reply.existed)

    def start(self, session: str, new: NewPod) -> SegmentStart:
        return SegmentStart(session, {"workspace": new.workspace or "/ws"}, "be good", (), 1)

    async def hint(self, sessions: tuple[str, ...]) -> None:
        self.hints += sessions

    async def stop(self, pod_id: str, by: str, reason: str) -> Literal["ended", "stopping"]:
        await self.store.execute(Deliver(pod_id, Message(f"stop:{pod_id}", "stop", by, {"reason": reason})))
        await self.hint((pod_id,))
        return "stopping"

    async def watch(self, pod_id: str, cursor: int, wait: float) -> LiveBatch:
        self.watching[pod_id] += 1
        try:
            if pod_id in self.stuck:
                await asyncio.Event().wait()
            if pod_id in self.damaged:
                raise StoreDamaged(self.damaged[pod_id], session=pod_id)
            found = self.lives.get(pod_id)
            if found is None:
                return LiveBatch(0, 0)
            generation, live = found
            await live.wait(cursor, wait)
            return LiveBatch(generation, *live.since(cursor))
        finally:
            self.watching[pod_id] -= 1

    async def alerts(self, pod_id: str | None, after: int, wait: float) -> AlertBatch:
        await self.book.wait(after, pod_id, wait)
        return AlertBatch(*self.book.since(after, pod_id))

    def alert(self, alert_id: str, pod_id: str | None, message: str = "mind this", ts: int = 0) -> Alert:
        """Raise one, as a Pod or the Directory does."""
        alert = Alert(alert_id, "warning", "test", message, ts, pod_id)
        self.book.add((alert,))
        return alert

    async def status(self) -> dict[str, Json]:
        return {"ready": self.ready, "pool": 2}

    def owner(self, pod_id: str) -> Owner:
        """Play the Pod: take its next epoch."""
        return Owner.of(self.memory, pod_id)

    def live(self, owner: Owner) -> LiveLog:
        """The live side of the incarnation that `owner` plays."""
        log = LiveLog(lambda: owner.head)
        self.lives[owner.session] = (owner.epoch, log)
        return log

    def row(self, pod_id: str) -> PodRow:
        return self.memory.execute(Query(ids=(pod_id,))).rows[0]

    def log(self, pod_id: str) -> tuple[LogEntry, ...]:
        return read_log(self.memory, pod_id)


class HeldModel(ScriptedModel):
    """Sends nothing while it is held."""

    def __init__(self, lines: list[dict[str, Any]], free: asyncio.Event) -> None:
        super().__init__(lines)
        self._free = free

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        await self._free.wait()
        return await super().reply(request, live)


class RunningPlane(FakePlane):
    """Pods that run by the scripted model, in this process. `lines` is the script of all of them.

    While `free` is not set the model sends nothing.
    """

    def __init__(self, folder: Path, lines: list[dict[str, Any]]) -> None:
        self.pods = LocalPods(folder, lines)
        self.free = asyncio.Event()
        self.free.set()
        self.pods.parts.models["scripted"] = HeldModel(lines, self.free)
        super().__init__(self.pods.memory)
        self.book = self.pods.alerts

    def start(self, session: str, new: NewPod) -> SegmentStart:
        config = PodConfig(
            name=new.name or "root",
            root_id=session,
            model=ModelSpec("scripted", "scripted"),
            workspace=str(self.pods.folder.resolve()),
            tools=TOOLS,
            planning="tasks",
        )
        return self.pods.start(session, config)

    async def hint(self, sessions: tuple[str, ...]) -> None:
        await super().hint(sessions)
        await self.pods.parts.directory.hint(sessions)

    async def watch(self, pod_id: str, cursor: int, wait: float) -> LiveBatch:
        return LiveBatch(*await self.pods.host.watch(pod_id, cursor, wait))
