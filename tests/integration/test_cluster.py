"""A home's cluster in a process of its own: it starts, ends without a trace, and goes on after kill -9."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def owner(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "tests.support.owner", str(folder), *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def heard(process: subprocess.Popen[str], word: str) -> list[str]:
    """The next line, which must begin with `word`: what follows it."""
    assert process.stdout is not None
    words = process.stdout.readline().split()
    assert words[:1] == [word]
    return words[1:]


def gone(pids: list[int], limit: float) -> list[int]:
    """Those of the processes that still live after `limit` s."""
    deadline = time.monotonic() + limit
    while True:
        living = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
        if not living or time.monotonic() > deadline:
            return living
        time.sleep(0.05)


def test_an_ended_owner_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    with owner(tmp_path, "go") as process:
        session_dir, *pids = heard(process, "up")
        heard(process, "pod")
        assert heard(process, "done") == ["finished", "1"]
        assert process.stdin is not None
        process.stdin.close()
        heard(process, "closed")
        assert process.wait(20) == 0
    assert len(pids) > 3
    assert gone([int(p) for p in pids], 5.0) == []
    assert not Path(session_dir).exists()


def test_S14_L09_after_kill_9_of_all_the_next_owner_goes_on_without_waiting(tmp_path: Path) -> None:
    with owner(tmp_path, "go") as process:
        _, *pids = heard(process, "up")
        heard(process, "pod")
        while not (tmp_path / "started").exists():
            time.sleep(0.02)
        process.kill()
    left = gone([int(p) for p in pids], 10.0)
    assert [p for p in left if b"Agent" not in Path(f"/proc/{p}/cmdline").read_bytes()] == []  # Ray's take longer
    (tmp_path / "started").unlink()
    with owner(tmp_path) as process:
        heard(process, "up")
        began = time.monotonic()
        assert heard(process, "done") == ["finished", "2"]
        assert time.monotonic() - began < 30.0  # of a lease of 60: the old ones are known to be over
        assert not (tmp_path / "started").exists()  # what was cut off is not run again


@pytest.mark.long
def test_the_start_takes_at_most_five_seconds(tmp_path: Path) -> None:
    took = []
    for n in range(3):
        folder = tmp_path / str(n)
        folder.mkdir()
        began = time.monotonic()
        with owner(folder) as process:
            heard(process, "up")
            took.append(time.monotonic() - began)
    assert min(took) < 5.0
