"""A run of a real Pod by the scripted model, recorded, and played again step by step over a fake control plane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message

from actors.models.scripted import ScriptedModel
from actors.pod.live import LiveLog
from actors.protocol.live import LiveSink
from actors.protocol.model import ModelReply, ModelRequest
from orchestrator.event_lines import EventLines
from orchestrator.events import PodStreamEvent
from orchestrator.following import PodFollowing
from orchestrator.transcript import Transcript
from session_store.codec import decode_entry
from session_store.entries import AssistantItems, LogEntry, SegmentStart
from session_store.requests import Create, Query, Read
from tests.support.control_plane import FakePlane
from tests.support.local_pods import LocalPods
from tests.support.store import Owner


@dataclass(frozen=True)
class Said:
    """A call of the model's sink, and the head it followed."""

    head: int
    call: Callable[[LiveLog], None]


class RecordingModel(ScriptedModel):
    """Keeps what it streams, and every request. The second one breaks off at first, in the middle of a word."""

    def __init__(self, lines: list[dict[str, Any]], head: Callable[[str], int]) -> None:
        super().__init__(lines)
        self._head = head
        self.said: list[Said] = []
        self.requests: list[ModelRequest] = []

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        self.requests.append(replace(request, history=tuple(request.history)))
        recorder = _Recorder(live, self.said, lambda: self._head(request.session))
        if request.number == 2:
            recorder.text(request.request_id, f"{request.request_id}.1.0", "It is 日")
            recorder.text(request.request_id, f"{request.request_id}.1.0", "本 and then it br")
        return await super().reply(request, recorder)


class _Recorder:
    def __init__(self, live: LiveSink, said: list[Said], head: Callable[[], int]) -> None:
        self._live = live
        self._said = said
        self._head = head

    def text(self, request_id: str, block: str, text: str) -> None:
        self._said.append(Said(self._head(), lambda live: live.text(request_id, block, text)))
        self._live.text(request_id, block, text)

    def retry(self, request_id: str, attempt: int, wait: float, reason: str) -> None:
        self._said.append(Said(self._head(), lambda live: live.retry(request_id, attempt, wait, reason)))
        self._live.retry(request_id, attempt, wait, reason)

    def discard(self, request_id: str) -> None:
        self._said.append(Said(self._head(), lambda live: live.discard(request_id)))
        self._live.discard(request_id)


@dataclass(frozen=True)
class Recording:
    session: str
    entries: tuple[LogEntry, ...]
    said: tuple[Said, ...]

    def begin(self, plane: FakePlane) -> tuple[Owner, LiveLog]:
        """The session with its first entry, taken by an owner."""
        start = self.entries[0]
        assert isinstance(start, SegmentStart)
        plane.memory.execute(Create(self.session, "default", "recorded", start=start))
        owner = plane.owner(self.session)
        return owner, plane.live(owner)

    def steps(self, owner: Owner, live: LiveLog) -> Iterator[Callable[[], None]]:
        """Everything after the first entry, in the order it happened."""
        said = list(self.said)
        for entry in self.entries[1:]:
            while said and said[0].head < entry.seq:
                yield partial(said.pop(0).call, live)
            yield partial(_commit, owner, live, entry)


def _commit(owner: Owner, live: LiveLog, entry: LogEntry) -> None:
    owner.append(replace(entry, seq=0, ts=0))
    if isinstance(entry, AssistantItems):
        live.committed(entry.request_id)


async def record(folder: Path, lines: list[dict[str, Any]], prompts: list[str]) -> Recording:
    """Have a Pod answer the prompts one after the other."""
    pods = LocalPods(folder, lines)
    model = RecordingModel(lines, lambda session: pods.memory.execute(Query(ids=(session,))).rows[0].head)
    pods.parts.models["scripted"] = model
    session = await pods.create(prompts[0])
    await pods.until(session, "idle")
    for number, prompt in enumerate(prompts[1:]):
        await pods.send(session, pods.prompt(prompt, f"next-{number}"))
        await pods.until(session, "running")
        await pods.until(session, "idle")
    found = await pods.store.execute(Read(session))
    entries = tuple(decode_entry(e.body, e.seq, e.ts) for e in found.entries)
    await pods.close()
    return Recording(session, entries, tuple(model.said))


class Attached:
    """A client of the app in this process: a connection is a call of the app, and ends when the client says so."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self.following = PodFollowing()
        self.transcript = Transcript()
        self.events: list[PodStreamEvent] = []
        self.connections = 0
        self.changed = asyncio.Event()
        self._app = app
        self._path = path
        self._gone = asyncio.Event()
        self._call: asyncio.Task[None] | None = None
        self._limit: int | None = None
        self._lines = EventLines()

    @property
    def attached(self) -> bool:
        return self._call is not None and not self._gone.is_set()

    def attach(self, events: int | None = None) -> None:
        """Go on from where it was; the connection breaks after so many events."""
        self.connections += 1
        self._gone, self._lines, self._limit = asyncio.Event(), EventLines(), events
        self.following.connected()
        place = self.following.place or "0"
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": self._path,
            "raw_path": self._path.encode(),
            "query_string": b"",
            "headers": [(b"host", b"127.0.0.1:7420"), (b"last-event-id", place.encode())],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 7420),
        }
        self._call = asyncio.create_task(self._app(scope, self._receive, self._send))  # type: ignore[arg-type]

    async def leave(self) -> None:
        self._gone.set()
        if self._call is not None:
            await self._call
            self._call = None

    async def _receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200
            return
        self.changed.set()
        for wire in self._lines.feed(message["body"]):
            if self._gone.is_set():
                return
            for event in self.following.take(wire):
                self.events.append(event)
                self.transcript.take(event)
            if self._limit is not None:
                self._limit -= 1
                if self._limit <= 0:
                    self._gone.set()
