"""The lock: one holder, told by name, freed by its death, inherited by no child."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from session_store.lock import FileLock, Holder, LockHeld, holder_of, is_alive, start_time

HOLD = """
import subprocess, sys, time
from pathlib import Path
from session_store.lock import FileLock
lock = FileLock(Path(sys.argv[1])); lock.acquire()
child = subprocess.Popen(["sleep", "30"])
print(child.pid, flush=True); time.sleep(30)
"""


def test_one_holder_who_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.lock"
    first, second = FileLock(path), FileLock(path)
    first.acquire()
    with pytest.raises(LockHeld) as held:
        second.acquire(wait=0.05)
    assert held.value.holder == Holder(os.getpid(), start_time(os.getpid()))
    assert f"process {os.getpid()}" in str(held.value)
    first.release()
    second.acquire()
    second.release()


def test_a_killed_holder_frees_it_although_its_child_lives(tmp_path: Path) -> None:
    path = tmp_path / "store.lock"
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        holder = holder_of(path)
        assert holder is not None
        assert (holder.pid, is_alive(holder)) == (process.pid, True)
        assert not is_alive(Holder(process.pid, "1"))
        with pytest.raises(LockHeld):
            FileLock(path).acquire()
        process.kill()
        process.wait(5)
        assert not is_alive(holder)
        lock = FileLock(path)
        lock.acquire(wait=1)
        lock.release()
    finally:
        process.kill()
        os.kill(child, 9)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 3}'])
def test_S12_a_damaged_lock_file_says_nothing_and_stops_nobody(tmp_path: Path, text: str) -> None:
    path = tmp_path / "store.lock"
    path.write_text(text)
    assert holder_of(path) is None
    lock = FileLock(path)
    lock.acquire()
    lock.release()
