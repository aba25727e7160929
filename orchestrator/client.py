"""`ControlPlane` over the Directory, the store and the PodActors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import ray
from ray.exceptions import RayActorError

from actors.models.limits import model_of
from actors.models.limits_actor import NAME as LIMITS
from actors.models.limits_actor import named_limits
from actors.models.limits_client import LimitsUnavailable
from actors.pod.actor import NAMESPACE
from actors.protocol.alerts import Alert
from actors.protocol.live import LiveEvent
from orchestrator.directory.actor import NAME as DIRECTORY
from orchestrator.ports import AlertBatch, ControlPlaneError, LiveBatch, NewPod, NewPodReply
from session_store.codec import from_plain, to_plain
from session_store.errors import ConditionFailed, StoreDamaged, StoreUnavailable, UnknownSession
from session_store.items import Json
from session_store.lock import Holder
from session_store.messages import Message
from session_store.requests import AsyncStore, Deliver

PATIENCE = 15.0
"""Seconds a call is repeated for while the Directory restarts."""
ANSWER_LIMIT = 60.0
"""Seconds one answer of the Directory may take; the longest, a stop of a deep tree, is bounded well below."""
FIRST_WAIT = 0.05
LONGEST_WAIT = 1.0
LIMITS_WAIT = 1.0
"""Seconds that the limits are waited for; their figures are left out rather than wait longer."""
STOP_SEEN = 1.0
"""Seconds that `stop` waits to see the Pod ended before it says `stopping`."""
_CODES = {
    "unknown_session": "not-found",
    "not-found": "not-found",
    "store_damaged": "store-damaged",
    "limit": "limit",
    "name_taken": "name_taken",
}


class RayControlPlane:
    """Implements `ControlPlane`. One for a process; on an event loop."""

    def __init__(self, store: AsyncStore, directory: str = DIRECTORY) -> None:
        self._store = store
        self._limits = named_limits(LIMITS, NAMESPACE)
        self._name = directory
        self._directory: Any = None
        self._actors: dict[str, tuple[Any, int]] = {}
        self._stops: set[asyncio.Task[Any]] = set()

    @property
    def store(self) -> AsyncStore:
        return self._store

    async def create(self, new: NewPod) -> NewPodReply:
        plain = to_plain(new)
        reply = _good(await self._ask(lambda d: d.create_root.remote(plain)))
        return NewPodReply(str(reply["pod_id"]), bool(reply["existed"]))

    async def hint(self, sessions: tuple[str, ...]) -> None:
        try:
            self._handle().hint.remote(list(sessions))
        except (RayActorError, ValueError):
            self._directory = None  # the sweep finds them

    async def stop(self, pod_id: str, by: str, reason: str) -> Literal["ended", "stopping"]:
        order = Message(f"stop:{pod_id}", "stop", by, {"reason": reason})
        try:
            told = await self._store.execute(Deliver(pod_id, order))
            if told.status == "ended":  # by the same order, given before
                return "ended"
        except ConditionFailed as error:
            if error.reason != "ended":
                raise
            return "ended"
        except UnknownSession as error:
            raise ControlPlaneError("not-found", f"There is no Pod with the id {pod_id}.") from error
        task = asyncio.ensure_future(self._ask(lambda d: d.stop.remote(pod_id, by)))
        self._stops.add(task)
        task.add_done_callback(self._stop_over)
        done, _ = await asyncio.wait([task], timeout=STOP_SEEN)
        return "ended" if done and _good(task.result())["ended"] else "stopping"

    async def watch(self, pod_id: str, cursor: int, wait: float) -> LiveBatch:
        known = self._actors.get(pod_id)
        if known is None:
            known = await self._find(pod_id, wait)
            if known is None:
                return LiveBatch(0, 0)
            self._actors[pod_id] = known
        try:
            told = await known[0].watch.remote(pod_id, cursor, wait)
        except RayActorError:
            self._actors.pop(pod_id, None)
            return LiveBatch(0, 0)
        if not told["generation"]:
            self._actors.pop(pod_id, None)
            return LiveBatch(0, 0)
        live: Any = tuple[LiveEvent, ...]
        events: tuple[LiveEvent, ...] = from_plain(live, told["events"])
        return LiveBatch(int(told["generation"]), int(told["cursor"]), events)

    async def alerts(self, pod_id: str | None, after: int, wait: float) -> AlertBatch:
        told = await self._ask(lambda d: d.alerts.remote(pod_id, after, wait))
        return AlertBatch(int(told["cursor"]), tuple(from_plain(Alert, alert) for alert in told["alerts"]))

    async def status(self) -> dict[str, Json]:
        top = await self._ask(lambda d: d.top.remote())
        limits = await self._limits_figures()
        live = sum(top["pods"].get(phase, 0) for phase in ("binding", "live", "parking"))
        nodes = len([n for n in ray.nodes() if n["Alive"]])
        return {**top, "ready": True, "live": live, "nodes": nodes, "limits": limits}

    async def _limits_figures(self) -> dict[str, Json]:
        """`{"under_way", "waiting"}` by the provider's model; none without a model that has limits."""
        try:
            async with asyncio.timeout(LIMITS_WAIT):
                figures = await self._limits.figures()
        except (LimitsUnavailable, TimeoutError):
            return {}
        told: dict[str, Json] = {}
        for key, (under_way, waiting) in figures.items():
            one = told.setdefault(model_of(key), {"under_way": 0, "waiting": 0})
            one["under_way"] += under_way
            one["waiting"] += waiting
        return told

    async def directory_process(self) -> Holder:
        """The process that the Directory is now."""
        pid, started = await self._ask(lambda d: d.process.remote())
        return Holder(int(pid), str(started))

    async def adopt_root(self, root: str) -> None:
        """Have an embedded home go on with this tree too."""
        await self._ask(lambda d: d.adopt_root.remote(root))

    async def _find(self, pod_id: str, wait: float) -> tuple[Any, int] | None:
        found = await self._ask(lambda d: d.where.remote(pod_id, 0, wait))
        if found["blocked"] is not None:
            raise StoreDamaged(found["blocked"], session=pod_id)
        if found["actor"] is None:
            return None
        try:
            return ray.get_actor(found["actor"], namespace=NAMESPACE), int(found["generation"])
        except ValueError:
            return None  # it died just now

    def _handle(self) -> Any:
        if self._directory is None:
            self._directory = ray.get_actor(self._name, namespace=NAMESPACE)
        return self._directory

    async def _ask(self, call: Callable[[Any], Awaitable[Any]]) -> Any:
        """Everything asked of the Directory may be asked twice."""
        loop = asyncio.get_running_loop()
        deadline, wait = loop.time() + PATIENCE, FIRST_WAIT
        while True:
            try:
                return await asyncio.wait_for(call(self._handle()), ANSWER_LIMIT)
            except TimeoutError as error:
                raise StoreUnavailable(f"The Directory gave no answer for {ANSWER_LIMIT:g} s.") from error
            except (RayActorError, ValueError) as error:
                self._directory = None
                if loop.time() + wait > deadline:
                    raise StoreUnavailable(f"The Directory cannot be reached: {type(error).__name__}") from error
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def _stop_over(self, task: asyncio.Task[Any]) -> None:
        self._stops.discard(task)
        if not task.cancelled():
            task.exception()  # told to who waited; the stop is durable, and the sweep goes on with it


def _good(reply: dict[str, Json]) -> dict[str, Json]:
    if reply["ok"]:
        return reply
    if reply["code"] == "store":
        raise StoreUnavailable(reply["message"])
    raise ControlPlaneError(_CODES.get(reply["code"], "invalid"), reply["message"])
