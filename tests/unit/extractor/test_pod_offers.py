"""A running Pod offers its session after each run, and never waits for what comes of it (X13)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from actors.extractor.driver import Extractor
from actors.extractor.ranges import POINTER, RANGE
from actors.protocol.config import CompactionRule
from session_store.entries import Extension, RunEnd, SegmentEnd
from session_store.messages import USER, Message
from tests.support.extraction import ExtractionWorld, settled
from tests.support.local_pods import LocalPods

LINES = [{"text": "Done.", "usage": {"input": 12_000 * n, "output": 5}} for n in (1, 2, 3)]


def listening(pods: LocalPods) -> tuple[ExtractionWorld, Extractor]:
    """An extractor beside these Pods, over their store."""
    world = ExtractionWorld()
    extractor = world.extractor(store=pods.store)
    pods.parts.extractor = extractor
    return world, extractor


async def test_X13_prompts_and_a_stop_wait_for_no_extraction_and_the_range_is_what_was_shown(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path, LINES)
    world, extractor = listening(pods)
    world.model.gate.clear()  # an extraction that takes for ever
    session = await pods.create("first thing")
    await pods.until(session, "idle")
    async with asyncio.timeout(5):
        while not world.model.asked:
            await asyncio.sleep(0.005)
    first = next(e.seq for e in await pods.log(session) if isinstance(e, RunEnd))
    await pods.send(session, pods.prompt("second thing", "m2"))
    await pods.until(session, "idle")
    await pods.send(session, Message("stop-1", "stop", USER, {}))
    await pods.until(session, "ended")
    assert not world.staging.files
    world.model.gate.set()
    await settled(extractor)
    assert world.staging.ranges()[0] == (1, first)
    assert "first thing" in world.model.shown(0)
    assert "second thing" not in world.model.shown(0)
    assert "second thing" in world.model.shown(1), "still due, also in a session that has ended"
    await extractor.close()
    await pods.close()


async def test_X05_the_offer_comes_after_the_run_is_committed(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path, LINES)
    world, extractor = listening(pods)
    session = await pods.create("first thing")
    await pods.until(session, "idle")
    async with asyncio.timeout(5):
        while not world.staging.files:
            await asyncio.sleep(0.005)
    await settled(extractor)
    log = await pods.log(session)
    [pointer] = [e for e in log if isinstance(e, Extension) and e.domain == POINTER]
    end = next(e.seq for e in log if isinstance(e, RunEnd))
    assert pointer.payload["processed_through_entry"] == end
    assert pointer.seq > end
    await extractor.close()
    await pods.close()


async def test_X05_the_range_is_fixed_before_the_new_segment_and_extracted_beside_it(tmp_path: Path) -> None:
    summary = {"match": {"pod": "compact"}, "text": "<summary>They spoke.</summary>"}
    sizes = (12_000, 500, 10_900)
    replies = ({"match": {"pod": "root"}, "text": "Done.", "usage": {"input": n, "output": 5}} for n in sizes)
    pods = LocalPods(tmp_path, [summary, *replies])
    pods.compaction = CompactionRule(threshold=11_900, retained_tokens=0)
    world, extractor = listening(pods)
    world.model.gate.clear()  # the extraction takes for ever, the compaction does not wait for it
    session = await pods.create("first thing")
    async with asyncio.timeout(5):
        while not any(isinstance(e, SegmentEnd) for e in await pods.log(session)):
            await asyncio.sleep(0.005)
    log = await pods.log(session)
    place = next(i for i, e in enumerate(log) if isinstance(e, SegmentEnd))
    [fixed] = [i for i, e in enumerate(log) if isinstance(e, Extension) and e.domain == RANGE]
    assert fixed < place
    assert not world.staging.files
    for name in ("second", "third"):
        await pods.send(session, pods.prompt(f"{name} thing", name))
        await pods.until(session, "idle")
    world.model.gate.set()
    await settled(extractor)
    ranges = world.staging.ranges()
    assert ranges[0] == (1, next(e.seq for e in log if isinstance(e, RunEnd)))
    assert ranges[1][0] == ranges[0][1] + 1, "then the new entries only"
    assert "first thing" not in world.model.shown(-1)
    assert "They spoke" not in world.model.shown(-1)
    await extractor.close()
    await pods.close()
