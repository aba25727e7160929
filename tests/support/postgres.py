"""A PostgreSQL server of the tests' own: started in a temporary folder on a free port, with everything on disk."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import psycopg

PASSWORD = "pass/word@&42"
TABLES = "counters, sessions, configs, entries, messages, child_events, questions, annotations, strays"


def binaries() -> Path | None:
    """The folder of Debian's newest `postgres`, or of one on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


class PostgresServer:
    """One cluster, one superuser `polypod` with a password. `start` after `stop`, `kill` or `__init__`."""

    def __init__(self, bin_folder: Path) -> None:
        self._bin = bin_folder
        self.folder = Path(tempfile.mkdtemp(prefix="polypod-pg-"))
        self._user = _server_user()
        if self._user is not None:  # the server refuses to run as root
            shutil.chown(self.folder, self._user, pwd.getpwnam(self._user).pw_gid)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        self._run("initdb", "-D", str(self._data), "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "-U", "polypod",
                  f"--pwfile={password}", "--no-sync")  # fmt: skip

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://polypod:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=5)

    def start(self) -> None:
        """Returns when it takes connections."""
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.folder,
            "fsync": "on",
            "shared_buffers": "32MB",
            "max_connections": 60,
        }
        command = [self._bin / "postgres", "-D", self._data, *(f"--{name}={value}" for name, value in settings.items())]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, user=self._user, start_new_session=True
            )
        # Ends the server when this process goes, however: its standard input closes then.
        end = f"cat >/dev/null; kill -QUIT {self._process.pid}"
        self._guard = subprocess.Popen(["sh", "-c", end], stdin=subprocess.PIPE, start_new_session=True)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self.folder / "log").read_text()
                time.sleep(0.05)
            else:
                return

    def stop(self, how: int = signal.SIGINT) -> None:
        """SIGINT: at once but in order; SIGQUIT: as in a crash; SIGKILL: the postmaster alone, as by the kernel."""
        if self._process is None:
            return
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
        self._process.send_signal(how)
        self._process.wait(60)
        self._process = None
        if how == signal.SIGKILL:  # its backends see that it is gone; a new one starts only after them
            deadline = time.monotonic() + 30
            while _alive(str(self._data)):
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def close(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def wipe(self) -> None:
        """An empty store, if there was one."""
        with self.connect() as db:
            if db.execute("SELECT to_regclass('polypod.meta')").fetchone() == (None,):
                return
            db.execute("SET search_path = polypod")
            for table in TABLES.split(", "):
                db.execute(f"DELETE FROM {table}".encode())
            db.execute("DELETE FROM meta WHERE key <> 'schema'")
            db.execute("ALTER TABLE sessions ALTER COLUMN no RESTART")

    def database(self, name: str) -> str:
        """The URL of a new, empty database."""
        with self.connect() as db:
            db.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._bin / program, *arguments], cwd=self.folder, user=self._user, check=True, capture_output=True
        )


def _server_user() -> str | None:
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _alive(data: str) -> bool:
    """Whether a process of the server in `data` is left; each works in that folder."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if os.readlink(process / "cwd") == data:
                    return True
            except OSError:
                continue
    return False
