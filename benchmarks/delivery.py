"""How long a child's news takes: from its commit until it stands in the idle parent's log, beside bare actor calls.

A parent spawns children that end one after another while it rests. Read off the logs: the child's `run_end`, with which
its PodEvent is committed, and the parent's `system_items` with that event. Their times are whole milliseconds, so the
median is that of grouped data. The bare call is one asyncio actor's to another with a few hundred bytes, in the same
Ray.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import ray

from benchmarks.report import Report, Table, Target, high, middle
from benchmarks.world import World, WorldOptions, at_rest, children, log_of
from orchestrator.client import RayControlPlane
from orchestrator.directory.settings import DirectorySettings
from session_store.entries import RunEnd, SystemItems
from session_store.requests import PodRow

CHILDREN, QUICK_CHILDREN = 8, 3
ROUNDS, QUICK_ROUNDS = 6, 1
FIRST_MS, APART_MS = 700, 150
"""The first child ends when the pool that they emptied stands again: so many ms a child."""
CALLS = 300


def run(quick: bool) -> Report:
    count, rounds = (QUICK_CHILDREN, QUICK_ROUNDS) if quick else (CHILDREN, ROUNDS)
    settings = DirectorySettings(warm_pool=count + 2, park_after=600.0)
    with World(WorldOptions(script=_script(count), directory=settings)) as world:
        times, calls = asyncio.run(_measured(world, count, rounds))
    p50 = statistics.median_grouped(times)
    rows = (
        ("child's commit until it is in the parent's log", p50, high(times), max(times)),
        ("bare call, actor to actor", middle(calls), high(calls), max(calls)),
    )
    return Report(
        "Delivery: a child's news in the idle parent's log",
        (Table(f"ms, {len(times)} messages, {len(calls)} calls", ("", "p50", "p90", "most"), rows),),
        (Target("delivery p50 / bare call p50", p50 / middle(calls), 5.0),),
    )


def _script(count: int) -> list[dict[str, Any]]:
    calls = [
        {"name": "SpawnPod", "arguments": {"task": "Wait, then say hello.", "name": f"child-{n}"}} for n in range(count)
    ]
    slow = [
        {"match": {"pod": f"child-{n}"}, "text": "Hello.", "delay_ms": FIRST_MS * count + n * APART_MS}
        for n in range(count)
    ]
    return [*slow, {"match": {"pod": "parent-*"}, "tool_calls": calls}, {"text": "I heard.", "repeat": True}]


async def _measured(world: World, count: int, rounds: int) -> tuple[list[float], list[float]]:
    control = world.control()
    times: list[float] = []
    calls: list[float] = []
    for number in range(rounds):
        await world.pool(count + 2)
        calls += await _bare_calls(CALLS // rounds)
        parent = await world.create(control, "Spawn the children.", name=f"parent-{number}")
        rows: list[PodRow] = []
        while len(rows) < count:
            await asyncio.sleep(0.2)
            rows = await children(control, parent)
        await at_rest(control, [r.id for r in rows])
        await at_rest(control, [parent])
        times += await _delivery_times(control, parent)
        await control.stop(parent, "user", "measured")
    return times, calls


async def _delivery_times(control: RayControlPlane, parent: str) -> list[float]:
    """Milliseconds from each child's end to the parent's entry."""
    heard: dict[str, int] = {}
    for entry in await log_of(control, parent):
        if isinstance(entry, SystemItems):
            for item in entry.items:
                if item.kind == "pod_event":
                    heard[item.payload["event"]["pod_id"]] = entry.ts
    told = {}
    for child in await children(control, parent):
        told[child.id] = next(e.ts for e in await log_of(control, child.id) if isinstance(e, RunEnd))
    return [float(heard[pod] - ts) for pod, ts in told.items()]


class Echo:
    async def say(self, data: bytes) -> bytes:
        return data


class Caller:
    async def call(self, other: Any, times: int) -> list[float]:
        """Milliseconds of each call to the other actor."""
        took = []
        for _ in range(times + 20):
            started = time.perf_counter()
            await other.say.remote(b"x" * 300)
            took.append((time.perf_counter() - started) * 1000)
        return took[20:]


async def _bare_calls(times: int) -> list[float]:
    echo, caller = ray.remote(num_cpus=0)(Echo).remote(), ray.remote(num_cpus=0)(Caller).remote()
    took: list[float] = await caller.call.remote(echo, times)
    ray.kill(echo)
    ray.kill(caller)
    return took
