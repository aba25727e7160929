"""What the Directory learns. Past tense; the shell tells, `decide` judges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from orchestrator.directory.state import CloseKind


@dataclass(frozen=True, slots=True)
class Want:
    """A session that needs a Pod, as the catalogue says. `started`: it has had a run; `owned`: its lease is held."""

    session: str
    root: str
    epoch: int
    owned: bool = False
    started: bool = True
    spawning: bool = False


@dataclass(frozen=True, slots=True)
class Looked:
    """The catalogue was asked about `asked` (empty: about all, by the sweep); `wants` are those that need a Pod."""

    asked: tuple[str, ...]
    wants: tuple[Want, ...]


@dataclass(frozen=True, slots=True)
class Hinted:
    """These sessions have got messages."""

    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotHeld:
    """The actor was given a hint for sessions that it does not hold."""

    actor_id: str
    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActorReady:
    actor_id: str


@dataclass(frozen=True, slots=True)
class ActorLost:
    """The process died or was killed. `proven`: nothing of it can run any more."""

    actor_id: str
    cause: str
    proven: bool


@dataclass(frozen=True, slots=True)
class Bound:
    session: str
    actor_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class BindRefused:
    """`code`: of a store refusal, or `store` (no answer), `settings`, `host`."""

    session: str
    actor_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Unbound:
    """The answer to an unbind; not `clean`: the process must not be used again."""

    session: str
    actor_id: str
    parked: bool
    clean: bool


@dataclass(frozen=True, slots=True)
class Left:
    """A Pod's shell let go of its session: `parked, ended, store, tainted`, or `fenced: ` and why."""

    session: str
    epoch: int
    actor_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rested:
    session: str
    epoch: int
    actor_id: str


@dataclass(frozen=True, slots=True)
class Holding:
    """One session an actor says it holds; `resting`: seconds at rest, None while at work."""

    session: str
    epoch: int
    resting: float | None = None


@dataclass(frozen=True, slots=True)
class Beat:
    actor_id: str
    held: tuple[Holding, ...]


@dataclass(frozen=True, slots=True)
class CloseAsked:
    """The session must end now, whatever its Pod does."""

    session: str
    kind: CloseKind
    cause: str


@dataclass(frozen=True, slots=True)
class Closed:
    """Its end is written (or was not needed any more)."""

    session: str


@dataclass(frozen=True, slots=True)
class CloseFailed:
    session: str
    message: str
    final: bool
    """Trying again cannot help."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """An actor of an earlier Directory, with what it holds by right (the rest it was told to drop)."""

    actor_id: str
    held: tuple[Holding, ...] = field(default_factory=tuple)
    bindings: int = 0
    tainted: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Fact: TypeAlias = (
    Looked
    | Hinted
    | NotHeld
    | ActorReady
    | ActorLost
    | Bound
    | BindRefused
    | Unbound
    | Left
    | Rested
    | Beat
    | CloseAsked
    | Closed
    | CloseFailed
    | Adopted
    | Tick
)
