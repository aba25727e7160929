"""polypod's actors in a Ray: one of one's own on this machine (an embedded `run`, `serve`), or a cluster that is there.

Importing this module does not import Ray: Ray reads part of its environment while it is imported.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import socket
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.home import VERSION
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
CONNECT_LIMIT = 5.0
ANSWER_LIMIT = 10.0
"""Seconds that a Directory which runs already has to say what it was started with."""
PRELOADED = ("orchestrator.wiring", "ray._common.pydantic_compat", "ray._private.arrow_serialization")
"""Imported by Ray's workers before they are given an actor, so that an actor starts in a third of the time."""
SESSION_NOTE = "ray-session"
"""File in the home: where Ray's folder of this home's owner is, so that the next owner clears up after a killed one."""
WORKERS_AHEAD = 2
"""Worker processes that Ray starts ahead beside the warm pool: for the store and for the Directory."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """`home` holds the store and the outputs too large for the log. `roots`: the trees to go on with (None: all).

    `address`: the running Ray cluster to attach to, as `ray.init` takes it; None: start one on this machine.
    """

    home: Path
    store_url: str = field(repr=False)  # it may hold a password
    roots: frozenset[str] | None = None
    address: str | None = None


class ClusterError(Exception):
    """The cluster did not come up; says what did not, and why."""


@dataclass(slots=True)
class Cluster:
    """The actors of a home. `session_dir`: Ray's own folder, if this process started Ray. `home`: where that is noted.
    `attached`: Ray and the actors are others' and go on without this process. `extractors`: the pool, not started yet;
    None: extraction is off. `seconds`: its start, by step."""

    store_handle: Any
    directory: Any
    extractors: RayExtractors | None = None
    session_dir: Path | None = None
    home: Path | None = None
    attached: bool = False
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
        next time. From another's cluster this process only departs: Pods work on."""
        if self._closed or (self.session_dir is None and not self.attached):
            return
        self._closed = True
        import ray  # lazy: Ray, see above

        ending = threading.Thread(target=ray.shutdown, name="ray-shutdown", daemon=True)
        ending.start()
        ending.join(CLOSE_LIMIT)
        if self.session_dir is None:
            return
        shutil.rmtree(self.session_dir, ignore_errors=True)
        if self.home is not None:
            (self.home / SESSION_NOTE).unlink(missing_ok=True)


def start_cluster(settings: RuntimeSettings, options: ClusterOptions) -> Cluster:
    """Start Ray (or attach to the one at `options.address`), the store, the limits (if a model has any) and the
    Directory; returns when they answer.

    Blocks for some seconds. Raises `ClusterError`; nothing that was started here is left running then.
    """
    return _start_own(settings, options) if options.address is None else _attach(settings, options, options.address)


def _attach(settings: RuntimeSettings, options: ClusterOptions, address: str) -> Cluster:
    """This process becomes a driver on a node of the cluster; the actors are found by name, or started."""
    import ray  # lazy: Ray, see above

    began = time.monotonic()
    _check_reachable(address)
    try:
        ray.init(address=address, namespace="polypod", log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        raise ClusterError(f"There is no Ray cluster to attach to at {address}: {error}") from error
    _hush()
    up = time.monotonic()
    try:
        _end_others(digest_of(settings, options))
        cluster = start_actors(settings, options)
    except BaseException:
        ray.shutdown()
        raise
    cluster.attached = True
    cluster.seconds = {"ray": up - began, "actors": time.monotonic() - up}
    return cluster


def _check_reachable(address: str) -> None:
    """Ray itself waits for minutes where nobody listens. Raises `ClusterError`."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal():  # `auto`: Ray finds it on this machine, or says that it is not there
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_LIMIT).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(f"There is no Ray cluster to attach to at {address}: {error}") from error


def digest_of(settings: RuntimeSettings, options: ClusterOptions) -> str:
    """The same for actors that may be joined: those of this version, these settings and this store."""
    return hashlib.sha256(repr((VERSION, settings, options, options.store_url)).encode()).hexdigest()


def _end_others(digest: str) -> None:
    """End all actors here if they were started with other settings, or changed ones would never take effect. To the
    Pods that is a crash: they go on from their logs, under the new settings. Raises `ClusterError`."""
    import ray  # lazy: Ray, see above

    from actors.pod.actor import NAMESPACE  # lazy: Ray, see above

    def named() -> list[str]:
        found = ray.util.list_named_actors(all_namespaces=True)
        return [str(actor["name"]) for actor in found if actor["namespace"] == NAMESPACE]

    if _running_digest(time.monotonic() + ANSWER_LIMIT) == digest:
        return
    until = time.monotonic() + READY_LIMIT
    while left := named():
        for name in left:
            with suppress(ValueError):
                ray.kill(ray.get_actor(name, namespace=NAMESPACE), no_restart=True)
        if time.monotonic() > until:
            raise ClusterError(f"Actors with other settings do not end: {', '.join(sorted(left)[:8])}.")
        time.sleep(0.1)


def _running_digest(until: float) -> str | None:
    """Of the Directory that runs here; None when there is none, or none that answers (one of another version, which has
    no such method, does not either)."""
    import ray  # lazy: Ray, see above
    from ray.exceptions import RayError  # lazy: Ray, see above

    from actors.pod.actor import NAMESPACE  # lazy: Ray, see above
    from orchestrator.directory.actor import NAME  # lazy: Ray, see above

    while True:
        try:
            directory = ray.get_actor(NAME, namespace=NAMESPACE)
            return str(ray.get(directory.digest.remote(), timeout=max(0.1, until - time.monotonic())))
        except (ValueError, AttributeError):
            return None
        except RayError:  # silent, or starting anew
            if time.monotonic() > until:
                return None
            time.sleep(0.2)


def _start_own(settings: RuntimeSettings, options: ClusterOptions) -> Cluster:
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
    from session_store.actor import StoreOptions, start_store  # lazy: Ray, see above

    many_hosts = options.address is not None
    # A file is on one machine: that of the head, where the gateway of such a home must be too.
    store = start_store(options.store_url, StoreOptions(on_head=many_hosts and options.store_url.startswith("sqlite:")))
    if any(has_limits(model) for model in settings.models.values()):
        limits_actor.start_limits(LIMITS, NAMESPACE)
    # Pods may live where this home's lock does not reach: on other hosts, or another home's beside the same database.
    apart = many_hosts or is_postgres(options.store_url)
    alone = _never if apart else partial(nobody_present, options.home)
    setup = directory_setup(settings, options.home, options.roots, alone=alone)
    directory = start_directory(replace(setup, digest=digest_of(settings, options)))
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
