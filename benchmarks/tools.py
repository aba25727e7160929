"""What the process guard costs: the start of a guarded command beside a bare one, its memory, kill and tool latency."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from actors.protocol.tools import FILE_TOOLS, CallKey, FileSeen, ToolContext
from actors.tools.guard import GuardPool, Order
from actors.tools.registry import build_toolbox
from benchmarks.machine import memory_of
from benchmarks.report import Cell, Report, Table, high, middle
from session_store.items import ToolCall

ROUNDS, QUICK_ROUNDS = 60, 10


class Timed:
    """The rows of a table: milliseconds of each round of a piece of work, after one that does not count."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.rows: list[tuple[Cell, ...]] = []

    async def __call__(
        self, what: str, work: Callable[[], Awaitable[object]], against: float | None = None, rounds: int | None = None
    ) -> float:
        """The p50; `against` is what it is a multiple of."""
        await work()
        took = []
        for _ in range(rounds or self.rounds):
            started = time.perf_counter()
            await work()
            took.append((time.perf_counter() - started) * 1000)
        p50 = middle(took)
        self.rows.append((what, p50, high(took), None if against is None else p50 / against))
        return p50


async def nothing(data: bytes) -> None:
    pass


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


async def starts(folder: Path, timed: Timed) -> None:
    async def bare() -> None:
        await asyncio.to_thread(subprocess.run, ["/bin/bash", "-c", "true"], stdin=subprocess.DEVNULL, check=True)

    async def python() -> None:
        await asyncio.to_thread(subprocess.run, [sys.executable, "-I", "-S", "-c", "pass"], check=True)

    pool = GuardPool()
    order = Order(("/bin/bash", "-c", "true"), folder, 30.0)
    against = await timed("bash -c true, bare", bare)
    await timed("bare interpreter (-I -S -c pass)", python, against)
    await timed("bash -c true, guarded", lambda: pool.run(order, nothing), against)
    await timed(
        "eight of them at once", lambda: asyncio.gather(*(pool.run(order, nothing) for _ in range(8))), against, 10
    )


async def living(folder: Path) -> tuple[tuple[Cell, ...], ...]:
    """Memory of a guard, and how fast all ends."""
    pool = GuardPool()
    ready = asyncio.Event()
    said: list[bytes] = []

    async def hear(data: bytes) -> None:
        said.append(data)
        ready.set()

    running = asyncio.ensure_future(pool.run(Order(("/bin/bash", "-c", "echo $$; sleep 60"), folder, 60.0), hear))
    await ready.wait()
    weight = memory_of(parent_of(int(b"".join(said))))
    started = time.perf_counter()
    for _ in range(10_000):
        pool.feed_all()
    feeding = (time.perf_counter() - started) * 100
    started = time.perf_counter()
    pool.kill_all()
    await running
    return (
        *((f"memory of a guard, {kind}, MiB", kib / 1024) for kind, kib in weight.items()),
        ("feeding one guard, µs", feeding),
        ("kill_all until all is gone, ms", (time.perf_counter() - started) * 1000),
    )


async def tools(folder: Path, timed: Timed) -> None:
    guard = GuardPool()
    toolbox = build_toolbox(FILE_TOOLS, None, guard)
    file = folder / "a.txt"
    file.write_text("line\n" * 1_000)
    for i in range(200):
        (folder / f"src{i % 10}").mkdir(exist_ok=True)
        (folder / f"src{i % 10}" / f"f{i}.py").write_text("import os\n" * 100)
    seen: dict[str, FileSeen] = {}
    key = CallKey("bench", 1, 0)
    context = ToolContext(key, "c", "r", 1, "p", folder, None, seen, lambda text: None, folder / "spill")

    async def call(name: str, **arguments: object) -> None:
        outcome = await toolbox.run(ToolCall("c", name, arguments), context)
        if outcome.status != "ok":
            raise RuntimeError(outcome.summary)
        done = (outcome.data or {}).get("file")
        if done:
            seen[done["path"]] = FileSeen(done["path"], done["digest"])

    await timed("Shell `true`", lambda: call("Shell", command="true"))
    await timed("Read, 1,000 lines", lambda: call("Read", path="a.txt"))
    await timed("Write, 5 kB (with fsync)", lambda: call("Write", path="b.txt", content="line\n" * 1_000))
    await timed("Glob over 200 files", lambda: call("Glob", pattern="**/*.py"))
    await timed("Grep over 200 files, 200 matches shown", lambda: call("Grep", pattern="import"))
    await toolbox.close()


def run(quick: bool) -> Report:
    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(_everything(Path(os.path.realpath(name)), Timed(QUICK_ROUNDS if quick else ROUNDS)))


async def _everything(folder: Path, timed: Timed) -> Report:
    await starts(folder, timed)
    guard = await living(folder)
    await tools(folder, timed)
    return Report(
        "Tools: the process guard, and each tool",
        (
            Table("ms", ("", "p50", "p90", "of bare bash"), tuple(timed.rows)),
            Table("the guard", ("", ""), guard),
        ),
    )
