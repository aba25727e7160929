"""The process guard with real processes: nothing of a dead, frozen or cut-off Pod runs on."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from actors.tools.guard import Ended, GuardPool, NotStarted, Order, PoolClosed

ROOT = Path(__file__).resolve().parents[2]

# A shell in a session of its own, with a child, with one that called setsid, and with a daemon: double fork, setsid,
# output closed, signals ignored. Each writes its pid to a file.
TREE = """
echo $$ > shell.pid
sleep 300 & echo $! > child.pid
setsid bash -c 'echo $$ > session.pid; exec sleep 300' &
daemon='trap "" TERM HUP; echo $$ > daemon.pid; exec sleep 300'
( ( setsid bash -c "$daemon" >/dev/null 2>&1 </dev/null & ) & )
while [ ! -s session.pid ] || [ ! -s daemon.pid ]; do sleep 0.02; done
echo ready
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in (b"Z", b"X")


def until(holds: Callable[[], bool], limit: float) -> float:
    """Seconds until it holds; fails after `limit`."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < limit, "did not happen in time"
        time.sleep(0.005)
    return time.monotonic() - started


def children_of_this_process() -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if int(stat.read_bytes().rpartition(b")")[2].split()[1]) == os.getpid():
                found.append(int(stat.parent.name))
    return found


def pids(folder: Path) -> dict[str, int]:
    said = {file.stem: file.read_text() for file in folder.glob("*.pid")}
    return {name: int(text) for name, text in said.items() if text}  # a writer may have been killed half way


class Actor:
    """A process of its own that owns a guarded command."""

    def __init__(self, folder: Path, command: str, lease: float, *, feed: bool = True) -> None:
        self.tree: dict[str, int] = {}
        argv = [str(lease), "yes" if feed else "no", str(folder), command]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.guarded_actor", *argv], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        self.folder = folder

    def await_ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self.tree = pids(self.folder)
        assert set(self.tree) == {"shell", "child", "session", "daemon"}
        assert all(alive(pid) for pid in self.tree.values())

    def gone(self) -> bool:
        return not any(alive(pid) for pid in self.tree.values())


@pytest.fixture
def start() -> Iterator[Callable[..., Actor]]:
    started: list[Actor] = []

    def start(*args: Any, **more: Any) -> Actor:
        actor = Actor(*args, **more)
        started.append(actor)
        actor.await_ready()
        return actor

    yield start
    for actor in started:
        actor.process.kill()
        actor.process.wait()
        for pid in actor.tree.values():
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


def test_a_killed_actor_leaves_nothing_running(tmp_path: Path, start: Callable[..., Actor]) -> None:
    actor = start(tmp_path, TREE + "sleep 300", lease=60.0)
    actor.process.send_signal(signal.SIGKILL)
    took = until(actor.gone, 2.0)
    print(f"gone {took * 1000:.0f} ms after the kill")


def test_a_frozen_actor_is_outlived_by_nothing_for_longer_than_the_lease(
    tmp_path: Path, start: Callable[..., Actor]
) -> None:
    actor = start(tmp_path, TREE + "sleep 300", lease=1.0)
    time.sleep(2.0)
    assert not actor.gone(), "fed, it runs on"
    actor.process.send_signal(signal.SIGSTOP)
    took = until(actor.gone, 3.0)
    assert took > 0.5
    actor.process.send_signal(signal.SIGCONT)
    assert actor.process.stdout is not None
    assert actor.process.stdout.readline() == "unfed\n"


def test_an_actor_that_is_cut_off_and_does_not_feed_loses_its_processes(
    tmp_path: Path, start: Callable[..., Actor]
) -> None:
    actor = start(tmp_path, TREE + "sleep 300", lease=1.0, feed=False)
    until(actor.gone, 3.0)
    assert actor.process.wait(5) == 0


def test_what_is_left_in_the_background_ends_with_the_command(tmp_path: Path, start: Callable[..., Actor]) -> None:
    actor = start(tmp_path, TREE + "sleep 0.3", lease=60.0)
    assert actor.process.wait(5) == 0
    assert actor.gone()


def test_a_killed_guard_takes_its_command_along(tmp_path: Path, start: Callable[..., Actor]) -> None:
    actor = start(tmp_path, TREE + "sleep 0.5; kill -9 $PPID; sleep 300", lease=60.0)
    until(lambda: not alive(actor.tree["shell"]) and not alive(actor.tree["child"]), 2.0)
    assert actor.process.wait(5) == 0
    assert actor.process.stdout is not None
    assert actor.process.stdout.read() == "lost\n"


async def nothing(data: bytes) -> None:
    pass


def bash(command: str, folder: Path, timeout: float = 30.0, grace: float = 0.5) -> Order:
    return Order(("/bin/bash", "-c", command), folder, timeout, grace)


async def ready(folder: Path) -> dict[str, int]:
    for _ in range(500):
        if (folder / "ready").exists():
            return pids(folder)
        await asyncio.sleep(0.01)
    raise AssertionError("the tree did not start")


@pytest.mark.parametrize("how", ["cancel", "kill_all", "close", "timeout"])
async def test_every_way_to_end_a_command_ends_all_of_it(tmp_path: Path, how: str) -> None:
    pool = GuardPool()
    order = bash(TREE + "touch ready; sleep 300", tmp_path, timeout=1.0 if how == "timeout" else 30.0)
    running = asyncio.ensure_future(pool.run(order, nothing))
    tree = await ready(tmp_path)
    started = time.monotonic()
    match how:
        case "cancel":
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        case "kill_all":
            thread = threading.Thread(target=pool.kill_all)
            thread.start()
            thread.join()
            assert await running == Ended("killed", -9)
        case "close":
            await pool.close()
            assert await running == Ended("killed", -9)
            with pytest.raises(PoolClosed):
                await pool.run(order, nothing)
        case _:
            ended = await running
            assert ended.how == "timeout"
    assert not any(alive(pid) for pid in tree.values())
    assert pool.live == 0
    assert time.monotonic() - started < 3.0


async def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    started = time.monotonic()
    ended = await GuardPool().run(bash("trap '' TERM; while :; do sleep 1; done", tmp_path, 0.3, 0.3), nothing)
    assert ended == Ended("timeout", -9)
    assert 0.6 <= time.monotonic() - started < 2.0


async def test_a_kill_or_cancel_while_a_process_is_being_started_catches_it(tmp_path: Path) -> None:
    pool = GuardPool()
    for wait in range(6):
        folder = tmp_path / str(wait)
        folder.mkdir()
        running = asyncio.ensure_future(pool.run(bash("echo $$ > shell.pid; sleep 300", folder), nothing))
        await asyncio.sleep(wait * 0.004)
        if wait % 2:
            pool.kill_all()
            if wait == 1:
                pool.kill_all()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await pool.close()
    await asyncio.sleep(0.3)
    assert not any(alive(pid) for wait in range(6) for pid in pids(tmp_path / str(wait)).values())


async def test_exit_codes_signals_and_what_cannot_be_started(tmp_path: Path) -> None:
    pool = GuardPool()
    assert await pool.run(bash("exit 7", tmp_path), nothing) == Ended("exited", 7)
    assert await pool.run(bash("kill -SEGV $$", tmp_path), nothing) == Ended("exited", -11)
    with pytest.raises(NotStarted, match="No such file"):
        await pool.run(Order(("/no/such/program",), tmp_path, 5.0), nothing)
    with pytest.raises(FileNotFoundError):
        await pool.run(bash("true", tmp_path / "gone"), nothing)
    assert pool.live == 0


async def test_output_that_cannot_be_taken_ends_the_command(tmp_path: Path) -> None:
    async def full(data: bytes) -> None:
        raise OSError(28, "No space left on device")

    pool = GuardPool()
    with pytest.raises(OSError, match="No space left"):
        await pool.run(bash("echo x; sleep 300", tmp_path), full)
    assert pool.live == 0


async def test_G06_tool_processes_see_no_keys_and_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "SOME_TOKEN", "RAY_ADDRESS", "POLYPOD__X", "PYTHONPATH"):
        monkeypatch.setenv(name, "visible")
    seen: list[bytes] = []

    async def keep(data: bytes) -> None:
        seen.append(data)

    await GuardPool().run(bash("env; tr '\\0' '\\n' < /proc/$PPID/environ", tmp_path), keep)
    assert b"PATH=" in b"".join(seen)
    assert b"visible" not in b"".join(seen)


async def test_a_pool_leaves_no_descriptor_and_changes_nothing_of_the_process(tmp_path: Path) -> None:
    pool = GuardPool()
    strangers = children_of_this_process()  # of other tests: Ray's
    await pool.run(bash("true", tmp_path), nothing)
    before = (len(os.listdir("/proc/self/fd")), os.getcwd(), dict(os.environ), signal.getsignal(signal.SIGCHLD))
    for _ in range(10):
        await pool.run(bash("cd /; export A=1; sleep 300 & true", tmp_path), nothing)
    after = (len(os.listdir("/proc/self/fd")), os.getcwd(), dict(os.environ), signal.getsignal(signal.SIGCHLD))
    assert before == after
    assert set(children_of_this_process()) <= set(strangers)


async def test_descriptors_of_the_process_do_not_reach_tools(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    seen: list[bytes] = []

    async def keep(data: bytes) -> None:
        seen.append(data)

    try:
        await GuardPool().run(bash("ls /proc/self/fd", tmp_path), keep)
    finally:
        os.close(read)
        os.close(write)
    assert b"".join(seen).split() == [b"0", b"1", b"2", b"3"]  # 3 is the listed folder itself


async def test_feeding_works_from_a_thread_while_processes_come_and_go(tmp_path: Path) -> None:
    pool = GuardPool(lease=0.5)
    stop = threading.Event()

    def feed() -> None:
        while not stop.is_set():
            pool.feed_all()

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        orders = [pool.run(bash(f"sleep {0.1 * (i % 4)}", tmp_path), nothing) for i in range(12)]
        ends = await asyncio.gather(*orders, pool.run(bash("sleep 1.2", tmp_path), nothing))
    finally:
        stop.set()
        thread.join()
    assert ends == [Ended("exited", 0)] * 13
