"""`export` and `import`: sessions as JSON lines, one file for one session or a whole tree."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TextIO

from orchestrator.cli.embedding import settings_of, warn
from orchestrator.cli.failure import FINISHED, CommandError, UsageError
from orchestrator.cli.forest import branches
from orchestrator.cli.offline import open_store_reader
from orchestrator.cli.paint import screen
from orchestrator.cli.reaching import find_pod, home_of, open_reader
from session_store.backends.memory import MemoryStore
from session_store.errors import ConditionFailed
from session_store.lock import FileLock
from session_store.opening import lock_path, make_folder, open_store, sqlite_path
from session_store.requests import Store
from session_store.transfer import FORMAT, BadExport, export_lines, import_lines


def export(options: Namespace) -> int:
    """The store is read directly: a damaged home can be exported as far as it can be read."""
    home = home_of(options)
    reader = open_reader(options)
    try:
        pod = find_pod(reader, options.pod)
        sessions = [pod["id"]]
        if options.tree:
            below = branches(reader.pods(root=pod["root_id"]), [pod["id"]])
            sessions = [branch.pod["id"] for branch in below]  # parents before their children
    finally:
        reader.close()
    with closing(open_store_reader(settings_of(home).store_url)) as store:
        lines = (line for session in sessions for line in export_lines(store, session))
        if options.output is None or options.output == "-":
            for line in lines:
                sys.stdout.write(line)
            return FINISHED
        _write(Path(options.output), lines)
    warn(f"{len(sessions)} session{'s' if len(sessions) != 1 else ''} written to {options.output}")
    return FINISHED


def bring(options: Namespace) -> int:
    """Import each session of the file in its own transaction; the first refusal ends it and says what was taken."""
    home = home_of(options)
    ownership = home.own()
    if ownership is None:
        pid = home.owner_pid()
        raise CommandError(
            f"the home {home.path} is owned by process {pid}, which alone may write its store\n"
            "stop it (or import into another home with --home) and import again"
        )
    try:
        with _writing(settings_of(home).store_url) as store:
            taken = _import_all(store, options.file)
    finally:
        ownership.close()
    out = screen()
    if options.json:
        out.json({"imported": taken})
    else:
        out.line(f"imported {len(taken)} session{'s' if len(taken) != 1 else ''}")
        for session in taken:
            out.line(f"  {session}")
    return FINISHED


@contextmanager
def _writing(url: str) -> Iterator[Store]:
    """The store, opened for writing; under its lock if it has one."""
    path = sqlite_path(url)
    lock = None if path is None else FileLock(lock_path(path))
    if path is not None and lock is not None:
        make_folder(path)
        lock.acquire(wait=5.0)
    try:
        store = open_store(url)
        try:
            yield store
        finally:
            if not isinstance(store, MemoryStore):
                store.close()
    finally:
        if lock is not None:
            lock.release()


def _write(path: Path, lines: Iterator[str]) -> None:
    """The whole file or none: an export that breaks off leaves nothing that looks like one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("x", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


def _import_all(store: Store, named: str) -> list[str]:
    taken: list[str] = []
    first = 0
    for lines in _sessions(named):
        try:
            taken.append(import_lines(store, lines).session)
        except (BadExport, ConditionFailed) as error:
            done = f"; {len(taken)} before it were imported" if taken else ""
            at = f", session at line {first + 1}" if first else ""
            raise CommandError(f"{named}{at}: {error}{done}") from None
        first += len(lines)
    return taken


def _sessions(named: str) -> Iterator[Sequence[str]]:
    """The lines of each session: a header begins one."""
    lines: list[str] = []
    try:
        with _opened(named) as file:
            for line in file:
                if lines and f'"format":"{FORMAT}"' in line[:64]:
                    yield lines
                    lines = []
                lines.append(line)
    except OSError as error:
        raise UsageError(f"{named} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{named} is not a file made by `polypod export` (it is not text)") from None
    yield lines


def _opened(named: str) -> TextIO:
    return sys.stdin if named == "-" else Path(named).open(encoding="utf-8", newline="\n")
