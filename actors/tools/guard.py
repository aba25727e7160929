"""The actor's side of the process guard: starts tool processes under guards, feeds them, ends them.

Each tool process has a guard process of its own (`guard_process`), tied to this process by a pipe. Whoever owns the
heartbeat calls `GuardPool.feed_all` while its lease is fresh; nothing has to be done for a guard to kill: it does so
when this process dies, freezes or is not heard of for `lease`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from actors.tools.environment import clean_environment

How = Literal["exited", "timeout", "killed", "unfed", "orphaned", "lost"]
Sink = Callable[[bytes], Awaitable[None]]

_SCRIPT = Path(__file__).with_name("guard_process.py")
_HOWS: dict[bytes, How] = {
    b"exited": "exited",
    b"timeout": "timeout",
    b"killed": "killed",
    b"unfed": "unfed",
    b"orphaned": "orphaned",
}
_CHUNK = 64 * 1024
_DRAIN = 1.0
"""Seconds to wait for the end of the output once nothing of the command is left."""
_BACKSTOP = 10.0
"""Seconds beyond timeout and grace after which the guard itself is taken to be stuck."""
_KILL_WAIT = 6.0


class PoolClosed(Exception):
    """The Pod has let go of its tools: no process is started any more."""


class NotStarted(OSError):
    """The program could not be started."""


@dataclass(frozen=True, slots=True)
class Order:
    """A process to run: `timeout` seconds from its start, then SIGTERM, and `grace` seconds later SIGKILL."""

    argv: tuple[str, ...]
    cwd: Path
    timeout: float
    grace: float = 2.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended. `code` is the exit code, or minus the number of the signal. `lost`: its guard was killed."""

    how: How
    code: int


class GuardedProcess:
    """One live guard: the ends of its pipes that are ours. Feeding and killing work from any thread."""

    def __init__(self, popen: subprocess.Popen[bytes], control: int, status: int, output: int) -> None:
        self.popen = popen
        self.status = status
        self.output = output
        self.command_pid: int | None = None
        self._control = control
        self._lock = threading.Lock()
        self._closed = False

    def tell(self, word: bytes) -> None:
        """Send a word to the guard; never blocks. A guard that is gone or does not read has nothing to hear."""
        with self._lock:
            if not self._closed:
                with suppress(OSError):
                    os.write(self._control, word)

    def kill_if_failed(self, reading: asyncio.Future[None]) -> None:
        """Output that nobody can take any more must not hold the command up."""
        if not reading.cancelled() and reading.exception() is not None:
            self.tell(b"K")

    def kill_hard(self) -> None:
        """For a guard that does not answer: kill it and its command's session."""
        with suppress(ProcessLookupError, PermissionError):
            self.popen.kill()
        self.kill_command()

    def kill_command(self) -> None:
        if self.command_pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.command_pid, signal.SIGKILL)

    def close(self) -> None:
        """Close our ends: a guard that still lives kills its command now."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for fd in (self._control, self.status, self.output):
                os.close(fd)


class GuardPool:
    """All tool processes of one Pod. A `ToolGuard`.

    `lease` is how long a process may go on without `feed_all`; `environment` is what they get (None: what
    `clean_environment` makes of ours at the time of the start).
    """

    def __init__(self, lease: float = 4.0, environment: Mapping[str, str] | None = None) -> None:
        self._lease = lease
        self._environment = environment
        self._lock = threading.Lock()
        self._live: set[GuardedProcess] = set()
        self._kills = 0
        self._empty: asyncio.Event | None = None  # set, once somebody waits for it, when nothing is live
        self._closed = False

    @property
    def live(self) -> int:
        with self._lock:
            return len(self._live)

    def feed_all(self) -> None:
        for process in self._snapshot():
            process.tell(b".")

    def kill_all(self) -> None:
        with self._lock:
            self._kills += 1
        for process in self._snapshot():
            process.tell(b"K")

    async def close(self) -> None:
        with self._lock:
            self._closed = True
        self.kill_all()
        self._empty = asyncio.Event()
        if self.live:
            with suppress(TimeoutError):
                async with asyncio.timeout(_KILL_WAIT):
                    await self._empty.wait()
        for process in self._snapshot():
            process.kill_hard()

    async def run(self, order: Order, sink: Sink) -> Ended:
        """Run a process to its end, handing its output (both streams, in order) to `sink` as it comes.

        Cancelling kills all of it at once and waits (bounded) until it is gone. Raises `PoolClosed`, `NotStarted`,
        and `OSError` when the folder or the guard is missing.
        """
        process = await self._start(order)
        try:
            return await self._until_end(process, order, sink)
        finally:
            process.close()
            try:
                await _reap(process.popen)
            finally:
                self._forget(process)

    async def _start(self, order: Order) -> GuardedProcess:
        starting = asyncio.ensure_future(asyncio.to_thread(self._spawn, order))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._abandon)
            raise

    def _abandon(self, starting: asyncio.Future[GuardedProcess]) -> None:
        """A process whose call was cancelled while it was being started: its guard ends it when the pipes close."""
        if starting.cancelled() or starting.exception() is not None:
            return
        process = starting.result()
        process.close()
        self._forget(process)

    def _spawn(self, order: Order) -> GuardedProcess:
        with self._lock:
            kills, closed = self._kills, self._closed
        if closed:
            raise PoolClosed("this Pod starts no tool processes any more")
        environment = clean_environment(os.environ) if self._environment is None else dict(self._environment)
        theirs, mine = [], []
        try:
            for ours_is_read in (False, True, True):  # control, status, output
                read, write = os.pipe()
                mine.append(read if ours_is_read else write)
                theirs.append(write if ours_is_read else read)
            numbers = (theirs[0], theirs[1], self._lease, order.timeout, order.grace)
            popen = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(_SCRIPT), *map(str, numbers), *order.argv],
                stdin=subprocess.DEVNULL,
                stdout=theirs[2],
                stderr=theirs[2],
                pass_fds=theirs[:2],
                cwd=order.cwd,
                env=environment,
                start_new_session=True,
            )
        except BaseException:
            for fd in mine:
                os.close(fd)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        for fd in mine:
            os.set_blocking(fd, False)
        process = GuardedProcess(popen, *mine)
        self._register(process, kills)
        return process

    def _register(self, process: GuardedProcess, kills: int) -> None:
        """From now on it is fed and killed with the rest; what was ordered during its start is made good."""
        with self._lock:
            self._live.add(process)
            late = self._closed or kills != self._kills
        if late:
            process.tell(b"K")

    async def _until_end(self, process: GuardedProcess, order: Order, sink: Sink) -> Ended:
        pump = asyncio.ensure_future(_pump(process, sink))
        pump.add_done_callback(process.kill_if_failed)
        ending = asyncio.ensure_future(_status(process))
        try:
            bound = order.timeout + order.grace + _BACKSTOP
            if not (await asyncio.wait({ending}, timeout=bound))[0]:
                process.kill_hard()
            ended = await ending
            await asyncio.wait({pump}, timeout=_DRAIN)
            if pump.done():
                pump.result()
            return ended
        except asyncio.CancelledError:
            process.tell(b"K")
            if not (await asyncio.wait({ending}, timeout=_KILL_WAIT))[0]:
                process.kill_hard()
            raise
        finally:
            for task in (pump, ending):
                task.cancel()
            await asyncio.gather(pump, ending, return_exceptions=True)

    def _forget(self, process: GuardedProcess) -> None:
        with self._lock:
            self._live.discard(process)
            if not self._live and self._empty is not None:
                self._empty.set()

    def _snapshot(self) -> tuple[GuardedProcess, ...]:
        with self._lock:
            return tuple(self._live)


async def _pump(process: GuardedProcess, sink: Sink) -> None:
    while chunk := await _read(process.output):
        await sink(chunk)


async def _status(process: GuardedProcess) -> Ended:
    """Follow the guard's words until it ends."""
    said, failed = b"", None
    ended = Ended("lost", -signal.SIGKILL)
    while chunk := await _read(process.status):
        said += chunk
        *lines, said = said.split(b"\n")
        for line in lines:
            word, _, number = line.partition(b" ")
            if word == b"started":
                process.command_pid = int(number)
            elif word == b"failed":
                failed = int(number)
            elif word in _HOWS:
                ended = Ended(_HOWS[word], int(number))
    if failed is not None:
        raise NotStarted(failed, os.strerror(failed))
    if ended.how == "lost":
        process.kill_command()
    return ended


async def _read(fd: int) -> bytes:
    """The next bytes of a pipe, b"" at its end. Gives the loop a turn even when there is always more."""
    await asyncio.sleep(0)
    while True:
        try:
            return os.read(fd, _CHUNK)
        except BlockingIOError:
            await _readable(fd)


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, _set, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def _reap(popen: subprocess.Popen[bytes]) -> None:
    """Collect the guard, which is ending; one that does not is left to `subprocess`, which collects it later."""
    if popen.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            await asyncio.shield(asyncio.to_thread(popen.wait, 2.0))
