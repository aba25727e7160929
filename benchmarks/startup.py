"""How long one waits: for `polypod --help`, for a cluster of one's own by step, and for `polypod demo` as a whole."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import tempfile
import time

from benchmarks.report import Cell, Report, Table, Target, middle
from benchmarks.world import World, WorldOptions, at_rest

ROUNDS, QUICK_ROUNDS = 7, 2
CLUSTERS, QUICK_CLUSTERS = 3, 1
SCRIPT = ({"text": "Done.", "repeat": True},)
CLI = "orchestrator.cli.main"
LIMIT = 120.0
_TIMES = """
import sys, time
started = time.perf_counter()
import ray
print(time.perf_counter() - started)
"""


def run(quick: bool) -> Report:
    rounds, clusters = (QUICK_ROUNDS, QUICK_CLUSTERS) if quick else (ROUNDS, CLUSTERS)
    has_cli = importlib.util.find_spec("orchestrator.cli") is not None and importlib.util.find_spec(CLI) is not None
    bare = [_seconds([sys.executable, "-c", "pass"]) for _ in range(rounds)]
    helped = [_seconds([*_polypod(), "--help"]) for _ in range(rounds)] if has_cli else []
    demo = [_demo() for _ in range(1 if quick else 3)] if has_cli else []
    importing = [float(subprocess.check_output([sys.executable, "-c", _TIMES], text=True)) for _ in range(clusters)]
    steps = [_cluster() for _ in range(clusters)]
    rows: list[tuple[Cell, ...]] = [
        ("python -c pass", middle(bare)),
        ("polypod --help", middle(helped) if helped else None),
        ("polypod demo, start to report and end", middle(demo) if demo else None),
        ("import ray (in a process of its own)", middle(importing)),
        *((name, middle([s[name] for s in steps])) for name in steps[0]),
    ]
    return Report(
        "Start-up",
        (Table("seconds, p50", ("", "s"), tuple(rows)),),
        (
            Target("polypod --help", middle(helped) if helped else None, 0.3, "s"),
            Target("polypod demo", middle(demo) if demo else None, 20, "s"),
        ),
    )


def _polypod() -> list[str]:
    return [sys.executable, "-c", f"import sys; from {CLI} import main; sys.exit(main())"]


def _seconds(command: list[str], **environment: str) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT, env={**os.environ, **environment})
    return time.perf_counter() - started


def _demo() -> float:
    with tempfile.TemporaryDirectory() as home:
        return _seconds([*_polypod(), "demo"], POLYPOD_HOME=home)


def _cluster() -> dict[str, float]:
    """Seconds of each step of a start, in a Ray of its own."""
    began = time.perf_counter()
    with World(WorldOptions(script=SCRIPT)) as world:
        up = time.perf_counter()
        seconds = world.cluster.seconds

        async def first() -> tuple[float, float]:
            control = world.control()
            await world.pool(1)
            ready = time.perf_counter()
            await at_rest(control, [await world.create(control, "Say hello.")])
            return ready, time.perf_counter()

        ready, done = asyncio.run(first())
        closing = time.perf_counter()
    return {
        "cluster: Ray up (with its import)": seconds["ray"],
        "cluster: store and Directory answer": seconds["actors"],
        "cluster: first Pod actor ready, after that": ready - up,
        "cluster: first Pod's whole run": done - ready,
        "cluster: start until that Pod has answered": done - began,
        "cluster: close": time.perf_counter() - closing,
    }
