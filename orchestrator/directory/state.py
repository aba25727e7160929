"""What the Directory knows: which actors there are, and where each Pod is. Rebuilt from the store and the actors."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from orchestrator.directory.settings import LEASE_MARGIN, DirectorySettings

CloseKind = Literal["died", "stopped", "failed_start"]
FOREVER = float("inf")


class Phase(StrEnum):
    """Where a session that is not parked stands. One phase at a time: its binds and releases happen in series."""

    LOOKING = "looking"
    """Its process is gone; the catalogue is asked whether it needs one."""
    WAITING = "waiting"
    """It waits for an actor, for the end of a wait after a death, or for an old lease to run out."""
    BINDING = "binding"
    LIVE = "live"
    PARKING = "parking"
    CLOSING = "closing"
    """The Directory writes its end under the next epoch."""


@dataclass(slots=True)
class Placement:
    """`epoch`: LIVE, the Pod's own; before, the one the catalogue has. Times by the monotonic clock, seconds."""

    session: str
    phase: Phase
    since: float
    epoch: int = 0
    actor_id: str | None = None
    not_before: float = 0.0
    again: bool = False
    """A hint came that nobody has seen yet."""
    resting_since: float | None = None
    left: tuple[int, str] | None = None
    """(epoch, reason): the Pod let go before the answer to its bind came."""
    missed: int = 0
    """Heartbeats in a row that did not name it."""
    spawning: bool = False
    """A spawn waits for its task to be committed."""
    cause: str = ""
    """What its last process died of."""


@dataclass(slots=True)
class Actor:
    """One PodActor process. `sessions` are those it holds or is about to."""

    actor_id: str
    since: float
    phase: Literal["starting", "ready", "ending"] = "starting"
    sessions: set[str] = field(default_factory=set)
    bindings: int = 0
    last_beat: float = 0.0
    idle_since: float = 0.0
    tainted: bool = False
    alone: bool = False
    """It hosts a Pod that has died repeatedly, and takes no other beside it."""

    @property
    def was_ready(self) -> bool:
        return self.last_beat > 0.0


@dataclass(slots=True)
class Table:
    """`roots`: the trees this home's owner continues, None: all. `epoch`: the Directory's own."""

    settings: DirectorySettings
    epoch: int
    roots: set[str] | None = None
    placements: dict[str, Placement] = field(default_factory=dict)
    actors: dict[str, Actor] = field(default_factory=dict)
    deaths: dict[str, tuple[float, ...]] = field(default_factory=dict)
    doomed: dict[str, tuple[CloseKind, str]] = field(default_factory=dict)
    """Sessions whose end the Directory owes and could not write yet."""
    blocked: dict[str, str] = field(default_factory=dict)
    """Sessions that no start can help (damaged logs), and why."""
    fences: dict[str, float] = field(default_factory=dict)
    """Until when an old process, whose death is not proven, may still hold the session."""
    leases_until: float = 0.0
    """Until when leases that an earlier Directory granted count as alive."""
    last_tick: float = 0.0
    failed_starts: int = 0
    """Actors in a row that died before they were ready."""
    no_start_before: float = 0.0
    started: int = 0
    restarts: int = 0
    given_up: int = 0

    def actor_of(self, placement: Placement) -> Actor | None:
        return None if placement.actor_id is None else self.actors.get(placement.actor_id)

    def fence(self, session: str, last_sign: float) -> None:
        """Its process was last heard of at `last_sign` and may still be alive."""
        until = last_sign + self.settings.lease + LEASE_MARGIN
        self.fences[session] = max(until, self.fences.get(session, 0.0))

    def ready_at(self, placement: Placement) -> float:
        """From when the next epoch may be granted."""
        return max(placement.not_before, self.fences.get(placement.session, 0.0))
