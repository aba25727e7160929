"""Facts about the machine a benchmark ran on, and what its processes weigh."""

from __future__ import annotations

import datetime
import os
import platform
import re
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.report import middle

SYNCS = 200


def facts() -> dict[str, str]:
    """By name, for people."""
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    memory = int(re.findall(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[0]) / 2**20
    processor = re.findall(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    packages = ", ".join(f"{name} {version(name)}" for name in ("ray", "aiohttp", "msgpack", "pydantic"))
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores ({processor[0] if processor else platform.machine()}), {memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {packages}",
        "load before": f"{load} (1, 5, 15 min)",
        "fdatasync of 700 bytes": f"p50 {sync_ms():.2f} ms",
    }


def sync_ms() -> float:
    """Milliseconds of one fdatasync, p50."""
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(SYNCS):
            os.write(file.fileno(), b"x" * 700)
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - started) * 1000)
    return middle(times)


def memory_of(pid: int | str = "self") -> dict[str, int]:
    """KiB of a process by kind: `rss`, `pss`, `private`."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kinds = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in rows)}
    private = kinds["Private_Clean"] + kinds["Private_Dirty"]
    return {"rss": kinds["Rss"], "pss": kinds["Pss"], "private": private}
