"""The guard of one tool process: runs a command and ends all of it when its actor is gone, silent, or says so.

Run as a script, without site packages: it starts in the time of a bare interpreter and imports nothing of polypod.

    guard_process.py CONTROL STATUS LEASE TIMEOUT GRACE PROGRAM ARGUMENT...

CONTROL is a pipe from the actor: any byte feeds the guard, `K` kills, its end (the actor is dead) kills too; so does
silence for LEASE seconds. TIMEOUT seconds after the start the command gets SIGTERM and GRACE seconds later SIGKILL.
STATUS is a pipe to the actor: `started PID`, then `HOW CODE`, written when nothing of the command is left. HOW is
`exited, timeout, killed, unfed, orphaned` or `failed` (the program could not be started; CODE is the errno).

The command runs in a session of its own. The guard is the reaper of its orphans, so that what leaves the session by
setsid and double fork still comes back to the guard and dies with the rest. If the guard itself is killed, the kernel
kills the command (not what it started). Background processes end with the command that started them.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import time

SIGKILL, SIGTERM, SIGCONT, SIGPIPE = 9, 15, 18, 13
IGNORED = (1, 2, 3, 15)  # HUP, INT, QUIT, TERM: the guard ends by its own rules only
DEFAULTS = (*IGNORED, SIGPIPE, 25)  # what the command gets back; 25 is XFSZ, which Python ignores
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SIG_DFL, SIG_IGN = 0, 1
LEFTOVER_GRACE = 0.2
KILL_BOUND = 5.0
LIBC = ctypes.CDLL(None)


class Guard:
    def __init__(self, control: int, status: int, lease: float, timeout: float, grace: float) -> None:
        self.control = control
        self.status = status
        self.lease = lease
        self.grace = grace
        self.until = time.monotonic() + timeout
        self.fed = time.monotonic()
        self.pid = 0
        self.code: int | None = None  # of the command, once it is reaped
        self.childless = False
        self.ear = select.poll()  # not select(): the actor's descriptors, whose numbers are kept, may be above 1023
        self.ear.register(control, select.POLLIN | select.POLLHUP)

    def say(self, how: bytes, code: int) -> None:
        try:  # without contextlib, here and below: each import delays every tool process
            os.write(self.status, how + f" {code}\n".encode())
        except OSError:
            return  # the actor is gone: nobody listens

    def heard(self) -> bytes | None:
        """What the actor wants: None, or why all shall end at once. Notes when it was heard of."""
        if not self.ear.poll(0):
            return b"unfed" if time.monotonic() - self.fed >= self.lease else None
        data = os.read(self.control, 65536)
        if not data:
            return b"orphaned"
        self.fed = time.monotonic()
        return b"killed" if b"K" in data else None

    def reap(self) -> bool:
        """Collect what has ended; true when no process of the command is left."""
        while not self.childless:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                break
            if pid == 0:
                break
            if pid == self.pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.childless

    def watch(self) -> bytes:
        """Wait until the command ends by itself or has to end; returns why."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN | select.POLLHUP)
        try:
            poll.register(os.pidfd_open(self.pid), select.POLLIN)
            step = 3600.0
        except (AttributeError, OSError):
            step = 0.05  # a kernel without pidfd
        while True:
            self.reap()
            if self.code is not None:
                return b"exited"
            why = self.heard()
            if why:
                return why
            now = time.monotonic()
            if now >= self.until:
                return b"timeout"
            poll.poll(max(1, min(self.fed + self.lease - now, self.until - now, step) * 1000))

    def end(self, grace: float) -> None:
        """End every process of the command: SIGTERM and `grace` seconds, then SIGKILL until none is left."""
        if grace and not self.reap():
            signal_all(SIGTERM)
            signal_all(SIGCONT)
            limit = time.monotonic() + grace
            while not self.reap() and time.monotonic() < limit and not self.heard():
                time.sleep(0.005)
        limit = time.monotonic() + KILL_BOUND
        while not self.reap() and time.monotonic() < limit:
            signal_all(SIGKILL)
            time.sleep(0.002)


def signal_all(number: int) -> None:
    """Send a signal to every descendant of this process."""
    for pid in descendants(os.getpid()):
        try:
            os.kill(pid, number)
        except OSError:
            continue


def descendants(root: int) -> list[int]:
    """All processes below `root`, parents before children."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            below.setdefault(int(fields[1]), []).append(int(name))
    found = list(below.get(root, ()))
    for pid in found:
        found.extend(below.get(pid, ()))
    return found


def become(command: list[str], status: int) -> None:
    """In the forked child: turn into the command."""
    try:
        os.setsid()
        for number in DEFAULTS:
            LIBC.signal(number, ctypes.c_void_p(SIG_DFL))
        LIBC.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        try:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("500")  # short of memory, the kernel shall take the tool and not the Pod
        except OSError:
            pass
        os.execvp(command[0], command)
    except OSError as error:
        os.write(status, f"failed {error.errno}\n".encode())
    finally:
        os._exit(127)


def main(argv: list[str]) -> None:
    control, status = int(argv[0]), int(argv[1])
    os.set_inheritable(control, False)
    os.set_inheritable(status, False)
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in IGNORED:
        LIBC.signal(number, ctypes.c_void_p(SIG_IGN))
    guard = Guard(control, status, float(argv[2]), float(argv[3]), float(argv[4]))
    guard.pid = os.fork()
    if guard.pid == 0:
        become(argv[5:], status)
    guard.say(b"started", guard.pid)
    # The output is the command's alone: its end must be seen when the command's last process closes it.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    why = guard.watch()
    guard.end({b"timeout": guard.grace, b"exited": LEFTOVER_GRACE}.get(why, 0))
    guard.say(why, guard.code if guard.code is not None else -SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
