"""A Pod's process is killed (kill -9) in mid-turn: how long until that turn's next model request, a warm actor ready.

A Pod works against a model that takes a moment for each reply. At a random moment its process is killed, and the clock
runs until the model server sees the session's next request. Every Pod is killed once; before each kill the pool stands
full.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time

from actors.protocol.config import ModelSpec
from benchmarks.model_server import ModelServer
from benchmarks.report import Report, Table, Target, high, middle
from benchmarks.world import World, WorldOptions

KILLS, QUICK_KILLS = 20, 4
STEPS = 400
REPLY_MS = 20
LIMIT = 20.0


def run(quick: bool) -> Report:
    kills = QUICK_KILLS if quick else KILLS
    with ModelServer() as server:
        specs = tuple(
            ModelSpec(f"k{n}", "openai", "m", base_url=server.url(f"k{n}", STEPS, REPLY_MS)) for n in range(kills)
        )
        with World(WorldOptions(specs)) as world:
            times = asyncio.run(_kills(world, server, kills))
    row = ("kill -9 until the next request", middle(times), high(times), max(times))
    return Report(
        "Recovery: a Pod's process is killed in mid-turn",
        (Table(f"ms, {kills} kills", ("", "p50", "p90", "most"), (row,)),),
        (Target("kill -9 until the next model request, p50", middle(times) / 1000, 0.3, "s"),),
    )


async def _kills(world: World, server: ModelServer, kills: int) -> list[float]:
    """Milliseconds from each kill to the next request."""
    chance = random.Random(7)
    control = world.control()
    times = []
    for number in range(kills):
        await world.pool(2)
        pod = await world.create(control, "Read the note, again and again.", model=f"k{number}")
        pid = await world.pid_of(pod)
        await world.pool(2)
        await asyncio.sleep(chance.random() * 0.3)
        killed = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)
        times.append((await _next_request(server, f"k{number}", killed) - killed) / 1e6)
        await control.stop(pod, "user", "measured")
    return times


async def _next_request(server: ModelServer, key: str, after: int) -> int:
    """When the first request after the moment arrived."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        await asyncio.sleep(0.1)
        later = [arrived for arrived, _ in await asyncio.to_thread(server.moments, key) if arrived > after]
        if later:
            return later[0]
    raise TimeoutError(f"no request within {LIMIT:g} s of the kill")
