"""An extractor in this process: a real store in memory, a staging place, a scripted worker, and sessions that grow."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.extractor.driver import MARKS_KEPT, Extractor
from actors.extractor.ports import ExtractionSettings, ExtractorParts
from actors.extractor.prompt import built_in
from actors.extractor.ranges import POINTER, RANGE
from actors.extractor.schema import TOOL
from actors.models.scripted import ScriptedModel
from actors.protocol.live import LiveSink
from actors.protocol.model import Model, ModelReply, ModelRequest
from session_store.backends.memory import MemoryStore
from session_store.entries import Extension, Invoke, LlmUsage, LogEntry, RunEnd, UserInput
from session_store.items import HistoryItem, Json, Segment
from session_store.local import LocalStore
from session_store.messages import USER
from session_store.reading import read_log
from tests.support.clock import HandClock
from tests.support.staging import MemoryStaging
from tests.support.store import Owner, Ticks, create, message, text

EMPTY: dict[str, Json] = {"decisions": [], "discussions": [], "attempts": [], "requests": []}
GOOD: dict[str, Json] = {**EMPTY, "attempts": [{"action": "ran it", "result": "it works", "succeeded": True}]}


def line(answer: Json = None, **more: Any) -> dict[str, Json]:
    """A reply of the worker with these arguments, for every request."""
    call = {"name": TOOL, "arguments": GOOD if answer is None else answer}
    return {"tool_calls": [call], "usage": {"input": 700, "output": 70}, "repeat": True, **more}


class ListeningModel:
    """A scripted worker's model that keeps what it was asked. `gate`: replies wait for it."""

    def __init__(self, lines: Sequence[Mapping[str, Json]], context_window: int | None = None) -> None:
        self._inner = ScriptedModel(lines, "worker", context_window)
        self.asked: list[ModelRequest] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.name, self.context_window = "worker", context_window

    def encode(self, item: HistoryItem) -> bytes:
        return self._inner.encode(item)

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        self.asked.append(request)
        await self.gate.wait()
        return await self._inner.reply(request, live)

    async def close(self) -> None:
        return None

    def shown(self, place: int = -1) -> str:
        """All messages of one request."""
        return b"\n".join(self.asked[place].history).decode()


@dataclass
class Told:
    """Implements `Alerts`."""

    alerts: list[tuple[str, str, str]] = field(default_factory=list)

    async def tell(self, session: str, level: str, code: str, message: str) -> None:
        self.alerts.append((session, code, message))


class CountingTokens:
    def __init__(self) -> None:
        self.count = 0

    def session(self) -> str:
        raise AssertionError("the extractor makes no sessions")

    def token(self) -> str:
        self.count += 1
        return f"tok{self.count}"


class Growing:
    """A session whose runs are written by hand."""

    def __init__(self, store: MemoryStore, session: str) -> None:
        self.id = session
        create(store, session, message(f"m:{session}:0"))
        self.owner = Owner.of(store, session)
        self._store = store
        self._runs = 0

    def run(self, *occupancies: int, words: str = "", outcome: Any = "finished", prompted: str = "") -> None:
        """One run with a request of each size; `words` are the last thing the model says."""
        self.begin(prompted)
        if outcome != "withdrawn":  # nothing was produced then
            for occupancy in occupancies:
                self.request(occupancy)
            self.owner.append(text(words or f"done {self._runs}"))
        self.owner.append(RunEnd(self.owner.run_id, outcome))

    def begin(self, prompted: str = "") -> None:
        self._runs += 1
        words = Segment("text", prompted or f"ask {self._runs}")
        self.owner.run_id = f"run{self._runs}"
        self.owner.append(Invoke(self.owner.run_id, "prompt"))
        self.owner.append(UserInput((words,), f"m:{self.id}:{self._runs}", USER))

    def request(self, occupancy: int) -> None:
        self.owner.append(LlmUsage(f"r{self.head}", 1, occupancy, 0, 0, 10, 1))

    def append(self, *entries: LogEntry) -> None:
        self.owner.append(*entries)

    @property
    def log(self) -> tuple[LogEntry, ...]:
        return read_log(self._store, self.id)

    @property
    def head(self) -> int:
        return self.log[-1].seq

    def extensions(self, domain: str) -> list[dict[str, Json]]:
        return [e.payload for e in self.log if isinstance(e, Extension) and e.domain == domain]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return [(p["start"], p["end"]) for p in self.extensions(RANGE)]

    @property
    def pointers(self) -> list[int]:
        return [p["processed_through_entry"] for p in self.extensions(POINTER)]


class ExtractionWorld:
    """`lines` is the worker's script; one line without a match answers every request."""

    def __init__(self, lines: Sequence[Mapping[str, Json]] = (), **settings: Any) -> None:
        self.memory = MemoryStore(Ticks())
        self.store = LocalStore(self.memory)
        self.staging = MemoryStaging()
        self.model = ListeningModel(lines or (line(),))
        self.told, self.clock, self.ids = Told(), HandClock(), CountingTokens()
        self.settings = ExtractionSettings(**{"threshold": 10_000, **settings})
        self.secret = "correct-horse-battery"

    def extractor(self, marks_kept: int = MARKS_KEPT, **parts: Any) -> Extractor:
        def choose(config: dict[str, Json]) -> Model:
            return self.model

        made: dict[str, Any] = {
            "store": self.store,
            "staging": self.staging,
            "alerts": self.told,
            "clock": self.clock,
            "ids": self.ids,
            "model": choose,
            "prompt": built_in,
            "mask": lambda words: words.replace(self.secret, "[known]"),
            "settings": self.settings,
        }
        return Extractor(ExtractorParts(**{**made, **parts}), marks_kept)

    def session(self, name: str = "s") -> Growing:
        return Growing(self.memory, name)


async def settled(extractor: Extractor) -> None:
    """Until nothing is looked at any more."""
    async with asyncio.timeout(10):
        while extractor.busy:
            await asyncio.sleep(0)
