"""The limits actor: one per cluster (or home), the shared state behind `RemoteLimits`.

It is restarted by Ray without limit. Its state is in memory: after a restart holders of grants come back with their
next renewal, waiting ones with their next ask; what was spent in the last minute is forgotten, and a provider's own
refusals then slow the key down.
"""

from __future__ import annotations

import os
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError

from actors.models.limits_client import Call, LimitsUnavailable, LocalLimits, RemoteLimits, serve
from session_store.items import Json

NAME = "limits"
_MAX_WAITING = 10_000


class LimitsActor:
    """Every waiting ask is one call under way."""

    def __init__(self) -> None:
        self._limits = LocalLimits()

    async def call(self, method: str, arguments: dict[str, Json]) -> Json:
        """See `limits_client.serve`."""
        return await serve(self._limits, method, arguments)

    async def pid(self) -> int:
        """The process that holds the state."""
        return os.getpid()


def start_limits(name: str, namespace: str | None = None, detached: bool = True) -> RemoteLimits:
    """The limits behind the actor of that name, started if it is not there."""
    actor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0, max_concurrency=_MAX_WAITING)(LimitsActor)
    lifetime = "detached" if detached else None
    handle = actor.options(name=name, namespace=namespace, lifetime=lifetime, get_if_exists=True).remote()
    return RemoteLimits(_caller(name, namespace, handle))


def named_limits(name: str, namespace: str | None = None) -> RemoteLimits:
    """The limits behind the actor of that name, looked up at the first call."""
    return RemoteLimits(_caller(name, namespace, None))


def _caller(name: str, namespace: str | None, handle: Any) -> Call:
    """Keeps the handle (one that is not detached lives as long) and looks the actor up again when a call fails."""

    async def call(method: str, arguments: dict[str, Json]) -> Json:
        nonlocal handle
        try:
            if handle is None:
                handle = ray.get_actor(name, namespace=namespace)
            return await handle.call.remote(method, arguments)
        except ValueError as error:  # nobody has that name
            raise LimitsUnavailable(str(error)) from None
        except RayTaskError:
            raise  # a fault in the actor's own code
        except ActorUnavailableError as error:
            raise LimitsUnavailable(type(error).__name__) from None
        except RayActorError as error:
            handle = None
            raise LimitsUnavailable(type(error).__name__) from None

    return call
