"""Pods that really run, compact: host, driver, compactor, store and a scripted model, without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from actors.models.scripted import ScriptedModel
from actors.protocol.compaction import read_record
from actors.protocol.config import CompactionRule
from actors.protocol.live import LiveSink
from actors.protocol.model import ModelReply, ModelRequest
from session_store.entries import Extension, SegmentStart
from session_store.messages import Message
from session_store.restore import restore
from tests.support.local_pods import LocalPods

LONG = "word " * 700
SUMMARY = {"match": {"pod": "compact"}, "text": "<summary>They spoke of words.</summary>"}


class Recorder(ScriptedModel):
    """Keeps the bytes of what each request of the Pod held. `free`: the worker waits for it."""

    def __init__(self, lines: list[dict[str, Any]]) -> None:
        super().__init__(lines)
        self.asked: list[list[bytes]] = []
        self.free = asyncio.Event()
        self.free.set()

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        if request.pod_name == "compact":
            await self.free.wait()
        else:
            self.asked.append(list(request.history))
        return await super().reply(request, live)


@asynccontextmanager
async def pods(folder: Path, lines: list[dict[str, Any]], rule: CompactionRule) -> AsyncIterator[LocalPods]:
    made = LocalPods(folder, [])
    made.compaction = rule
    made.parts.models["scripted"] = Recorder(lines)
    try:
        yield made
    finally:
        await made.close()


def recorder(made: LocalPods) -> Recorder:
    found = made.parts.models["scripted"]
    assert isinstance(found, Recorder)
    return found


async def say(made: LocalPods, session: str, text: str, count: int) -> None:
    """A prompt, and its end: the run number `count`."""
    await made.send(session, made.prompt(text, f"m-{count}"))
    async with asyncio.timeout(10):
        while sum(e.type == "run_end" for e in await made.log(session)) < count:
            await asyncio.sleep(0.002)


async def settled(made: LocalPods, session: str) -> None:
    async with asyncio.timeout(10):
        while made.host.held() and made.host.held()[0].resting is None:
            await asyncio.sleep(0.002)


RULE = CompactionRule(threshold=9_000, retained_tokens=200)
SCRIPT = [SUMMARY, *({"match": {"pod": "root"}, "text": f"Answer {n}."} for n in range(6))]


async def test_C04_a_pod_goes_on_after_a_compaction_as_its_restored_self_would(tmp_path: Path) -> None:
    async with pods(tmp_path, SCRIPT, RULE) as made:
        session = await made.create(None)
        await made.bind(session)
        for n in range(1, 3):
            await say(made, session, f"{n} {LONG * 6}", n)
            await settled(made, session)
        log = await made.log(session)
        assert sum(isinstance(e, SegmentStart) for e in log) == 3
        live = await next_request(made, session, "and now", 3)
        await made.host.drop(session, "killed")
        await made.bind(session)
        again = await next_request(made, session, "and then", 4)
        encode = recorder(made).encode
        assert live[:-1] == [encode(item) for item in restore(log).history.items]
        assert again[: len(live)] == live
        codes = [alert.code for alert in made.alerts.since(0, session)[1]]
        assert codes == ["compaction_started", "compaction_done"] * 2


async def next_request(made: LocalPods, session: str, text: str, count: int) -> list[bytes]:
    await say(made, session, text, count)
    await settled(made, session)
    return recorder(made).asked[-1]


async def test_C04_killed_while_the_summary_is_written_the_old_segment_is_the_head(tmp_path: Path) -> None:
    async with pods(tmp_path, SCRIPT, RULE) as made:
        recorder(made).free.clear()
        session = await made.create(None)
        await made.bind(session)
        await say(made, session, f"1 {LONG * 6}", 1)
        await asyncio.sleep(0.05)
        before = await made.log(session)
        await made.host.drop(session, "killed")
        assert await made.log(session) == before
        assert (await made.row(session)).status == "idle"
        recorder(made).free.set()
        await made.send(session, made.prompt("go on", "m-2"))
        await made.until(session, "idle")
        await settled(made, session)
        kinds = [e.type for e in await made.log(session)]
        assert kinds.count("segment_end") == 1
        assert kinds.index("segment_end") < [i for i, k in enumerate(kinds) if k == "invoke"][1]


async def test_C05_a_prompt_during_a_compaction_waits_and_a_stop_does_not(tmp_path: Path) -> None:
    async with pods(tmp_path, SCRIPT, RULE) as made:
        recorder(made).free.clear()
        session = await made.create(None)
        await made.bind(session)
        await say(made, session, f"1 {LONG * 6}", 1)
        await made.send(session, made.prompt("waits", "m-2"))
        await asyncio.sleep(0.05)
        assert (await made.log(session))[-1].type == "run_end"
        recorder(made).free.set()
        await made.until(session, "idle")
        recorder(made).free.clear()
        await say(made, session, f"3 {LONG * 6}", 3)
        await made.send(session, Message("stop", "stop", "user"))
        await made.until(session, "ended", limit=5)
        records = [read_record(e) for e in await made.log(session) if isinstance(e, Extension)]
        assert [r.trigger for r in records if r is not None] == ["rest"]
