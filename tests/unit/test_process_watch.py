"""The owner ends a store process that answers nothing, and no other."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.process_watch import ProcessWatch
from session_store.lock import holder_of, start_time


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def written(path: Path, pid: int, started: str) -> Path:
    path.write_text(json.dumps({"pid": pid, "started": started}))
    return path


async def silent() -> None:
    await asyncio.sleep(60)


async def test_a_silent_store_is_killed(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    lock = written(tmp_path / "store.lock", process.pid, start_time(process.pid))
    watch = ProcessWatch(lambda: holder_of(lock), silent, limit=0.05)
    await watch.look()
    assert process.wait(5) == -9
    assert [holder.pid for holder in watch.killed] == [process.pid]


async def test_a_process_that_reuses_the_pid_is_not(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    lock = written(tmp_path / "store.lock", process.pid, "1")
    await ProcessWatch(lambda: holder_of(lock), silent, limit=0.05).look()
    assert process.poll() is None


async def test_a_store_that_took_the_lock_meanwhile_is_not(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    lock = written(tmp_path / "store.lock", 999_999, "1")

    async def restarts() -> None:
        written(lock, process.pid, start_time(process.pid))
        await silent()

    await ProcessWatch(lambda: holder_of(lock), restarts, limit=0.05).look()
    assert process.poll() is None


@pytest.mark.parametrize("error", [None, RuntimeError("restarting")])
async def test_a_store_that_answers_is_not(
    tmp_path: Path, process: subprocess.Popen[bytes], error: Exception | None
) -> None:
    lock = written(tmp_path / "store.lock", process.pid, start_time(process.pid))

    async def answers() -> None:
        if error is not None:
            raise error

    await ProcessWatch(lambda: holder_of(lock), answers, limit=0.05).look()
    assert process.poll() is None


async def test_without_a_lock_file_nothing_is_killed(tmp_path: Path) -> None:
    watch = ProcessWatch(lambda: holder_of(tmp_path / "store.lock"), silent, limit=0.05)
    await watch.look()
    assert watch.killed == []
