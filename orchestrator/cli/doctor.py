"""`doctor`: everything polypod needs, one line each, with what to do about what is wrong."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import socket
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orchestrator.cli.cells import clean, pad
from orchestrator.cli.embedding import settings_of
from orchestrator.cli.failure import FAILED, FINISHED, CommandError, explained
from orchestrator.cli.paint import Style, screen
from orchestrator.cli.reaching import home_of, reach
from orchestrator.home import VERSION, Home, HomeError
from session_store.backends.sqlite_schema import SCHEMA_VERSION
from session_store.opening import open_reader, shown, sqlite_path
from session_store.requests import Query

if TYPE_CHECKING:
    from orchestrator.settings import Settings

State = Literal["ok", "note", "wrong"]
_STYLES: dict[State, Style] = {"ok": "green", "note": "yellow", "wrong": "red"}
_LEAST_PYTHON = (3, 11)
_LEAST_DISK = 1 << 30
_LEAST_MEMORY = 1 << 30
_RAY_FULL = 0.95
"""Ray ends workers when the machine's memory is fuller than this."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `way_out` says what to do when `state` is not `ok`."""

    what: str
    state: State
    found: str
    way_out: str = ""


def doctor(options: Namespace) -> int:
    home = home_of(options)
    findings = list(examine(home))
    out = screen()
    wrong = any(finding.state == "wrong" for finding in findings)
    if options.json:
        out.json({"ok": not wrong, "findings": [asdict(finding) for finding in findings]})
        return FAILED if wrong else FINISHED
    for finding in findings:
        mark = out.paint(pad(finding.state, 5), _STYLES[finding.state])
        out.line(f"{mark} {pad(finding.what, 9)} {clean(finding.found)}")
        if finding.way_out:
            out.line(f"{' ' * 16}{clean(finding.way_out)}")
    return FAILED if wrong else FINISHED


def examine(home: Home) -> Iterator[Finding]:
    """All findings; a check that fails itself is a finding."""
    checks: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("polypod", _python),
        ("machine", lambda: _machine(home)),
        ("home", lambda: _home(home)),
        ("store", lambda: _store(home)),
        ("settings", lambda: _settings(home)),
    )
    for what, look in checks:
        try:
            yield from look()
        except (CommandError, HomeError) as error:
            yield Finding(what, "wrong", str(error))
        except Exception as error:
            yield Finding(what, "wrong", explained(error)[1])


def _python() -> Iterator[Finding]:
    version = platform.python_version()
    good = sys.version_info >= _LEAST_PYTHON
    yield Finding("polypod", "ok", f"{VERSION} with Python {version} at {sys.executable}")
    if not good:
        yield Finding("python", "wrong", version, "polypod needs Python 3.11 or newer")
    try:
        yield Finding("ray", "ok", importlib.metadata.version("ray"))
    except importlib.metadata.PackageNotFoundError:
        yield Finding("ray", "wrong", "not installed", "install polypod's requirements (make demo does it)")


def _machine(home: Home) -> Iterator[Finding]:
    place = next(p for p in (home.path, *home.path.parents) if p.exists())
    free = shutil.disk_usage(place).free
    low = free < _LEAST_DISK
    yield Finding(
        "disk", "note" if low else "ok", f"{_size(free)} free at {place}", "make room: the log grows" if low else ""
    )
    yield from _memory()
    shm = Path("/dev/shm")
    if shm.exists() and (left := shutil.disk_usage(shm).free) < 64 << 20:
        yield Finding("shm", "note", f"{_size(left)} free at {shm}", "Ray is slow without it: give the machine more")


def _memory() -> Iterator[Finding]:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return
    figures = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if ":" in line}
    total, available = figures.get("MemTotal", 0), figures.get("MemAvailable", 0)
    full = total > 0 and 1 - available / total > _RAY_FULL
    low = full or available < _LEAST_MEMORY
    way_out = "close something: Ray ends workers when memory is 95 % full" if low else ""
    yield Finding("memory", "note" if low else "ok", f"{_size(available)} of {_size(total)} available", way_out)


def _home(home: Home) -> Iterator[Finding]:
    if not home.path.exists():
        parent = next(p for p in home.path.parents if p.exists())
        if os.access(parent, os.W_OK):
            yield Finding("home", "ok", f"{home.path} (made when first used)")
        else:
            yield Finding("home", "wrong", f"{home.path} cannot be made", "name another with --home or POLYPOD_HOME")
        return
    if not home.path.is_dir() or not os.access(home.path, os.W_OK | os.X_OK):
        yield Finding("home", "wrong", f"{home.path} is not writable", "name another with --home or POLYPOD_HOME")
    if not home.is_owned():
        yield Finding("home", "ok", f"{home.path}, owned by nobody now")
        return
    gateway = reach(home, patience=5)
    owner = home.owner()
    if gateway is None or owner is None:
        yield Finding("home", "ok", f"{home.path}, its owner has just ended")
        return
    yield Finding("home", "ok", f"{home.path}, owned by `{owner.mode}` (process {owner.pid}) at {owner.address}")


def _store(home: Home) -> Iterator[Finding]:
    url = settings_of(home).store_url
    reader = open_reader(url)
    if reader is None:
        yield Finding("store", "ok", f"{shown(url)} (made when first used)")
        return
    with closing(reader):
        reader.execute(Query(limit=1))
    path = sqlite_path(url)
    if path is None:
        yield Finding("store", "ok", f"{shown(url)}; `polypod check` looks inside")
        return
    size = sum(p.stat().st_size for p in path.parent.glob(f"{path.name}*"))
    yield Finding("store", "ok", f"{path}, schema {SCHEMA_VERSION}, {_size(size)}; `polypod check` looks inside")


def _settings(home: Home) -> Iterator[Finding]:
    settings = settings_of(home)
    where = str(settings.file) if settings.file is not None else "no polypod.toml found: the defaults"
    overrides = sorted(name for name in os.environ if name.startswith("POLYPOD__"))
    yield Finding("settings", "ok", where + (f", and {', '.join(overrides)}" if overrides else ""))
    bypassed = [name for name, profile in settings.tables.profiles.items() if profile.permissions.bypass]
    if bypassed:
        yield Finding("settings", "note", f"profiles {', '.join(bypassed)}", "allow what their rules would ask about")
    yield _memory_of_sessions(settings)
    yield _compaction(settings)
    yield from _models(settings)
    yield _port(settings, home)


def _memory_of_sessions(settings: Settings) -> Finding:
    """What extraction does, and where to."""
    runtime = settings.runtime()
    threshold, model = runtime.memory.extract_threshold, runtime.memory.extract_model
    if not threshold:
        return Finding("extract", "ok", "off: no [memory] extract_threshold")
    by = f"model {model}" if model else "each session's own model"
    return Finding("extract", "ok", f"from {threshold} activity tokens on, by {by}, to {runtime.memory_root}/_staging")


def _compaction(settings: Settings) -> Finding:
    """When histories are compacted, and whether that comes in time."""
    rule, models = settings.runtime().compaction, settings.tables.models
    if not rule.on:
        return Finding("compact", "ok", "off: no [compaction] threshold; `polypod compact POD` does it by hand")
    between = (("runs", rule.threshold), ("requests", rule.request_threshold))
    words = ", ".join(f"from {size} tokens on between {what}" for what, size in between if size)
    late = max(rule.threshold, rule.request_threshold)
    small = [n for n, m in models.items() if m.context_window is not None and m.context_window <= late]
    if small:
        return Finding("compact", "note", words, f"too late for {', '.join(small)}: their context_window is smaller")
    return Finding("compact", "ok", words)


def _models(settings: Settings) -> Iterator[Finding]:
    """Whether each model has its key; never the key."""
    default = settings.default_model
    if not settings.tables.models:
        yield Finding("model", "note", "none", settings.model_problem(None, os.environ) or "")
    for name, table in settings.tables.models.items():
        problem = settings.model_problem(name, os.environ)
        words = f"{name}{' (default)' if name == default else ''}: {table.provider} {table.model or ''}".rstrip()
        key = f", key in {table.api_key_env}" if table.api_key_env and problem is None else ""
        yield Finding("model", "ok" if problem is None else "note", words + key, problem or "")


def _port(settings: Settings, home: Home) -> Finding:
    """Whether `serve` could listen where the settings say."""
    host, port = settings.gateway.host, settings.gateway.port
    owner = home.owner() if home.is_owned() else None
    if owner is not None and owner.address.endswith(f"//{host}:{port}"):
        return Finding("port", "ok", f"{host}:{port} is taken by this home's own owner")
    try:
        with socket.create_server((host, port)):
            return Finding("port", "ok", f"{host}:{port} is free for `polypod serve`")
    except OSError as error:
        words = os.strerror(error.errno) if error.errno else str(error)
        return Finding("port", "note", f"{host}:{port}: {words}", "`polypod serve --port 0` takes a free one")


def _size(number: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"
