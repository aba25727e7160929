"""The home: the folder that holds the store, and its one owner (DESIGN §6).

`home.lock` is held by the `serve` or `run` process for life; its holder is the owner and says in `server.json` where it
answers. Locks are `flock`s on descriptors that no child process gets, so a killed owner leaves none behind.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

VERSION = "0.1.0"
HOME_VARIABLE = "POLYPOD_HOME"
DEFAULT_HOME = "~/.polypod"


class HomeError(Exception):
    """The home cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Owner:
    """What `server.json` says: where the owner answers (`http://host:port`), with which secret, and who it is.

    `started` is the process's start time in clock ticks since boot (0: not known here); with `pid` it names one process
    for ever. `mode` is the command that owns the home.
    """

    address: str
    secret: str
    pid: int
    started: int = 0
    version: str = VERSION
    mode: str = "serve"


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """One process: pid and start time, so that a reused pid is not taken for it."""

    pid: int
    started: int

    def alive(self) -> bool:
        return self.started != 0 and start_time(self.pid) == self.started


class Ownership:
    """The held `home.lock`. `close` gives it up; so does the end of the process, however it comes."""

    def __init__(self, home: Home, descriptor: int) -> None:
        self.home = home
        self._descriptor = descriptor

    def announce(self, owner: Owner) -> None:
        """Write `server.json`, readable by this user only, whole or not at all."""
        partial = self.home.server_file.with_name(f".server.{os.getpid()}.json")
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(owner), file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.home.server_file)

    def close(self) -> None:
        if self._descriptor < 0:
            return
        self.home.server_file.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = -1


@dataclass(frozen=True, slots=True)
class Home:
    """Paths of one home. Nothing is made until `create`."""

    path: Path

    @property
    def lock_file(self) -> Path:
        return self.path / "home.lock"

    @property
    def server_file(self) -> Path:
        return self.path / "server.json"

    @property
    def store_lock_file(self) -> Path:
        return self.path / "store.lock"

    @property
    def store_file(self) -> Path:
        """The SQLite file of the default store."""
        return self.path / "store.db"

    def create(self) -> None:
        """Make the folder (mode 0700). Raises `HomeError`."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise HomeError(f"the home {self.path} is a file: name a folder with --home or {HOME_VARIABLE}") from None
        except OSError as error:
            raise self._unusable("be made", error) from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise HomeError(f"the home {self.path} is not writable: {_way_out()}")

    def own(self, *, wait_probe: bool = True) -> Ownership | None:
        """Take `home.lock`; None when another process holds it. Raises `HomeError`.

        `wait_probe` is for the moment in which another command only looks whether the home is owned.
        """
        self.create()
        try:
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unusable("be locked", error) from None
        for _ in range(3 if wait_probe else 1):
            if self._flock(descriptor, fcntl.LOCK_EX):
                self.server_file.unlink(missing_ok=True)  # of an owner that was killed
                return Ownership(self, descriptor)
        os.close(descriptor)
        return None

    def is_owned(self) -> bool:
        """Whether some process holds the home. Raises `HomeError` when the lock cannot be looked at."""
        try:
            descriptor = os.open(self.lock_file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._unusable("be looked at", error) from None
        try:
            return not self._flock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def owner(self) -> Owner | None:
        """What the owner wrote; None when there is none, or it is still starting."""
        if not self.is_owned():
            return None
        try:
            plain = json.loads(self.server_file.read_text(encoding="utf-8"))
            known = {k: v for k, v in plain.items() if k in Owner.__dataclass_fields__}
            return Owner(**known)
        except (FileNotFoundError, ValueError, TypeError, AttributeError):
            return None
        except OSError as error:
            raise self._unusable("be read", error) from None

    def _flock(self, descriptor: int, kind: int) -> bool:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._unusable("be locked", error) from None
        return True

    def _unusable(self, what: str, error: OSError) -> HomeError:
        return HomeError(f"the home {self.path} cannot {what} ({error.strerror or error}): {_way_out()}")


def find_home(named: str | None, environ: Mapping[str, str]) -> Home:
    """The home: `--home`, else `POLYPOD_HOME`, else `~/.polypod`."""
    text = named or environ.get(HOME_VARIABLE) or DEFAULT_HOME
    path = Path(text).expanduser()
    return Home(path if path.is_absolute() else Path.cwd() / path)


def start_time(pid: int) -> int:
    """Start of a process in clock ticks since boot; 0 when it is gone, or this system does not tell."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    fields = line[line.rindex(b")") + 2 :].split()
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def read_mark(path: Path) -> ProcessMark | None:
    """The process that wrote itself into a lock file as `{"pid", "started"}`; None when the file says nothing."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        return ProcessMark(int(plain["pid"]), int(plain["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class StoreWatch:
    """Ends a store actor that gives no answer for `limit` s, so that Ray's restart gets its lock.

    `ping` asks the store something small. Only the process that held the lock both before and after the silence is
    killed, and only if its start time is still that which it wrote: a restarting store is left alone.
    """

    def __init__(self, lock_file: Path, ping: Callable[[], Awaitable[object]], limit: float) -> None:
        self._lock_file = lock_file
        self._ping = ping
        self._limit = limit
        self.killed: list[ProcessMark] = []

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._limit / 4)

    async def look(self) -> None:
        """Ask once; kill if there is no answer."""
        before = read_mark(self._lock_file)
        try:
            await asyncio.wait_for(self._ping(), self._limit)
        except TimeoutError:
            self._end(before)
        except Exception:
            return  # an error is an answer: the store, or what stands for it while it restarts, is there

    def _end(self, before: ProcessMark | None) -> None:
        mark = read_mark(self._lock_file)
        if mark is None or mark != before or not mark.alive():
            return
        os.kill(mark.pid, signal.SIGKILL)
        self.killed.append(mark)


def schema_version(store_file: Path) -> int | None:
    """The schema number of a SQLite store, or None when it cannot be read. For `doctor`; changes nothing."""
    if not store_file.is_file():
        return None
    try:
        connection = sqlite3.connect(f"file:{store_file}?mode=ro", uri=True, timeout=1)
        try:
            return int(connection.execute("PRAGMA user_version").fetchone()[0])
        finally:
            connection.close()
    except sqlite3.Error:
        return None


def _way_out() -> str:
    return f"name a folder you may write with --home or {HOME_VARIABLE}"
