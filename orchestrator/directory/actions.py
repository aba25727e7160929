"""What the Directory does about it. Each action's effect comes back as a fact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from orchestrator.directory.state import CloseKind


@dataclass(frozen=True, slots=True)
class StartActor:
    """Answered by `ActorReady` or `ActorLost`."""

    actor_id: str


@dataclass(frozen=True, slots=True)
class EndActor:
    """Kill the process and make sure of it; answered by `ActorLost`."""

    actor_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Answered by `Bound` or `BindRefused`, or by the loss of the actor."""

    session: str
    actor_id: str
    replaces: int


@dataclass(frozen=True, slots=True)
class Unbind:
    """Answered by `Unbound`, or by the loss of the actor."""

    session: str
    actor_id: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Fence the session there at once; no answer."""

    session: str
    actor_id: str


@dataclass(frozen=True, slots=True)
class PassHint:
    """Answered by `NotHeld` if some are not held."""

    actor_id: str
    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """Ask the catalogue which of these need a Pod; answered by `Looked`."""

    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """Take the session from `actor_id` (if any) and write its end, not before `not_before`.

    `kill`: the actor cannot be asked to drop it (a bind is under way). Answered by `Closed` or `CloseFailed`.
    """

    session: str
    actor_id: str | None
    kind: CloseKind
    cause: str
    not_before: float
    kill: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """Tell whoever waits for the session's start how it went."""

    session: str
    ok: bool
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """Tell whoever waits for the session's end that its Pod has let go of it."""

    session: str


@dataclass(frozen=True, slots=True)
class RaiseAlert:
    """Tell people."""

    level: Literal["info", "warning", "error"]
    code: str
    session: str
    message: str


@dataclass(frozen=True, slots=True)
class TellParent:
    """Tell the parent of a session whose log can be neither read nor written that it has failed (law 10)."""

    session: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Tell `Tick` at this time (monotonic seconds)."""

    at: float


Action: TypeAlias = (
    StartActor
    | EndActor
    | Bind
    | Unbind
    | Drop
    | PassHint
    | Look
    | Close
    | Settled
    | Gone
    | RaiseAlert
    | TellParent
    | WakeAt
)
