"""The Ray shell of the Directory: a detached, named actor that Ray restarts without limit, over the service."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from actors.pod.actor import NAMESPACE, PodActor, PodActorSetup
from actors.protocol.alerts import Alert
from actors.protocol.ids import Clock, Ids
from actors.protocol.tools import ALL_TOOLS, SpawnOrder
from orchestrator.directory import facts as at
from orchestrator.directory.beats import BeatServer
from orchestrator.directory.orders import OrderFailed, Orders
from orchestrator.directory.ports import Death, Found, HostGone
from orchestrator.directory.roots import RootsFile
from orchestrator.directory.service import DirectoryService
from orchestrator.pods import PodFactory, ToolCatalogue
from orchestrator.ports import NewPod
from orchestrator.runtime import RuntimeSettings
from session_store.codec import from_plain, prepare, to_plain
from session_store.errors import StoreError
from session_store.items import Json
from session_store.lock import start_time
from session_store.requests import AsyncStore

NAME = "directory"
PREFIX = "pod-"
MAX_CALLS = 10_000
"""Calls under way at one time: every spawn and every waiting `where` is one."""
GONE_WAIT = 1.0
"""Seconds that a killed process on this node has to vanish."""
PROBE_LIMIT = 5.0
"""Seconds that an actor of an earlier Directory has to say what it holds."""
START_TRIES = 5

ReplyT = TypeVar("ReplyT")

log = logging.getLogger("polypod.directory")


@dataclass(frozen=True, slots=True)
class DirectorySetup:
    """Everything the actor is made of; goes to it by pickle, so `store`, `specs`, `clock`, `ids`, `alone` and the
    factory in `pods` are functions and classes of modules.

    `roots` None: all trees of the home go on here. `alone()`: whether it is certain that no Pod process of an earlier
    owner lives (asked once, before the first is started). `digest`: which settings these are.
    """

    settings: RuntimeSettings
    pods: PodActorSetup
    store: Callable[[], AsyncStore]
    specs: ToolCatalogue
    clock: Clock
    ids: Ids
    alone: Callable[[], bool]
    roots: RootsFile | None = None
    digest: str = ""


@dataclass(slots=True)
class _Process:
    handle: Any
    place: dict[str, Json] = field(default_factory=dict)


class RayHosts:
    """Implements `Hosts` with one detached PodActor each. Death is certain when the process is gone from this node, or
    when Ray saw a process die that nobody killed through Ray (what Ray says after a kill is no proof: FACTS)."""

    def __init__(self, setup: PodActorSetup, alone: Callable[[], bool]) -> None:
        self._setup = setup
        self._is_alone = alone
        self._known: dict[str, _Process] = {}
        self._remote = ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)(PodActor)

    async def start(self, actor_id: str) -> None:
        options = {"name": PREFIX + actor_id, "namespace": NAMESPACE, "lifetime": "detached"}
        try:
            process = _Process(self._remote.options(**options).remote(actor_id, self._setup))
            self._known[actor_id] = process
            process.place = await process.handle.place.remote()
        except (RayError, ValueError) as error:
            raise HostGone(_first_line(error)) from error

    async def bind(self, actor_id: str, session: str, directory_epoch: int, replaces: int) -> dict[str, Json]:
        try:
            return await self._ask(actor_id, lambda h: h.bind.remote(session, directory_epoch, replaces))
        except RayTaskError as error:
            return {"ok": False, "code": "host", "message": _first_line(error.cause or error)}

    async def unbind(self, actor_id: str, session: str) -> dict[str, Json]:
        try:
            return await self._ask(actor_id, lambda h: h.unbind.remote(session))
        except RayTaskError as error:
            return {"parked": False, "clean": False, "reason": _first_line(error)}

    async def drop(self, actor_id: str, session: str, reason: str) -> bool:
        try:
            await self._ask(actor_id, lambda h: h.drop.remote(session, reason))
            held = await self._ask(actor_id, lambda h: h.held.remote())
        except RayTaskError:
            return False
        return all(h["session"] != session for h in held["held"])

    async def hint(self, actor_id: str, sessions: tuple[str, ...]) -> list[str]:
        try:
            return await self._ask(actor_id, lambda h: h.hint.remote(list(sessions)))
        except RayTaskError:
            return []  # the sweep finds the messages

    async def death(self, actor_id: str) -> Death:
        process = self._known[actor_id]
        try:
            await process.handle.serve.remote()
            cause = "it ended by itself"
        except RayError as error:
            cause = _first_line(error)
        self._known.pop(actor_id, None)
        if self._is_here(process):
            return Death(cause, await self._vanish(process))
        return Death(cause, proven="node" not in cause.lower())

    async def kill(self, actor_id: str) -> bool:
        process = self._known.pop(actor_id, None)
        if process is None:
            try:
                process = _Process(ray.get_actor(PREFIX + actor_id, namespace=NAMESPACE))
            except ValueError:
                return True
        here = self._is_here(process)
        gone = await self._vanish(process) if here else False
        ray.kill(process.handle, no_restart=True)
        return gone or not process.place  # one that never answered was never bound

    async def found(self) -> tuple[Found, ...]:
        listed = await asyncio.to_thread(ray.util.list_named_actors, all_namespaces=True)
        names = [a["name"] for a in listed if a["namespace"] == NAMESPACE and a["name"].startswith(PREFIX)]
        answers = await asyncio.gather(*(self._probe(name) for name in names))
        return tuple(a for a in answers if a is not None)

    def alone(self) -> bool:
        return self._is_alone()

    async def _probe(self, name: str) -> Found | None:
        actor_id = name.removeprefix(PREFIX)
        try:
            process = _Process(ray.get_actor(name, namespace=NAMESPACE))
            self._known[actor_id] = process
            async with asyncio.timeout(PROBE_LIMIT):
                process.place = await process.handle.place.remote()
                told: dict[str, Json] = await process.handle.held.remote()
        except ValueError:
            return None
        except (RayError, TimeoutError):
            await self.kill(actor_id)
            return None
        return Found(actor_id, tuple(holdings(told["held"])), int(told["bindings"]), bool(told["tainted"]))

    async def _ask(self, actor_id: str, call: Callable[[Any], Awaitable[ReplyT]]) -> ReplyT:
        process = self._known.get(actor_id)
        if process is None:
            raise HostGone(f"actor {actor_id} is gone")
        try:
            return await call(process.handle)
        except RayActorError as error:
            raise HostGone(_first_line(error)) from error

    def _is_here(self, process: _Process) -> bool:
        here: str = ray.get_runtime_context().get_node_id()
        return process.place.get("node") == here

    async def _vanish(self, process: _Process) -> bool:
        """See to it that the process is gone from this node."""
        pid, started = int(process.place["pid"]), process.place["started"]
        deadline = asyncio.get_running_loop().time() + GONE_WAIT
        while start_time(pid) == started:
            if asyncio.get_running_loop().time() > deadline:
                return False
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return True
            await asyncio.sleep(0.001)
        return True


class DirectoryActor:
    """The methods that Pods, gateways and the command line call. Plain data in and out; refusals are data."""

    def __init__(self, setup: DirectorySetup) -> None:
        prepare()
        setup.specs(ALL_TOOLS)  # made once for a process, before anyone waits for it
        self._digest = setup.digest
        hosts = RayHosts(setup.pods, setup.alone)
        directory = setup.settings.directory
        self._service = DirectoryService(setup.store(), hosts, directory, setup.clock, setup.roots)
        self._orders = Orders(self._service, PodFactory(setup.settings, setup.specs), setup.ids)
        self._beats, self._line = BeatServer(self._beaten), ""
        self._started = asyncio.get_running_loop().create_task(self._start())

    async def ready(self) -> int:
        """The Directory's epoch, once it knows what there is."""
        await asyncio.shield(self._started)
        return self._service.table.epoch

    async def spawn(self, parent: str, order: dict[str, Json]) -> dict[str, Json]:
        """`{"ok": True, "pod_id"}` once the child has committed its task, else `{"ok": False, "code", "message"}`."""
        await self.ready()
        return await _answered(self._orders.spawn(parent, from_plain(SpawnOrder, order)), lambda pod: {"pod_id": pod})

    async def create_root(self, new: dict[str, Json]) -> dict[str, Json]:
        """`{"ok": True, "pod_id", "existed"}` once durable, else `{"ok": False, "code", "message"}`."""
        await self.ready()
        work = self._orders.create_root(from_plain(NewPod, new))
        return await _answered(work, lambda made: {"pod_id": made.pod_id, "existed": made.existed})

    async def hint(self, sessions: list[str]) -> None:
        await self.ready()
        self._service.feed(at.Hinted(tuple(sessions)))

    async def stop(self, session: str, by: str) -> dict[str, Json]:
        """See a Pod and what is below it ended; its stop message is durable already. `{"ok": True, "ended"}`."""
        await self.ready()
        return await _answered(self._orders.stop(session), lambda ended: {"ended": ended})

    async def rested(self, session: str, epoch: int, actor_id: str) -> None:
        await self.ready()
        self._service.feed(at.Rested(session, epoch, actor_id))

    async def left(self, session: str, epoch: int, actor_id: str, reason: str) -> None:
        await self.ready()
        self._service.feed(at.Left(session, epoch, actor_id, reason))

    async def beat(self, actor_id: str, held: list[dict[str, Json]]) -> dict[str, Json]:
        """A heartbeat; the reply names the short road for the next (`beats`). Raises for an actor that is not this
        Directory's: such a one gets no lease."""
        await self.ready()
        return {"ok": True, "drop": self._beaten(actor_id, held), "line": self._line}

    async def adopt_root(self, root: str) -> None:
        await self.ready()
        self._service.adopt_root(root)

    async def where(self, session: str, generation: int = 0, wait: float = 0.0) -> dict[str, Json]:
        """`{"actor": name or None, "generation", "blocked"}`; waits up to `wait` s for another generation than the one
        given. `blocked`: why this session is not started here (its log is damaged), or None."""
        await self.ready()
        actor_id, found = self._service.where(session)
        if found == generation and wait > 0:
            with self._service.next_move(session) as moved:
                await asyncio.wait([moved], timeout=wait)
            actor_id, found = self._service.where(session)
        actor = None if actor_id is None else PREFIX + actor_id
        return {"actor": actor, "generation": found, "blocked": self._service.table.blocked.get(session)}

    async def alert(self, alerts: list[dict[str, Json]]) -> None:
        """Keep alerts of Pods."""
        await self.ready()
        self._service.alerts.add(from_plain(Alert, alert) for alert in alerts)

    async def alerts(self, pod_id: str | None, after: int, wait: float) -> dict[str, Json]:
        """`{"cursor", "alerts"}` as in `AlertBook.since`; waits up to `wait` s for one."""
        await self.ready()
        book = self._service.alerts
        await book.wait(after, pod_id, wait)
        cursor, alerts = book.since(after, pod_id)
        return {"cursor": cursor, "alerts": [to_plain(alert) for alert in alerts]}

    async def process(self) -> tuple[int, str]:
        """The process id and its start time, also while the Directory is not ready yet."""
        return os.getpid(), start_time(os.getpid())

    async def digest(self) -> str:
        """Which settings this was started with, also while the Directory is not ready yet."""
        return self._digest

    async def top(self) -> dict[str, Json]:
        """What there is: actors, Pods by phase, what was given up, the latest alerts."""
        await self.ready()
        return self._service.top()

    def _beaten(self, actor_id: str, held: list[dict[str, Json]]) -> list[str]:
        return self._service.beat(actor_id, tuple(holdings(held)))

    async def _start(self) -> None:
        """Ray starts the process anew when this fails for good."""
        for tries_left in reversed(range(START_TRIES)):
            try:
                await self._service.start()
                self._line = await self._beats.start()
                return
            except Exception as error:
                # Whatever it is: one that lives and never gets ready would keep every Pod waiting for ever.
                if not tries_left or not isinstance(error, StoreError):
                    log.exception("the Directory cannot start: it ends, and Ray starts it anew")
                    os._exit(1)


def start_directory(setup: DirectorySetup, name: str = NAME) -> Any:
    """The handle of the Directory of that name, started if it is not there."""
    remote = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0)(DirectoryActor)
    return remote.options(
        name=name, namespace=NAMESPACE, lifetime="detached", get_if_exists=True, max_concurrency=MAX_CALLS
    ).remote(setup)


def holdings(held: list[dict[str, Json]]) -> list[at.Holding]:
    return [at.Holding(str(h["session"]), int(h["epoch"]), h["resting"]) for h in held]


async def _answered(work: Awaitable[ReplyT], fields: Callable[[ReplyT], dict[str, Json]]) -> dict[str, Json]:
    try:
        return {"ok": True, **fields(await work)}
    except OrderFailed as error:
        return {"ok": False, "code": error.code, "message": error.message}


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"
