"""What the process guard costs: the start of a guarded command beside a bare one, its memory, kill and tool latency.

python -m benchmarks.tools
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from actors.protocol.tools import CallKey, FileSeen, ToolContext
from actors.tools.guard import GuardPool, Order
from actors.tools.registry import FILE_TOOLS, build_toolbox
from session_store.items import ToolCall

ROUNDS = 60


async def timed(work: Callable[[], Awaitable[object]], rounds: int = ROUNDS) -> list[float]:
    """Milliseconds of each round, after one that does not count."""
    await work()
    took = []
    for _ in range(rounds):
        started = time.perf_counter()
        await work()
        took.append((time.perf_counter() - started) * 1000)
    return took


def show(what: str, took: list[float], against: float | None = None) -> float:
    middle = statistics.median(took)
    ratio = f"  {middle / against:6.2f} x" if against else ""
    print(f"{what:<58} p50 {middle:7.2f} ms  p90 {statistics.quantiles(took, n=10)[8]:7.2f} ms{ratio}")
    return middle


async def nothing(data: bytes) -> None:
    pass


def memory(pid: int) -> dict[str, int]:
    """kB by kind, of one process."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kinds = {name: int(rest.split()[0]) for name, _, rest in (row.partition(":") for row in rows)}
    return {"rss": kinds["Rss"], "pss": kinds["Pss"], "private": kinds["Private_Clean"] + kinds["Private_Dirty"]}


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


async def starts(folder: Path) -> None:
    async def bare() -> None:
        await asyncio.to_thread(subprocess.run, ["/bin/bash", "-c", "true"], stdin=subprocess.DEVNULL, check=True)

    async def python() -> None:
        await asyncio.to_thread(subprocess.run, [sys.executable, "-I", "-S", "-c", "pass"], check=True)

    pool = GuardPool()
    order = Order(("/bin/bash", "-c", "true"), folder, 30.0)
    against = show("bash -c true, bare", await timed(bare))
    show("bare interpreter (-I -S -c pass)", await timed(python), against)
    show("bash -c true, guarded", await timed(lambda: pool.run(order, nothing)), against)
    eight = await timed(lambda: asyncio.gather(*(pool.run(order, nothing) for _ in range(8))), 10)
    show("eight of them at once", eight, against)


async def living(folder: Path) -> None:
    """Memory of a guard, and how fast all ends."""
    pool = GuardPool()
    ready = asyncio.Event()
    said: list[bytes] = []

    async def hear(data: bytes) -> None:
        said.append(data)
        ready.set()

    running = asyncio.ensure_future(pool.run(Order(("/bin/bash", "-c", "echo $$; sleep 60"), folder, 60.0), hear))
    await ready.wait()
    figures = memory(parent_of(int(b"".join(said))))
    print("memory of a guard: " + ", ".join(f"{kind} {kb / 1024:.1f} MB" for kind, kb in figures.items()))
    started = time.perf_counter()
    for _ in range(10_000):
        pool.feed_all()
    print(f"feeding one guard: {(time.perf_counter() - started) * 100:.1f} us")
    started = time.perf_counter()
    pool.kill_all()
    await running
    print(f"kill_all until all is gone: {(time.perf_counter() - started) * 1000:.1f} ms")


async def tools(folder: Path) -> None:
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

    show("Shell `true`", await timed(lambda: call("Shell", command="true")))
    show("Read, 1,000 lines", await timed(lambda: call("Read", path="a.txt")))
    show("Write, 5 kB (with fsync)", await timed(lambda: call("Write", path="b.txt", content="line\n" * 1_000)))
    show("Glob over 200 files", await timed(lambda: call("Glob", pattern="**/*.py")))
    show("Grep over 200 files, 200 matches shown", await timed(lambda: call("Grep", pattern="import")))
    await toolbox.close()


async def everything(folder: Path) -> None:
    await starts(folder)
    await living(folder)
    await tools(folder)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(everything(Path(os.path.realpath(name))))


if __name__ == "__main__":
    main()
