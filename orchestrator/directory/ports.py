"""The Directory's view of PodActor processes. `actor.py` binds Ray; tests bind hosts in one process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from orchestrator.directory.facts import Holding
from session_store.items import Json


class HostGone(Exception):
    """The call did not reach the actor, or its process died while answering."""


@dataclass(frozen=True, slots=True)
class Death:
    """`proven`: nothing of the process can run any more; False: only its node or the connection is known to be lost."""

    cause: str
    proven: bool


@dataclass(frozen=True, slots=True)
class Found:
    """A live actor that an earlier Directory started."""

    actor_id: str
    held: tuple[Holding, ...]
    bindings: int
    tainted: bool


class Hosts(Protocol):
    """All PodActors, by id. Every call raises `HostGone` when the process is gone."""

    async def start(self, actor_id: str) -> None:
        """Create it; returns when it answers."""

    async def bind(self, actor_id: str, session: str, directory_epoch: int, replaces: int) -> dict[str, Json]:
        """`{"ok", "epoch", "code", "message"}` once the Pod has settled."""

    async def unbind(self, actor_id: str, session: str) -> dict[str, Json]:
        """`{"parked", "clean", "reason"}`."""

    async def drop(self, actor_id: str, session: str, reason: str) -> bool:
        """Fence the session there; whether it is not held any more."""

    async def hint(self, actor_id: str, sessions: tuple[str, ...]) -> list[str]:
        """Those that are not held there."""

    async def death(self, actor_id: str) -> Death:
        """Returns when the process has died."""

    async def kill(self, actor_id: str) -> bool:
        """End the process; whether its death is certain."""

    async def found(self) -> tuple[Found, ...]:
        """What an earlier Directory left; those that do not answer are killed."""

    def alone(self) -> bool:
        """Whether it is certain that no Pod process of an earlier owner is alive but those `found`."""
