"""The home: the folder that holds the store, and its one owner (DESIGN §6).

`home.lock` is held by the `serve` or `run` process for life; its holder is the owner and says in `server.json` where it
answers. The lock is a `flock` on a descriptor that no child process gets, so a killed owner leaves none behind.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from session_store.errors import StoreUnavailable
from session_store.lock import FileLock, LockHeld, holder_of

VERSION = "0.1.0"
HOME_VARIABLE = "POLYPOD_HOME"
DEFAULT_HOME = "~/.polypod"
_PROBE = 0.1
"""Seconds for which taking the lock waits: another command may just be looking whether the home is owned."""


class HomeError(Exception):
    """The home cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Owner:
    """What `server.json` says: where the owner answers (`http://host:port`), with which secret, and who it is.

    `mode` is the command that owns the home (`serve` or `run`); `memory_root` the folder of its memory.
    """

    address: str
    secret: str
    pid: int
    version: str = VERSION
    mode: str = "serve"
    memory_root: str = ""


class Ownership:
    """The held `home.lock`. `close` gives it up; so does the end of the process, however it comes."""

    def __init__(self, home: Home, lock: FileLock) -> None:
        self.home = home
        self._lock = lock
        self._held = True

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
        if self._held:
            self._held = False
            self.home.server_file.unlink(missing_ok=True)
            self._lock.release()


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

    def create(self) -> None:
        """Make the folder (mode 0700). Raises `HomeError`."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise HomeError(f"the home {self.path} is a file: {_WAY_OUT}") from None
        except OSError as error:
            raise self._unusable("be made", error) from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise HomeError(f"the home {self.path} is not writable: {_WAY_OUT}")

    def own(self) -> Ownership | None:
        """Take `home.lock`; None when another process holds it. Raises `HomeError`."""
        self.create()
        lock = FileLock(self.lock_file)
        try:
            lock.acquire(_PROBE)
        except LockHeld:
            return None
        except (StoreUnavailable, OSError) as error:
            raise HomeError(f"the home {self.path} cannot be locked ({error}): {_WAY_OUT}") from None
        self.server_file.unlink(missing_ok=True)  # of an owner that was killed
        return Ownership(self, lock)

    def is_owned(self) -> bool:
        """Whether some process holds the home. Raises `HomeError` when the lock cannot be looked at."""
        try:
            descriptor = os.open(self.lock_file, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise self._unusable("be looked at", error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            raise self._unusable("be locked", error) from None
        finally:
            os.close(descriptor)
        return False

    def owner_pid(self) -> int | None:
        """Pid of the process that took the lock last; meant for messages."""
        holder = holder_of(self.lock_file)
        return None if holder is None else holder.pid

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

    def _unusable(self, what: str, error: OSError) -> HomeError:
        return HomeError(f"the home {self.path} cannot {what} ({error.strerror or error}): {_WAY_OUT}")


def find_home(named: str | None, environ: Mapping[str, str]) -> Home:
    """The home: `--home`, else `POLYPOD_HOME`, else `~/.polypod`."""
    path = Path(named or environ.get(HOME_VARIABLE) or DEFAULT_HOME).expanduser()
    return Home(path if path.is_absolute() else Path.cwd() / path)


_WAY_OUT = f"name a folder you may write with --home or {HOME_VARIABLE}"
