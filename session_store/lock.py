"""A lock that says who holds it: `flock` on a file with the holder's pid and start time in it.

The kernel frees it when the holder dies, and no child process inherits it.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from session_store.errors import StoreUnavailable

POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Holder:
    """A process. `started` is its start time in clock ticks since boot: with it a pid is not taken for another's."""

    pid: int
    started: str


class LockHeld(StoreUnavailable):
    """Someone else holds the lock; `holder` says who, as far as the file tells."""

    def __init__(self, path: str, holder: Holder | None) -> None:
        who = "another process" if holder is None else f"process {holder.pid}"
        super().__init__(f"{path} is held by {who}: it is at work on this home, or has to be ended first")
        self.path = path
        self.holder = holder

    def __reduce__(self) -> tuple[object, ...]:
        return (LockHeld, (self.path, self.holder))


class FileLock:
    """Held from `acquire` to `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def acquire(self, wait: float = 0.0) -> None:
        """Raises `LockHeld` when another process holds it for `wait` seconds more, `StoreUnavailable` for no file."""
        limit = time.monotonic() + wait
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"{self._path} cannot be opened: {error.strerror}") from error
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < limit:
                    time.sleep(POLL_SECONDS)
                    continue
                os.close(fd)
                raise LockHeld(str(self._path), holder_of(self._path)) from None
            break
        me = Holder(os.getpid(), start_time(os.getpid()))
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps({"pid": me.pid, "started": me.started}).encode(), 0)
        self._fd = fd

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def holder_of(path: Path) -> Holder | None:
    """Who wrote itself into the file last, alive or not; None if it says nothing readable."""
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        return Holder(int(written["pid"]), str(written["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_alive(holder: Holder) -> bool:
    """Whether that very process still exists."""
    started = start_time(holder.pid)
    return started != "" and started == holder.started


def start_time(pid: int) -> str:
    """A process's start in clock ticks since boot, `""` if there is no such process (or no /proc)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    state, started = fields[0], fields[19]
    return "" if state == "Z" else started
