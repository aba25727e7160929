"""100 sessions of 10 steps at once, at a model that answers at once: durable steps per second on this machine.

One actor each (all started before the clock runs) and packed 64 to an actor, beside 100 loops by hand in one process
that store nothing. The model server's own work is in all three.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from actors.protocol.config import ModelSpec
from benchmarks.model_server import ModelServer
from benchmarks.report import Report, Table, Target
from benchmarks.world import World, WorldOptions, at_rest
from orchestrator.directory.settings import DirectorySettings

STEPS = 10
SESSIONS, QUICK_SESSIONS = 100, 16
PACKED = 64
LIMIT = 300.0


def run(quick: bool) -> Report:
    count = QUICK_SESSIONS if quick else SESSIONS
    with ModelServer() as server:
        bare = _bare(server, count)
        apart = _polypod(server, count, DirectorySettings(warm_pool=count, max_actors=count))
        packed = _polypod(server, count, DirectorySettings(warm_pool=2, pods_per_actor=PACKED))
    rows = (
        ("bare loops: httpx in one process, nothing stored", bare, 1.0),
        ("polypod, one actor each", apart, apart / bare),
        (f"polypod, {PACKED} to an actor", packed, packed / bare),
    )
    return Report(
        f"Sessions: {count} sessions of {STEPS} steps at once",
        (Table("durable steps per second", ("", "steps/s", "of bare"), rows),),
        (
            Target("one actor each", apart, 200, "steps/s", least=True),
            Target(f"{PACKED} to an actor", packed, 300, "steps/s", least=True),
        ),
        ("The clock runs from the prompt of the first until the last rests; each session also opens and ends a run.",),
    )


def _polypod(server: ModelServer, count: int, settings: DirectorySettings) -> float:
    """Steps per second."""
    spec = ModelSpec("m", "openai", "m", base_url=server.url(f"sessions{settings.pods_per_actor}", STEPS))
    with World(WorldOptions((spec,), directory=settings)) as world:
        return asyncio.run(_measured(world, count, settings.warm_pool))


async def _measured(world: World, count: int, ready: int) -> float:
    control = world.control()
    await world.pool(ready)
    started = time.perf_counter()
    pods = await asyncio.gather(*(world.create(control, "Read the note.") for _ in range(count)))
    await at_rest(control, pods, LIMIT)
    return count * STEPS / (time.perf_counter() - started)


def _bare(server: ModelServer, count: int) -> float:
    command = [sys.executable, "-m", "benchmarks.bare_sessions", server.url("bare", STEPS), str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT)
    return count * STEPS / float(done.stdout)
