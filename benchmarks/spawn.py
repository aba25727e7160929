"""How long a spawn takes: from the parent's tool call to the child's committed task, beside making a bare Ray actor.

Read off the logs: the entry with the call, and the child's `invoke`, which stands when its task is committed. Their
times are whole milliseconds, so the medians are those of grouped data. The pool stands full before each spawn; the bare
actors are made in the same Ray, between the spawns.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterable

import ray

from benchmarks.report import Report, Table, Target, high, middle
from benchmarks.world import World, WorldOptions, at_rest, children, log_of
from orchestrator.client import RayControlPlane
from session_store.entries import AssistantItems, Invoke

SPAWNS, QUICK_SPAWNS = 30, 6
ACTORS, QUICK_ACTORS = 8, 3
SCRIPT = (
    {"match": {"pod": "parent-*"}, "tool_calls": [{"name": "SpawnPod", "arguments": {"task": "Say hello."}}]},
    {"text": "Done.", "repeat": True},
)


class Empty:
    async def ping(self) -> int:
        return 1


def run(quick: bool) -> Report:
    spawns, actors = (QUICK_SPAWNS, QUICK_ACTORS) if quick else (SPAWNS, ACTORS)
    with World(WorldOptions(script=SCRIPT)) as world:
        times, bare = asyncio.run(_measured(world, spawns, actors))
    p50 = statistics.median_grouped(times)
    rows = (
        ("spawn: call until the child's task is committed", p50, high(times), max(times)),
        ("bare Ray actor: made until its first answer", middle(bare), high(bare), max(bare)),
    )
    return Report(
        "Spawn: a child from the warm pool, beside a bare Ray actor",
        (Table(f"ms, {spawns} spawns, {actors} actors", ("", "p50", "p90", "most"), rows),),
        (Target("spawn p50 / bare actor p50", p50 / middle(bare), 1 / 20),),
    )


async def _measured(world: World, spawns: int, actors: int) -> tuple[list[float], list[float]]:
    control = world.control()
    times, bare = [], []
    every = max(1, spawns // actors)
    for number in range(spawns):
        if number % every == 0:
            bare.append(await _bare_actor())
        parent = await world.create(control, "Spawn a child.", name=f"parent-{number}")
        await at_rest(control, [parent])
        await world.pool(2)
        times += await spawn_times(control, parent)
        for pod in (parent, *[c.id for c in await children(control, parent)]):
            await control.stop(pod, "user", "measured")
    return times, bare


async def spawn_times(control: RayControlPlane, parent: str) -> list[float]:
    """Milliseconds of each spawn of a Pod."""
    called = [e.ts for e in await log_of(control, parent) if isinstance(e, AssistantItems) and _spawns(e)]
    rows = sorted(await children(control, parent), key=lambda r: r.created_at)
    started = [next(e.ts for e in await log_of(control, r.id) if isinstance(e, Invoke)) for r in rows]
    return [float(after - before) for before, after in zip(called, started, strict=True)]


def _spawns(entry: AssistantItems) -> bool:
    items: Iterable[object] = entry.items
    return any(getattr(i, "name", "") == "SpawnPod" for i in items)


async def _bare_actor() -> float:
    """Milliseconds until a new, empty asyncio actor gives its first answer."""
    started = time.perf_counter()
    actor = ray.remote(num_cpus=0)(Empty).remote()
    await actor.ping.remote()
    took = (time.perf_counter() - started) * 1000
    ray.kill(actor)
    return took
