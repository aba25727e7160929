"""The limits actor: one per cluster (or home), the shared state behind `RemoteLimits`.

It is restarted by Ray without limit. Its state is in memory: after a restart holders of grants come back with their
next renewal, waiting ones with their next ask; what was spent in the last minute is forgotten, and a provider's own
refusals then slow the key down.
"""

from __future__ import annotations

from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from actors.models.limits_client import Call, LimitsUnavailable, LocalLimits, RemoteLimits, serve
from session_store.items import Json

_MAX_WAITING = 10_000


class LimitsActor:
    """Every waiting ask is one call under way."""

    def __init__(self) -> None:
        self._limits = LocalLimits()

    async def call(self, method: str, arguments: dict[str, Json]) -> Json:
        return await serve(self._limits, method, arguments)


def start(name: str, namespace: str, detached: bool = True) -> RemoteLimits:
    """The actor of that name, started if there is none yet."""
    options = {"name": name, "namespace": namespace, "get_if_exists": True, "num_cpus": 0}
    if detached:
        options["lifetime"] = "detached"
    actor = ray.remote(LimitsActor).options(
        **options, max_restarts=-1, max_task_retries=0, max_concurrency=_MAX_WAITING
    )
    return RemoteLimits(caller(actor.remote()))


def connect(name: str, namespace: str) -> RemoteLimits:
    """The actor of that name. Raises `ValueError` if there is none."""
    return RemoteLimits(caller(ray.get_actor(name, namespace=namespace)))


def caller(handle: Any) -> Call:
    async def call(method: str, arguments: dict[str, Json]) -> Json:
        try:
            return await handle.call.remote(method, arguments)
        except RayTaskError:
            raise  # a fault in the actor's own code
        except RayActorError as error:
            raise LimitsUnavailable(type(error).__name__) from None

    return call
