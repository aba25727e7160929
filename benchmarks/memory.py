"""What a Pod weighs: an actor process with one idle Pod beside an empty Ray actor, its imports, and one more Pod in it.

Private memory (`Private_*` of smaps_rollup). The empty actor is made in a Ray as it comes, without the imports that
polypod has its workers make; each import is weighed in a fresh process, on top of those above it.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from actors.protocol.config import ModelSpec
from benchmarks.machine import memory_of
from benchmarks.model_server import ModelServer
from benchmarks.report import Cell, Report, Table, Target
from benchmarks.world import World, WorldOptions, at_rest
from orchestrator.directory.settings import DirectorySettings

PACKED, QUICK_PACKED = 64, 16
ACTORS = 3
SETTLE = 1.0
"""Seconds for a process to come to rest before it is weighed."""
MODULES = (
    "msgpack",
    "pydantic",
    "session_store.codec",
    "actors.pod.host",
    "actors.tools.registry",
    "actors.models.endpoint",
    "aiohttp",
    "actors.models.http",
    "orchestrator.wiring",
)

_EMPTY = """
import json, os, sys
import ray
from benchmarks.machine import memory_of
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error")
class Empty:
    async def ping(self):
        return os.getpid()
actors = [ray.remote(num_cpus=0)(Empty).remote() for _ in range(int(sys.argv[1]))]
pids = ray.get([a.ping.remote() for a in actors])
import time
time.sleep(float(sys.argv[2]))
print(json.dumps([memory_of(p) for p in pids]))
ray.shutdown()
"""
_IMPORTS = """
import asyncio, json, sys, time
import ray, ray.actor, ray._private.worker
from benchmarks.machine import memory_of
found = []
for module in sys.argv[1:]:
    before, started = memory_of()["private"], time.perf_counter()
    __import__(module)
    found.append([module, (time.perf_counter() - started) * 1000, memory_of()["private"] - before])
print(json.dumps(found))
"""


def run(quick: bool) -> Report:
    more = QUICK_PACKED if quick else PACKED
    empty = _median(_python(_EMPTY, str(ACTORS), str(SETTLE)))
    with ModelServer() as server:
        spec = ModelSpec("m", "openai", "m", base_url=server.url("memory", 2))
        ready, alone = _alone(spec)
        packed = _packed(spec, more)
    each = (packed[-1]["private"] - packed[0]["private"]) / (len(packed) - 1)
    rows = [
        _row("empty Ray actor", empty, empty),
        _row("ready actor of the pool, no Pod", ready, empty),
        _row("actor with one idle Pod that has worked", alone, empty),
        _row(f"actor with {more} such Pods", packed[-1], empty),
    ]
    imports = tuple((name, ms, kib / 1024) for name, ms, kib in _python(_IMPORTS, *MODULES))
    ratio = alone["private"] / empty["private"]
    return Report(
        "Memory: what a Pod weighs",
        (
            Table("MiB of a process", ("", "private", "pss", "rss", "private / empty actor"), tuple(rows)),
            Table("imports, each on top of those above and of Ray", ("", "ms", "MiB private"), imports),
        ),
        (
            Target("idle one-Pod actor / empty Ray actor", ratio, 1.5),
            Target("the same, as aimed at", ratio, 1.25),
            Target(f"one more Pod at pods_per_actor = {PACKED}", each, 300, "KiB"),
        ),
    )


def _row(what: str, weight: Mapping[str, float], empty: Mapping[str, float]) -> tuple[Cell, ...]:
    mib = (weight[kind] / 1024 for kind in ("private", "pss", "rss"))
    return (what, *mib, weight["private"] / empty["private"])


def _median(weights: list[dict[str, int]]) -> dict[str, float]:
    return {kind: statistics.median(w[kind] for w in weights) for kind in ("private", "pss", "rss")}


def _python(code: str, *arguments: str) -> Any:
    """What a fresh process prints, read as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True, timeout=120
    )
    return json.loads(done.stdout.splitlines()[-1])


def _alone(spec: ModelSpec) -> tuple[dict[str, float], dict[str, float]]:
    """(a ready actor without a Pod, an actor with one idle Pod)"""

    async def measured(world: World) -> tuple[dict[str, float], dict[str, float]]:
        control = world.control()
        await world.pool(ACTORS)
        pods = [await world.create(control, "Read the note.") for _ in range(ACTORS)]
        await at_rest(control, pods)
        held = [await world.pid_of(pod) for pod in pods]
        await world.pool(ACTORS)
        await asyncio.sleep(SETTLE)
        pool = [pid for pid in _pod_processes() if pid not in held]
        return _median([memory_of(p) for p in pool]), _median([memory_of(p) for p in held])

    with World(WorldOptions((spec,), directory=DirectorySettings(warm_pool=ACTORS, park_after=600.0))) as world:
        return asyncio.run(measured(world))


def _packed(spec: ModelSpec, more: int) -> list[dict[str, int]]:
    """The weight of one actor after each Pod more in it."""

    async def measured(world: World) -> list[dict[str, int]]:
        control = world.control()
        await world.pool(1)
        weights = []
        for number in range(more):
            pod = await world.create(control, "Read the note.")
            await at_rest(control, [pod])
            if number in (0, more - 1):
                await asyncio.sleep(SETTLE)
            weights.append(memory_of(await world.pid_of(pod)))
        return weights

    settings = DirectorySettings(warm_pool=1, pods_per_actor=PACKED, park_after=600.0)
    with World(WorldOptions((spec,), directory=settings)) as world:
        return asyncio.run(measured(world))


def _pod_processes() -> list[int]:
    """Processes of PodActors that descend from this one's Ray."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    command = file.read()
            except OSError:
                continue
            if command.startswith(b"ray::PodActor"):
                found.append(int(name))
    return found
