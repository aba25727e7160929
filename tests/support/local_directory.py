"""The Directory without Ray: its service over PodHosts in this process that can be killed, frozen and cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from actors.pod.host import PodHost
from actors.protocol.alerts import Alert
from actors.protocol.config import ModelSpec
from actors.protocol.ids import uuid7
from actors.protocol.tools import ChildrenError, SpawnOrder
from actors.tools.guard import GuardPool
from actors.tools.registry import build_toolbox
from orchestrator.directory import facts as at
from orchestrator.directory.orders import OrderFailed, Orders
from orchestrator.directory.ports import Death, Found, HostGone
from orchestrator.directory.roots import RootsFile
from orchestrator.directory.service import DirectoryService
from orchestrator.directory.settings import DirectorySettings
from orchestrator.pods import PodFactory
from orchestrator.ports import NewPod
from orchestrator.runtime import ProfileSpec, RuntimeSettings
from session_store.backends.memory import MemoryStore
from session_store.codec import decode_entry, entry_json
from session_store.entries import LogEntry, ToolSpec
from session_store.errors import StoreDamaged, StoreUnavailable
from session_store.items import Json, Segment
from session_store.local import LocalStore
from session_store.messages import USER, Message
from session_store.requests import Deliver, PodRow, Query, Read, ReplyT, Request
from tests.support.local_pods import LocalParts, NoChildren, SystemClock

QUICK = DirectorySettings(
    warm_pool=1,
    park_after=0.4,
    lease=0.4,
    sweep=0.05,
    spawn_timeout=2.0,
    stop_timeout=1.0,
    unbind_timeout=0.5,
    restart_delay=0.02,
    max_restarts=3,
)


class CountingIds:
    def __init__(self) -> None:
        self._count = count(1)

    def session(self) -> str:
        return uuid7(SystemClock().now_ms(), f"s{next(self._count)}".encode())

    def token(self) -> str:
        return f"t{next(self._count)}"


class Wire:
    """An actor's way to the store: cut when its process is killed. Logs of `damaged` sessions cannot be read."""

    def __init__(self, store: LocalStore, damaged: set[str]) -> None:
        self._store = store
        self._damaged = damaged
        self.cut = False

    async def execute(self, request: Request[ReplyT]) -> ReplyT:
        await asyncio.sleep(0)
        if self.cut:
            await asyncio.Event().wait()
        if isinstance(request, Read) and request.session in self._damaged:
            raise StoreDamaged("entry 3: wrong checksum", session=request.session, seq=3)
        return await self._store.execute(request)


@dataclass(eq=False)
class LocalActor:
    """One process. `deaf`: it answers no calls; `frozen`: no calls and no heartbeats."""

    actor_id: str
    host: PodHost
    wire: Wire
    dead: asyncio.Future[Death]
    frozen: bool = False
    deaf: bool = False
    beats: asyncio.Task[None] | None = None


@dataclass
class LocalHosts:
    """Implements `Hosts`."""

    world: LocalWorld
    actors: dict[str, LocalActor] = field(default_factory=dict)
    starts: int = 0
    broken_starts: int = 0
    poison: set[str] = field(default_factory=set)
    """Sessions whose bind kills the process."""

    async def start(self, actor_id: str) -> None:
        await asyncio.sleep(0)
        self.starts += 1
        if self.broken_starts:
            self.broken_starts -= 1
            raise HostGone("it broke at its start")
        self.actors[actor_id] = self.world.actor(actor_id)

    async def bind(self, actor_id: str, session: str, directory_epoch: int, replaces: int) -> dict[str, Json]:
        actor = await self._reach(actor_id)
        if session in self.poison:
            self.crash(actor_id, "poison")
            raise HostGone("it died")
        bound = await self._while_alive(actor, actor.host.bind(session, directory_epoch, replaces))
        return {"ok": bound.ok, "epoch": bound.epoch, "code": bound.code, "message": bound.message}

    async def unbind(self, actor_id: str, session: str) -> dict[str, Json]:
        actor = await self._reach(actor_id)
        parked, reason = await self._while_alive(actor, actor.host.unbind(session))
        return {"parked": parked, "reason": reason, "clean": not actor.host.tainted}

    async def drop(self, actor_id: str, session: str, reason: str) -> bool:
        actor = await self._reach(actor_id)
        await self._while_alive(actor, actor.host.drop(session, reason))
        return all(h.session != session for h in actor.host.held())

    async def hint(self, actor_id: str, sessions: tuple[str, ...]) -> list[str]:
        actor = await self._reach(actor_id)
        return actor.host.hint(sessions)

    async def death(self, actor_id: str) -> Death:
        return await asyncio.shield(self.actors[actor_id].dead)

    async def kill(self, actor_id: str) -> bool:
        if actor_id in self.actors:
            self.crash(actor_id, "killed")
        return True

    async def found(self) -> tuple[Found, ...]:
        return tuple(
            Found(a.actor_id, tuple(holdings(a.host)), a.host.bindings, bool(a.host.tainted))
            for a in self.actors.values()
            if not a.dead.done()
        )

    def alone(self) -> bool:
        return self.world.alone

    def crash(self, actor_id: str, cause: str = "killed by the test") -> None:
        """kill -9: nothing of the process writes, answers or reports any more."""
        actor = self.actors[actor_id]
        if actor.dead.done():
            return
        actor.wire.cut = actor.frozen = True
        if actor.beats is not None:
            actor.beats.cancel()
        actor.dead.set_result(Death(cause, proven=True))
        for run in list(actor.host._runs.values()):
            run.cancel()

    async def _reach(self, actor_id: str) -> LocalActor:
        await asyncio.sleep(0)
        actor = self.actors.get(actor_id)
        if actor is None or actor.dead.done():
            raise HostGone("it is dead")
        if actor.frozen or actor.deaf:
            await asyncio.shield(actor.dead)
            raise HostGone("it died")
        return actor

    async def _while_alive(self, actor: LocalActor, work: Any) -> Any:
        task = asyncio.ensure_future(work)
        await asyncio.wait([task, actor.dead], return_when=asyncio.FIRST_COMPLETED)
        if actor.dead.done():
            task.cancel()
            raise HostGone("it died")
        return task.result()


class ToDirectory:
    """Implements `DirectoryPort` for one actor."""

    def __init__(self, world: LocalWorld, actor_id: str) -> None:
        self._world = world
        self._actor_id = actor_id

    @property
    def _mute(self) -> bool:
        actor = self._world.hosts.actors.get(self._actor_id)
        return actor is not None and actor.frozen

    async def spawn(self, parent: str, order: SpawnOrder) -> str:
        try:
            return await self._world.orders.spawn(parent, order)
        except OrderFailed as error:
            raise ChildrenError(error.message) from error

    async def hint(self, sessions: tuple[str, ...]) -> None:
        if not self._mute and not self._world.lose_hints:
            self._world.service.feed(at.Hinted(sessions))

    async def stop(self, session: str, by: str) -> None:
        await self._world.orders.stop(session)

    async def rested(self, session: str, epoch: int) -> None:
        if not self._mute:
            self._world.service.feed(at.Rested(session, epoch, self._actor_id))

    async def left(self, session: str, epoch: int, reason: str) -> None:
        if not self._mute:
            self._world.service.feed(at.Left(session, epoch, self._actor_id, reason))

    def alert(self, alert: Alert) -> None:
        if not self._mute:
            self._world.service.alerts.add((alert,))


class LocalWorld:
    """A whole control plane in one process, over the memory store."""

    def __init__(
        self,
        folder: Path,
        lines: Sequence[Mapping[str, Json]] = (),
        settings: DirectorySettings = QUICK,
        profiles: Mapping[str, ProfileSpec] | None = None,
    ) -> None:
        self.folder = folder.resolve()
        self.lines = lines
        self.memory = MemoryStore(SystemClock().now_ms)
        self.store = LocalStore(self.memory)
        self.settings = settings
        self.hosts = LocalHosts(self)
        self.runtime = RuntimeSettings(
            models={"scripted": ModelSpec("scripted", "scripted")},
            profiles=profiles or {},
            directory=settings,
            workspace=str(self.folder),
            memory_root=str(self.folder / "memory"),
            default_model="scripted",
        )
        self.alone = True
        self.lose_hints = False
        self.damaged: set[str] = set()
        self.ids = CountingIds()
        self.roots: RootsFile | None = None
        self._new_service()

    def _new_service(self) -> None:
        self.service = DirectoryService(self.store, self.hosts, self.settings, SystemClock(), self.roots)
        self.orders = Orders(self.service, PodFactory(self.runtime, tool_specs), self.ids)

    def actor(self, actor_id: str) -> LocalActor:
        wire = Wire(self.store, self.damaged)
        parts = LocalParts(wire, self.lines, self.folder)  # type: ignore[arg-type]
        parts.directory = ToDirectory(self, actor_id)  # type: ignore[assignment]
        actor = LocalActor(actor_id, PodHost(parts), wire, asyncio.get_running_loop().create_future())
        actor.beats = asyncio.get_running_loop().create_task(self._beat(actor))
        return actor

    async def _beat(self, actor: LocalActor) -> None:
        while True:
            if not actor.frozen:
                try:
                    drop = self.service.beat(actor.actor_id, tuple(holdings(actor.host)))
                except LookupError:
                    drop = []
                for session in drop:
                    await actor.host.drop(session, "the Directory says so")
            await asyncio.sleep(0.05)

    async def start(self, roots: set[str] | None = None) -> None:
        if roots is not None:
            self.roots = RootsFile(self.folder / "roots")
            self.roots.begin(frozenset(roots))
            self._new_service()
        await self.service.start()

    async def restart_directory(self) -> None:
        """The Directory's process dies and another takes its place."""
        await self.service.close()
        self._new_service()
        await self.service.start()

    async def create(self, prompt: str | None, **fields: Any) -> str:
        segments = () if prompt is None else (Segment("text", prompt),)
        new = NewPod(fields.pop("tenant", "default"), self.ids.token(), segments)
        return (await self.orders.create_root(replace(new, **fields))).pod_id

    async def deliver(self, session: str, message: Message, hint: bool = True) -> None:
        await self.store.execute(Deliver(session, message))
        if hint:
            self.service.feed(at.Hinted((session,)))

    async def send(self, session: str, text: str, hint: bool = True) -> None:
        body = {"segments": [{"type": "text", "text": text}]}
        await self.deliver(session, Message(self.ids.token(), "prompt", USER, body), hint)

    async def row(self, session: str) -> PodRow:
        return (await self.store.execute(Query(ids=(session,)))).rows[0]

    async def children(self, session: str) -> list[PodRow]:
        return list((await self.store.execute(Query(parent=session, limit=1000))).rows)

    async def log(self, session: str) -> list[LogEntry]:
        found = await self.store.execute(Read(session))
        return [decode_entry(e.body, e.seq, e.ts) for e in found.entries]

    async def story(self, session: str) -> list[dict[str, Json]]:
        return [entry_json(e) for e in await self.log(session)]

    async def events(self, session: str) -> list[dict[str, Json]]:
        """PodEvents in the session's log."""
        items = [i for e in await self.story(session) if e["type"] == "system_items" for i in e["items"]]
        return [i["payload"]["event"] for i in items if i["kind"] == "pod_event"]

    def actor_of(self, session: str) -> str | None:
        return self.service.where(session)[0]

    async def until(self, what: Any, limit: float = 8.0) -> Any:
        """Wait until `what()` (awaited if needed) is true; its value."""
        deadline = asyncio.get_running_loop().time() + limit
        while True:
            found = what()
            found = await found if asyncio.iscoroutine(found) else found
            if found:
                return found
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"it did not come to that: {self.service.table}")
            await asyncio.sleep(0.01)

    async def until_status(self, session: str, *statuses: str, limit: float = 8.0) -> PodRow:
        async def there() -> PodRow | None:
            row = await self.row(session)
            return row if row.status in statuses else None

        row: PodRow = await self.until(there, limit)
        return row

    async def close(self) -> None:
        await self.service.close()
        for actor in self.hosts.actors.values():
            if actor.beats is not None:
                actor.beats.cancel()
            if not actor.dead.done():
                await actor.host.close()


def holdings(host: PodHost) -> list[at.Holding]:
    return [at.Holding(h.session, h.epoch, h.resting) for h in host.held()]


def tool_specs(names: tuple[str, ...]) -> tuple[ToolSpec, ...]:
    return build_toolbox(names, NoChildren(), GuardPool(lease=4.0)).specs


class DownStore(LocalStore):
    """A store that gives no answer while `down`."""

    down = False

    async def execute(self, request: Request[ReplyT]) -> ReplyT:
        if self.down:
            raise StoreUnavailable("down")
        return await super().execute(request)
