"""A Ray of one's own on this machine, with polypod's actors in it: what an embedded `run` and `serve` start.

Importing this module does not import Ray: Ray reads part of its environment while it is imported.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.presence import nobody_present
from orchestrator.runtime import RuntimeSettings
from session_store.lock import Holder
from session_store.opening import is_postgres

if TYPE_CHECKING:
    from actors.extractor.actor import RayExtractors
    from orchestrator.client import RayControlPlane

OBJECT_STORE = 80 << 20
"""Bytes. Nothing of ours goes through Ray's object store; this is about the least that Ray takes."""
READY_LIMIT = 60.0
CLOSE_LIMIT = 10.0
PRELOADED = ("orchestrator.wiring", "ray._common.pydantic_compat", "ray._private.arrow_serialization")
"""Imported by Ray's workers before they are given an actor, so that an actor starts in a third of the time."""
SESSION_NOTE = "ray-session"
"""File in the home: where Ray's folder of this home's owner is, so that the next owner clears up after a killed one."""
WORKERS_AHEAD = 2
"""Worker processes that Ray starts ahead beside the warm pool: for the store and for the Directory."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """`home` holds the store and the outputs too large for the log. `roots`: the trees to go on with (None: all)."""

    home: Path
    store_url: str = field(repr=False)  # it may hold a password
    roots: frozenset[str] | None = None


class ClusterError(Exception):
    """The cluster did not come up; says what did not, and why."""


@dataclass(slots=True)
class Cluster:
    """The actors of a home. `session_dir`: Ray's own folder, if this process started Ray. `home`: where that is noted.
    `extractors`: the pool, not started yet; None: extraction is off. `seconds`: its start, by step."""

    store_handle: Any
    directory: Any
    extractors: RayExtractors | None = None
    session_dir: Path | None = None
    home: Path | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    _closed: bool = False

    def control_plane(self) -> RayControlPlane:
        """A client for the event loop that asks for it."""
        from orchestrator.client import RayControlPlane  # lazy: Ray, see above
        from session_store.ray_client import RayStore, named_store  # lazy: Ray, see above

        return RayControlPlane(RayStore(named_store()))

    async def store_process(self) -> Holder:
        """The process that the store actor is now."""
        pid, started = await self.store_handle.process.options(concurrency_group="control").remote()
        return Holder(int(pid), str(started))

    def close(self) -> None:
        """End every process of a Ray that was started here, within `CLOSE_LIMIT` s. Running Pods go on from their logs
        next time."""
        if self._closed or self.session_dir is None:
            return
        self._closed = True
        import ray  # lazy: Ray, see above

        ending = threading.Thread(target=ray.shutdown, name="ray-shutdown", daemon=True)
        ending.start()
        ending.join(CLOSE_LIMIT)
        shutil.rmtree(self.session_dir, ignore_errors=True)
        if self.home is not None:
            (self.home / SESSION_NOTE).unlink(missing_ok=True)


def start_cluster(settings: RuntimeSettings, options: ClusterOptions) -> Cluster:
    """Start Ray, the store, the limits (if a model has any) and the Directory; returns when they answer.

    Blocks for some seconds. Raises `ClusterError`; nothing is left running then.
    """
    began = time.monotonic()
    clear_session(options.home)
    with _ray_environment():
        import ray  # lazy: Ray, see above

        workers = WORKERS_AHEAD + settings.directory.warm_pool
        try:
            context = ray.init(
                address="local",
                namespace="polypod",
                num_cpus=workers,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                object_store_memory=OBJECT_STORE,
            )
        except Exception as error:
            raise ClusterError(f"Ray did not start: {error}") from error
        _hush()
    up = time.monotonic()
    session_dir = Path(context.address_info["session_dir"])
    note_session(options.home, session_dir)
    try:
        cluster = start_actors(settings, options)
    except BaseException:
        ray.shutdown()
        clear_session(options.home, session_dir)
        raise
    cluster.session_dir, cluster.home = session_dir, options.home
    cluster.seconds = {"ray": up - began, "actors": time.monotonic() - up}
    return cluster


def start_actors(settings: RuntimeSettings, options: ClusterOptions) -> Cluster:
    """The same on a Ray that this process is connected to; what runs already is joined. Raises `ClusterError`."""
    import ray  # lazy: Ray, see above
    from ray.exceptions import GetTimeoutError, RayError  # lazy: Ray, see above

    from actors.models import limits_actor  # lazy: Ray, see above
    from actors.pod.actor import NAMESPACE  # lazy: Ray, see above
    from orchestrator.directory.actor import start_directory  # lazy: Ray, see above
    from orchestrator.wiring import LIMITS, directory_setup, extractors, has_limits  # lazy: Ray, see above
    from session_store.actor import start_store  # lazy: Ray, see above

    store = start_store(options.store_url)
    if any(has_limits(model) for model in settings.models.values()):
        limits_actor.start_limits(LIMITS, NAMESPACE)
    # A database may be another home's too: that no Pod process of this one is left proves nothing there.
    alone = _never if is_postgres(options.store_url) else partial(nobody_present, options.home)
    setup = directory_setup(settings, options.home, options.roots, alone=alone)
    directory = start_directory(setup)
    try:
        ray.get(store.ping.remote(), timeout=READY_LIMIT)
        ray.get(directory.ready.remote(), timeout=READY_LIMIT)
    except GetTimeoutError as error:
        raise ClusterError(f"The store or the Directory did not answer within {READY_LIMIT:g} s.") from error
    except RayError as error:
        raise ClusterError(f"The store or the Directory did not start: {_reason(error)}") from error
    return Cluster(store, directory, extractors(settings, setup.roots))


def _never() -> bool:
    return False


def note_session(home: Path, session_dir: Path) -> None:
    """Say in the home where Ray's folder is. On a full disk the note is missing, and nothing else."""
    with suppress(OSError):
        (home / SESSION_NOTE).write_text(str(session_dir), encoding="utf-8")


def clear_session(home: Path, session_dir: Path | None = None) -> None:
    """Remove Ray's folder of an owner of this home that is gone: `session_dir`, else the one the home names."""
    note = home / SESSION_NOTE
    with suppress(OSError, ValueError):
        folder = session_dir or Path(note.read_text(encoding="utf-8"))
        if folder.is_absolute() and folder.name.startswith("session_") and (folder / "sockets").is_dir():
            shutil.rmtree(folder, ignore_errors=True)
        note.unlink()


def _reason(error: Exception) -> str:
    """What the actor itself said, without Ray's account of where it was."""
    cause = getattr(error, "cause", None)
    if cause is not None:
        return str(cause)
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


@contextmanager
def _ray_environment() -> Iterator[None]:
    """What Ray and its workers must find in their environment; put back afterwards."""
    wanted: dict[str, str | None] = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "RAY_worker_niceness": "0",  # at Ray's 15 a busy machine starves the store and every lease
        # Accounts that Ray keeps of each call and timer, for a dashboard that is not there: a fifth of an idle worker.
        "RAY_event_stats": "0",
        "RAY_enable_metrics_collection": "0",
        "RAY_task_events_report_interval_ms": "0",
        "RAY_preload_python_modules": ",".join(PRELOADED),
        "PYTHONDONTWRITEBYTECODE": None,  # without bytecode every process starts a second later
        "PYTHONPATH": _python_path(),
    }
    before = {name: os.environ.get(name) for name in wanted}
    _set_environment(wanted)
    try:
        yield
    finally:
        _set_environment(before)


def _hush() -> None:
    """Ray prints to our stdout whenever a worker dies, which is not for the terminal of a run; nothing turns it off.

    Its filter of such lines (RAY_DEDUP_LOGS_SKIP_REGEX) is read when Ray is imported, so it is set where it is kept.
    """
    try:
        from ray._private.ray_logging import stderr_deduplicator, stdout_deduplicator  # lazy: Ray, see above
    except ImportError:  # another Ray keeps it elsewhere: it prints
        return
    for filtered in (stdout_deduplicator, stderr_deduplicator):
        filtered.skip_re = re.compile("")


def _python_path() -> str | None:
    """So that workers find these packages also when they are not installed."""
    known = os.environ.get("PYTHONPATH")
    here = str(Path(__file__).resolve().parent.parent)
    if here == sysconfig.get_paths()["purelib"] or here in (known or "").split(os.pathsep):
        return known
    return os.pathsep.join(filter(None, (here, known)))


def _set_environment(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
