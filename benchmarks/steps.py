"""What one step of one Pod costs beside the model, at history lengths of 50, 200 and 800 steps.

A step is a model request, its reply with one tool call, and the call. Its cost is the time between the end of one reply
and the arrival of the next request, as the model server saw it. polypod runs with its store at the durable default; the
loops by hand start from a ready history. Every contender has a process of its own; all take turns, several times.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from actors.protocol.config import ModelSpec
from benchmarks.model_server import ModelServer
from benchmarks.report import Cell, Report, Table, Target, high, middle
from benchmarks.world import World, WorldOptions, at_rest

LENGTHS = (50, 200, 800)
AROUND = 20
"""polypod's step at a length is the middle of those from `AROUND` before it to `AROUND` after it."""
HTTPX_STEPS, SDK_STEPS, WARM = 40, 6, 2
LIMIT = 600.0


@dataclass
class Found:
    """Milliseconds of every measured step, by contender and length."""

    times: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    def add(self, who: str, length: int, times: list[float]) -> None:
        self.times.setdefault((who, length), []).extend(times)

    def p50(self, who: str, length: int) -> float:
        return middle(self.times.get((who, length), []))

    def row(self, who: str, what: str) -> tuple[Cell, ...]:
        by_length = [self.times.get((who, n), []) for n in LENGTHS]
        return (what, *(middle(t) for t in by_length), *(high(t) for t in by_length))


@dataclass(frozen=True, slots=True)
class Bench:
    server: ModelServer
    world: World
    found: Found
    has_sdk: bool


def run(quick: bool) -> Report:
    has_sdk = importlib.util.find_spec("openai") is not None
    with ModelServer() as server:
        rounds = 1 if quick else 3
        specs = tuple(_spec(server, f"pod{r}") for r in range(rounds))
        with World(WorldOptions(specs)) as world:
            bench = Bench(server, world, Found(), has_sdk)
            heads = asyncio.run(_rounds(bench, rounds))
            sizes = _file_sizes(world.database)
            per_step = _checkpointed(world.database) / (rounds * _steps())
    return _report(bench, per_step, sizes, heads)


def _steps() -> int:
    return LENGTHS[-1] + AROUND


def _spec(server: ModelServer, key: str) -> ModelSpec:
    return ModelSpec(key, "openai", "m", base_url=server.url(key, _steps()))


async def _rounds(bench: Bench, rounds: int) -> list[int]:
    control = bench.world.control()
    heads = []
    for number in range(rounds):
        for length in LENGTHS:
            await asyncio.to_thread(_bare, bench, "httpx", length, f"httpx{number}-{length}")
        pod = await bench.world.create(control, "Read the note, again and again.", model=f"pod{number}")
        heads.append((await at_rest(control, [pod]))[0].head)
        times = bench.server.own_times(f"pod{number}")
        for length in LENGTHS:
            bench.found.add("polypod", length, times[length - AROUND : length + AROUND])
        if bench.has_sdk:
            for length in LENGTHS:
                await asyncio.to_thread(_bare, bench, "sdk", length, f"sdk{number}-{length}")
    return heads


def _bare(bench: Bench, which: str, length: int, key: str) -> None:
    """A loop by hand in a process of its own, on a history of `length` steps."""
    steps = HTTPX_STEPS if which == "httpx" else SDK_STEPS
    command = [sys.executable, "-m", "benchmarks.bare_loops", which, bench.server.url(key, length + steps)]
    log = str(bench.world.folder / f"{key}.jsonl")
    subprocess.run([*command, str(bench.world.workspace), str(length), log], check=True, timeout=LIMIT)
    bench.found.add(which, length, bench.server.own_times(key)[WARM:])


def _file_sizes(database: Path) -> tuple[int, int]:
    """Bytes of the database and of its write-ahead log as they lie there."""
    wal = database.with_name(database.name + "-wal")
    return database.stat().st_size, wal.stat().st_size if wal.exists() else 0


def _checkpointed(database: Path) -> int:
    """Bytes of the database with all of its write-ahead log in it, less those of an empty one."""
    copy = database.with_name("copy.db")
    with sqlite3.connect(database) as source, sqlite3.connect(copy) as target:
        source.backup(target)
    source.close()
    target.close()
    return copy.stat().st_size


def _report(bench: Bench, per_step: float, sizes: tuple[int, int], heads: list[int]) -> Report:
    found = bench.found
    ours = {n: found.p50("polypod", n) for n in LENGTHS}
    longest = LENGTHS[-1]
    sdk = found.p50("sdk", longest) if bench.has_sdk else None
    rows: list[tuple[Cell, ...]] = [
        found.row("polypod", "polypod, one Pod, SQLite FULL"),
        found.row("httpx", "bare loop: httpx, JSON lines with fsync"),
        found.row("sdk", "bare loop: OpenAI SDK, nothing stored") if bench.has_sdk else ("OpenAI SDK", *[None] * 6),
    ]
    ratios: list[tuple[Cell, ...]] = [
        ("polypod / bare httpx loop", *(ours[n] / found.p50("httpx", n) for n in LENGTHS)),
        ("OpenAI SDK loop / polypod", *(found.p50("sdk", n) / ours[n] if sdk else None for n in LENGTHS)),
    ]
    columns = tuple(f"{n} steps" for n in LENGTHS)
    return Report(
        "Steps: what a step costs beside the model",
        (
            Table("ms per step: p50, then p90", ("", *columns, *columns), tuple(rows)),
            Table("ratios of the p50", ("", *columns), tuple(ratios)),
            Table(
                "the store after the run",
                ("", "bytes"),
                (
                    ("per step, checkpointed, with all indexes", per_step),
                    ("database as it lies there", sizes[0]),
                    ("write-ahead log beside it", sizes[1]),
                    ("entries per step", heads[0] / _steps()),
                ),
            ),
        ),
        (
            Target(f"{longest} steps / {LENGTHS[0]} steps", ours[longest] / ours[LENGTHS[0]], 1.5),
            Target(f"polypod / bare httpx loop at {longest}", ours[longest] / found.p50("httpx", longest), 1.0),
            Target(f"polypod / OpenAI SDK loop at {longest}", None if sdk is None else ours[longest] / sdk, 1 / 40),
            Target("store per step", per_step / 1024, 4.0, "KiB"),
        ),
    )
