"""The owner of a home: the cluster and the gateway in the process of `run` or `serve`.

Ray is started from the main thread (its processes watch the thread that started them); the gateway and the watch over
the store have an event loop in a thread of their own, so that the command is free to be a client like any other.

Importing this module does not import Ray, as in `cluster`.
"""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import os
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from orchestrator.cluster import Cluster, ClusterError, ClusterOptions, start_cluster
from orchestrator.door import DiskDoor
from orchestrator.gateway.access import check_exposure
from orchestrator.gateway.context import Gateway
from orchestrator.gateway.options import GatewayOptions
from orchestrator.gateway.server import GatewayServer, serve
from orchestrator.home import Home, Owner, Ownership
from orchestrator.ports import AlertBatch, LiveBatch, NewPod, NewPodReply
from orchestrator.process_watch import ProcessWatch
from orchestrator.settings import Settings
from session_store.errors import StoreError
from session_store.items import Json
from session_store.lock import Holder, holder_of
from session_store.opening import lock_path, own_database, sqlite_path
from session_store.requests import AsyncStore, Pending, PodLimits, Query
from session_store.status import is_control

if TYPE_CHECKING:
    from orchestrator.client import RayControlPlane
    from session_store.backends.postgres_owner import DatabaseOwnership

START_LIMIT = 30.0
CLOSE_LIMIT = 10.0
DIRECTORY_SILENCE = 3
"""Leases for which the Directory may give no answer before it is killed and started anew."""
LOG_BYTES = 1 << 20
EXTRACTORS_AFTER = 3.0
"""Seconds after which the extractors are started if no offer has: late, since nobody waits for them."""


@dataclass(frozen=True, slots=True)
class OwnerPlan:
    """`mode` is the command. `host`, `port`: where to listen (None: as the settings say; `run`: loopback, any port).

    `roots`: the trees to go on with, besides those of runs that join; None: all of the home. `ray_address`: the Ray
    cluster to attach to, before what the settings say; for `serve` only.
    """

    mode: Literal["run", "serve"]
    host: str | None = None
    port: int | None = None
    roots: tuple[str, ...] | None = ()
    ray_address: str | None = None


class OwnTrees:
    """`ControlPlane` of an embedded owner: notes the trees of runs that join, and takes on those that a person acts on.

    An embedded home goes on with no tree by itself but its own (DESIGN §4); a message that a command sends to another
    tree makes that one its own too, or nobody would ever read it.
    """

    def __init__(self, plane: RayControlPlane, roots: tuple[str, ...]) -> None:
        self._plane = plane
        self.roots = set(roots)

    @property
    def store(self) -> AsyncStore:
        return self._plane.store

    async def create(self, new: NewPod) -> NewPodReply:
        # In an embedded home every new tree is one of its own, or it would never start.
        reply = await self._plane.create(replace(new, owner_run=True))
        self.roots.add(reply.pod_id)
        return reply

    async def hint(self, sessions: tuple[str, ...]) -> None:
        for session in sessions:
            await self._take_on(session)
        await self._plane.hint(sessions)

    async def stop(self, pod_id: str, by: str, reason: str) -> Literal["ended", "stopping"]:
        await self._take_on(pod_id)
        return await self._plane.stop(pod_id, by, reason)

    async def watch(self, pod_id: str, cursor: int, wait: float) -> LiveBatch:
        return await self._plane.watch(pod_id, cursor, wait)

    async def alerts(self, pod_id: str | None, after: int, wait: float) -> AlertBatch:
        return await self._plane.alerts(pod_id, after, wait)

    async def status(self) -> dict[str, Json]:
        return await self._plane.status()

    async def _take_on(self, session: str) -> None:
        """Not for a prompt behind an abandoned run: it is queued, and `resume` goes on with both (DESIGN §4)."""
        rows = (await self.store.execute(Query(ids=(session,)))).rows
        if not rows or rows[0].root_id in self.roots:
            return
        if rows[0].run_open:
            pending = (await self.store.execute(Pending(session))).messages
            if not any(is_control(message) for message in pending):
                return
        await self._plane.adopt_root(rows[0].root_id)
        self.roots.add(rows[0].root_id)


class OwnerProcess:
    """This process as the owner, from `start` to `close`."""

    def __init__(self, ownership: Ownership, settings: Settings, plan: OwnerPlan) -> None:
        self.secret = secrets.token_urlsafe(32)
        self.address = ""
        self._ownership = ownership
        self._settings = settings
        self._plan = plan
        self._options = self._gateway_options()
        self._cluster: Cluster | None = None
        self._database: DatabaseOwnership | None = None
        self._trees: OwnTrees | None = None
        self._ready = threading.Event()
        self._ended = threading.Event()
        self._closing: Callable[[], object] = lambda: None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="polypod-gateway", daemon=True)

    @classmethod
    def start(cls, ownership: Ownership, settings: Settings, plan: OwnerPlan) -> OwnerProcess:
        """Returns once the gateway answers. Raises `ClusterError`, `CannotListen`, `NotLoopback`; nothing runs then.
        So does `SettingsError`, for settings that nothing would keep."""
        settings.check_hooks()
        owner = cls(ownership, settings, plan)
        if plan.mode == "serve":  # what cannot be is said before seconds are spent on Ray
            check_exposure(plan.host or settings.gateway.host, owner._options)
        keep_log(ownership.home, plan.mode)
        try:
            owner._start()
        except BaseException:
            owner.close()
            raise
        return owner

    def joined_roots(self) -> set[str]:
        """Roots of the trees that were made or taken on here."""
        return set(self._trees.roots) if self._trees is not None else set()

    @property
    def is_attached(self) -> bool:
        """Whether the Pods live in a cluster that goes on without this process."""
        return self._cluster is not None and self._cluster.attached

    def extract(self, sessions: Iterable[str], limit: float) -> int:
        """Have what is due in these sessions extracted; how many are not done after `limit` seconds."""
        pool = None if self._cluster is None else self._cluster.extractors
        return 0 if pool is None else pool.look(sessions, limit)

    @property
    def extracts_from(self) -> int:
        """Activity tokens from which a session is extracted; 0: never."""
        return self._settings.tables.memory.extract_threshold or 0

    def wait(self, stopping: threading.Event) -> None:
        """Until `stopping` is set; raises what ended the gateway before that."""
        while not stopping.wait(0.2):
            if self._ended.is_set():
                raise self._failure or RuntimeError("the gateway has ended by itself")

    def close(self) -> None:
        """Within a bound: the gateway, every process, the lock. Running Pods go on from their logs next time."""
        self._closing()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_LIMIT)
        try:
            if self._cluster is not None:
                self._cluster.close()
        finally:
            if self._database is not None:
                self._database.close()
            self._ownership.close()

    def _start(self) -> None:
        plan, settings = self._plan, self._settings
        roots = None if plan.roots is None else frozenset(plan.roots)
        home = self._ownership.home.path
        try:  # before seconds are spent on Ray
            self._database = own_database(settings.store_url)
        except StoreError as error:
            raise ClusterError(str(error)) from None
        options = ClusterOptions(home, settings.store_url, roots, self._address())
        self._cluster = start_cluster(settings.runtime(), options)
        self._thread.start()
        if not self._ready.wait(START_LIMIT):
            raise TimeoutError(f"the gateway did not start within {START_LIMIT:g} s")
        if self._failure is not None:
            raise self._failure
        owner = Owner(self.address, self.secret, os.getpid(), mode=plan.mode, memory_root=settings.memory_root)
        self._ownership.announce(owner)

    def _address(self) -> str | None:
        """The Ray cluster to attach to; a `run` always has its own."""
        return None if self._plan.mode == "run" else self._plan.ray_address or self._settings.tables.cluster.address

    def _gateway_options(self) -> GatewayOptions:
        directory = self._settings.tables.directory
        limits = PodLimits(directory.max_depth, directory.max_children, directory.max_pods)
        # The gateway of a `run` is for commands of this home only.
        own = {self.secret: "default"}
        tenants = own if self._plan.mode == "run" else self._settings.tenant_tokens(os.environ)
        return GatewayOptions(tenants=tenants, home_secret=self.secret, limits=limits, prices=self._settings.prices())

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ended.set()
            self._ready.set()

    async def _serve(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._closing = lambda: self._ended.is_set() or loop.call_soon_threadsafe(stop.set)
        assert self._cluster is not None
        plane = self._cluster.control_plane()
        if self._plan.roots is not None:
            self._trees = OwnTrees(plane, self._plan.roots)
        door = DiskDoor.of(self._settings.runtime(), self._ownership.home.path)
        server = await self._listen(Gateway(self._trees or plane, self._options, door))
        self.address = server.address
        watches = [self._watch_store(plane.store), self._watch_directory(plane), *self._start_extractors()]
        self._ready.set()
        try:
            stopped = asyncio.create_task(stop.wait())
            ended = asyncio.create_task(server.wait())
            await asyncio.wait({stopped, ended}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
        finally:
            for watch in watches:
                watch.cancel()
            await server.close()

    async def _listen(self, gateway: Gateway) -> GatewayServer:
        plan, table = self._plan, self._settings.gateway
        if plan.mode == "run":
            return await serve(gateway, "127.0.0.1", 0)
        port = table.port if plan.port is None else plan.port
        return await serve(gateway, plan.host or table.host, port)

    def _watch_store(self, store: AsyncStore) -> asyncio.Task[None]:
        """The eye on the store actor. That of a SQLite file is the holder of its lock; over PostgreSQL the actor says
        itself which process it is, and is asked no more: a server that is away is no reason to end it."""
        path, lease = sqlite_path(self._settings.store_url), self._settings.tables.directory.lease
        if path is not None:
            lock = lock_path(path)
            watch = ProcessWatch(lambda: holder_of(lock), lambda: store.execute(Query(limit=1)), lease)
        else:
            seen: list[Holder] = []

            async def ping() -> None:
                assert self._cluster is not None
                seen[:] = [await self._cluster.store_process()]

            watch = ProcessWatch(lambda: seen[0] if seen else None, ping, lease)
        return asyncio.create_task(watch.run(), name="store-watch")

    def _start_extractors(self) -> list[asyncio.Task[None]]:
        """So that what an earlier owner left unextracted is found, also when no run ends here."""
        assert self._cluster is not None
        pool = self._cluster.extractors

        async def start() -> None:
            await asyncio.sleep(EXTRACTORS_AFTER)
            if pool is not None:
                await asyncio.to_thread(pool.start)

        return [] if pool is None else [asyncio.create_task(start(), name="extractors")]

    def _watch_directory(self, plane: RayControlPlane) -> asyncio.Task[None]:
        """The eye on the Directory, more patient: no Pod loses anything by its silence, it only starts nothing new."""
        seen: list[Holder] = []

        async def ping() -> None:
            seen[:] = [await plane.directory_process()]

        limit = DIRECTORY_SILENCE * self._settings.tables.directory.lease
        watch = ProcessWatch(lambda: seen[0] if seen else None, ping, limit)
        return asyncio.create_task(watch.run(), name="directory-watch")


def keep_log(home: Home, mode: str) -> None:
    """Warnings of this process: to stderr for `serve`, to `owner.log` in the home for `run`, whose screen is taken."""
    handler: logging.Handler
    if mode == "serve":
        handler = logging.StreamHandler()
    else:
        path = home.path / "owner.log"
        handler = logging.handlers.RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
