"""The Ray shell around a PodHost. Pod actors have no Ray restarts and no retries: supervision is the Directory's."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError

from actors.pod.beat_line import BeatLine, reach
from actors.pod.heartbeat import Heartbeat, Rhythm
from actors.pod.host import PodHost
from actors.pod.ports import HostParts, LeaseGate
from actors.protocol.alerts import KEPT, Alert
from actors.protocol.ids import Clock
from actors.protocol.tools import ChildrenError, SpawnOrder
from session_store.codec import to_plain
from session_store.items import Json
from session_store.lock import start_time

NAMESPACE = "polypod"
"""Detached actors need an explicit namespace, or nobody finds them again (FACTS)."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shell:
    """What the factory of the host's parts gets from the actor."""

    actor_id: str
    directory: RayDirectory
    gate: LeaseGate
    clock: Clock
    hint: Callable[[str], bool]
    """Have a session look at its inbox; False: it is not here. To be called on the event loop."""


@dataclass(frozen=True, slots=True)
class Built:
    """What the factory gives. `feed` feeds the tool guards and is called on the heartbeat thread; `rehearse` does once,
    before the first Pod is bound, what is slow the first time."""

    parts: HostParts
    feed: Callable[[], None]
    rehearse: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PodActorSetup:
    """How to make one: the Directory's name, the heartbeat's rhythm, and the factory that binds the real parts.

    `factory(shell)` is called in the actor's process.
    """

    directory: str
    rhythm: Rhythm
    clock: Clock
    factory: Callable[[Shell], Built]
    call_limit: float = 60.0
    """Seconds a call to the Directory may take before it counts as failed."""


class RayDirectory:
    """Implements `DirectoryPort` over the Directory actor, found by name; its handle survives its restarts."""

    def __init__(self, actor_id: str, name: str, call_limit: float) -> None:
        self._actor_id = actor_id
        self._name = name
        self._limit = call_limit
        self._known: Any = None
        self._alerts: deque[Alert] = deque(maxlen=KEPT)
        self._telling: asyncio.Task[None] | None = None
        self._line: BeatLine | None = None

    @property
    def handle(self) -> Any:
        if self._known is None:
            self._known = ray.get_actor(self._name, namespace=NAMESPACE)
        return self._known

    async def spawn(self, parent: str, order: SpawnOrder) -> str:
        reply = await self._ask(lambda: self.handle.spawn.remote(parent, to_plain(order)))
        if not reply["ok"]:
            raise ChildrenError(reply["message"])
        return str(reply["pod_id"])

    async def stop(self, session: str, by: str) -> None:
        await self._ask(lambda: self.handle.stop.remote(session, by))

    async def hint(self, sessions: tuple[str, ...]) -> None:
        self._tell(lambda: self.handle.hint.remote(list(sessions)))

    async def rested(self, session: str, epoch: int) -> None:
        self._tell(lambda: self.handle.rested.remote(session, epoch, self._actor_id))

    async def left(self, session: str, epoch: int, reason: str) -> None:
        self._tell(lambda: self.handle.left.remote(session, epoch, self._actor_id, reason))

    def alert(self, alert: Alert) -> None:
        self._alerts.append(alert)
        if self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell_alerts())

    def beat(self, held: list[dict[str, Json]], limit: float) -> dict[str, Json]:
        """Called on the heartbeat thread. Over the short road where there is one; Ray's reply says where."""
        reply: dict[str, Json]
        line, self._line = self._line, None
        if line is not None:
            with suppress(ConnectionError):  # that Directory has gone: Ray finds the next
                reply = line.beat(self._actor_id, held, limit)
                self._line = line
                return reply
        answer = self.handle.beat.remote(self._actor_id, held).future()  # a plain `get` warns in an asyncio actor
        reply = answer.result(timeout=limit)
        self._line = reach(str(reply.get("line", "")))
        return reply

    def _tell(self, call: Callable[[], Any]) -> None:
        """Fire and forget: what is lost here, the Directory's sweep and beats find."""
        try:
            call()
        except (RayActorError, ValueError):
            self._known = None

    async def _tell_alerts(self) -> None:
        """One call at a time, with all that came up since the last; the Directory knows each by its id."""
        try:
            while self._alerts:
                batch = [to_plain(alert) for alert in self._alerts]
                self._alerts.clear()
                try:
                    await self._ask(functools.partial(self._send_alerts, batch))
                except (ChildrenError, RayError) as error:
                    log.warning("%d alerts for people were not kept: %s", len(batch), error)
        finally:
            self._telling = None

    async def _send_alerts(self, batch: list[dict[str, Json]]) -> None:
        await self.handle.alert.remote(batch)

    async def _ask(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Ask, and ask again while the Directory restarts: its effects are keyed, so that is safe."""
        deadline = asyncio.get_running_loop().time() + self._limit
        wait = 0.05
        while True:
            left = deadline - asyncio.get_running_loop().time()
            try:
                return await asyncio.wait_for(call(), max(left, 0.01))
            except TimeoutError as error:
                raise ChildrenError(f"The Directory gave no answer within {self._limit:.0f} s.") from error
            except (RayActorError, ValueError) as error:
                self._known = None
                if left <= wait:
                    raise ChildrenError(f"The Directory cannot be reached: {error}") from error
            await asyncio.sleep(wait)
            wait = min(wait * 2, 1.0)


class PodActor:
    """Hosts Pods. Created detached, with `max_restarts=0` and `max_task_retries=0`, `num_cpus=0`."""

    def __init__(self, actor_id: str, setup: PodActorSetup) -> None:
        self._setup = setup
        self._loop: asyncio.AbstractEventLoop | None = None
        self._directory = RayDirectory(actor_id, setup.directory, setup.call_limit)
        self._heartbeat = Heartbeat(setup.rhythm, setup.clock, self._beat, self._feed_guards)
        self._built = setup.factory(Shell(actor_id, self._directory, self._heartbeat, setup.clock, self._look))
        self._host = PodHost(self._built.parts)
        self._rehearsed = False
        self._heartbeat.start()

    async def ping(self) -> int:
        """The process id."""
        self._loop = asyncio.get_running_loop()
        return os.getpid()

    async def place(self) -> dict[str, Json]:
        """Which process this is: `pid`, `started` (ticks since boot, so that no other is taken for it), and the node.

        The first call of all, made while no Pod waits: it also makes what is slow the first time.
        """
        self._loop = asyncio.get_running_loop()
        _step_back()
        await self._host.warm()
        if not self._rehearsed:  # a Directory that was started anew asks again
            self._rehearsed = True
            await self._built.rehearse()
        pid = os.getpid()
        return {"pid": pid, "started": start_time(pid), "node": ray.get_runtime_context().get_node_id()}

    async def bind(self, session: str, directory_epoch: int, replaces: int | None) -> dict[str, Json]:
        self._loop = asyncio.get_running_loop()
        bound = await self._host.bind(session, directory_epoch, replaces)
        return {"ok": bound.ok, "epoch": bound.epoch, "code": bound.code, "message": bound.message}

    async def unbind(self, session: str) -> dict[str, Json]:
        parked, reason = await self._host.unbind(session)
        return {"parked": parked, "reason": reason, "clean": not self._host.tainted, "tainted": self._host.tainted}

    async def drop(self, session: str, reason: str) -> None:
        await self._host.drop(session, reason)

    async def hint(self, sessions: list[str]) -> list[str]:
        """Those that are not held here."""
        return self._host.hint(sessions)

    async def watch(self, session: str, cursor: int, wait: float) -> dict[str, Json]:
        generation, reached, events = await self._host.watch(session, cursor, wait)
        return {"generation": generation, "cursor": reached, "events": [to_plain(e) for e in events]}

    async def held(self) -> dict[str, Json]:
        return {"held": self._held(), "bindings": self._host.bindings, "tainted": self._host.tainted}

    async def serve(self) -> None:
        """Never returns: whoever awaits it learns of this process's death at once."""
        self._loop = asyncio.get_running_loop()
        await asyncio.Event().wait()

    def _look(self, session: str) -> bool:
        return not self._host.hint((session,))

    def _held(self) -> list[dict[str, Json]]:
        return [{"session": h.session, "epoch": h.epoch, "resting": h.resting} for h in self._host.held()]

    def _feed_guards(self) -> None:
        self._built.feed()

    def _beat(self) -> None:
        reply = self._directory.beat(self._held(), self._setup.rhythm.lease)
        drop = reply.get("drop") or ()
        if drop and self._loop is not None:
            for session in drop:
                asyncio.run_coroutine_threadsafe(self._host.drop(session, "the Directory says so"), self._loop)


def _step_back() -> None:
    """Have this process's main thread interrupt nobody when it wakes (Linux).

    Ray's main thread wakes 100 times a second to look for signals, in every actor. With 100 of them that threw the
    caches of whoever worked away 10,000 times a second: 12 % of the CPU of 100 sessions at once. Calls that it hands on
    wait for a scheduler's tick at most.
    """
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):  # a stricter system: it is slower there
            os.sched_setscheduler(os.getpid(), os.SCHED_BATCH, os.sched_param(0))
