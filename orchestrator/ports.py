"""The port between the front (gateway, and through it the command line) and the control plane.

The front talks to the store for all that is durable, and to the control plane for what only it can do: start a Pod,
pass hints on, and carry live text of a Pod that has a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from actors.protocol.alerts import Alert
from actors.protocol.live import LiveEvent
from actors.protocol.references import Completions, Place, Sigil, Unresolved
from session_store.items import Json, Segment
from session_store.requests import AsyncStore, Scope


@dataclass(frozen=True, slots=True)
class NewPod:
    """A root Pod to create. `message_id` makes it one, however often it is asked for (per tenant).

    `workspace` is only taken from callers that hold the home's secret; None: that of the profile or of the owner.
    `limits` has any of `requests, tokens, seconds, depth, children`. `segments` empty: an idle Pod.
    """

    tenant: str
    message_id: str
    segments: tuple[Segment, ...] = ()
    name: str | None = None
    profile: str | None = None
    model: str | None = None
    scope: Scope | None = None
    limits: dict[str, float] = field(default_factory=dict)
    metadata: dict[str, Json] = field(default_factory=dict)
    workspace: str | None = None
    owner_run: bool = False
    """Created by an embedded or joined `run`: its tree is what that run continues."""


@dataclass(frozen=True, slots=True)
class NewPodReply:
    pod_id: str
    existed: bool


@dataclass(frozen=True, slots=True)
class LiveBatch:
    """Live events of one Pod beyond a cursor, oldest first; `cursor` asks for what follows.

    `generation` is the incarnation they came from (0: the Pod has no process; `events` is then empty).
    """

    generation: int
    cursor: int
    events: tuple[LiveEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class AlertBatch:
    """Alerts beyond a cursor that are kept, oldest first; `cursor` asks for what follows, each alert once."""

    cursor: int
    alerts: tuple[Alert, ...] = ()


class PromptDoor(Protocol):
    """What the front knows of references before anything is recorded."""

    def place(self, new: NewPod) -> Place | None:
        """Where the references of a Pod yet to be made lead; None for an order that will be refused anyway."""

    async def refusal(self, place: Place, segments: Sequence[Segment]) -> Unresolved | None:
        """Why a prompt cannot be taken. None too when the workspace cannot be seen from here: the run looks again."""

    async def complete(self, place: Place, sigil: Sigil, prefix: str, limit: int) -> Completions:
        """What a reference that begins like this may mean, inside the scope; bounded."""


class ControlPlaneError(Exception):
    """A request the control plane refuses. `code` as in the problems of the HTTP seam (`invalid`, `limit`, …), and
    `name_taken`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[ControlPlaneError], tuple[str, str]]:
        return (ControlPlaneError, (self.code, self.message))


class ControlPlane(Protocol):
    """Implemented over the Directory actor (`orchestrator.client`) and by a fake over the memory store."""

    @property
    def store(self) -> AsyncStore: ...

    async def create(self, new: NewPod) -> NewPodReply:
        """Durable when it returns; the Pod starts right after. Raises `ControlPlaneError`, `Refused`."""

    async def hint(self, sessions: tuple[str, ...]) -> None:
        """These sessions have got messages. A hint: it may be lost."""

    async def stop(self, pod_id: str, by: str, reason: str) -> Literal["ended", "stopping"]:
        """Stop a Pod and its undetached descendants; durable when it returns, ended within a bound."""

    async def watch(self, pod_id: str, cursor: int, wait: float) -> LiveBatch:
        """Live events beyond `cursor` (0: from the start of what is in flight), waiting up to `wait` s for one.

        Raises `StoreDamaged` for a Pod that cannot be started because of it.
        """

    async def alerts(self, pod_id: str | None, after: int, wait: float) -> AlertBatch:
        """Alerts of one Pod, or of all and the control plane (None), beyond `after` (0: all that are kept), waiting up
        to `wait` s for one. It does not matter whether the Pod has a process. Raises `StoreUnavailable`."""

    async def status(self) -> dict[str, Json]:
        """For `/readyz`, `top` and `doctor`: `{"ready", "pool", "live", "nodes", …}`."""
