"""What the turn machine asks its shell to do. Imperative; each effect comes back as a stimulus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from actors.protocol.compaction import Trigger
from session_store.entries import LogEntry
from session_store.items import AssistantMessage, Segment
from session_store.requests import Delivery


@dataclass(frozen=True, slots=True)
class Append:
    """Commit this. Answered by `Appended`, `AppendRefused` or `AppendFailed` with the same `batch_id`."""

    batch_id: str
    expected_head: int
    entries: tuple[LogEntry, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    consumes: tuple[str, ...] = ()
    inbox_cursor: int = 0
    concluded: bool = False
    cascade: Literal["cancel", "stop"] | None = None


@dataclass(frozen=True, slots=True)
class ResolveReferences:
    """Find what this prompt refers to; answered by `ReferencesResolved`, within a bound."""

    message_id: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class AbortResolving:
    """Nobody waits for it any more; answered by `ResolvingAborted` (or by its result, if that came first)."""

    message_id: str


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Ask the model, with the machine's history as it stands. `number` counts the session's requests from 1."""

    request_id: str
    number: int
    run_request: int


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """Cut the request off; answered by `RequestAborted` (or by its reply, if that came first)."""

    request_id: str


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Run these calls (indexes into `message.calls`) side by side; answered by `CallsFinished` for each, once."""

    message: AssistantMessage
    indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AbortCalls:
    """End what still runs; each running call is answered `interrupted` within a bound."""


@dataclass(frozen=True, slots=True)
class Restore:
    """Fold the whole log anew, after a rewind; answered by `Restored` or `RestoreFailed`."""


@dataclass(frozen=True, slots=True)
class SetDeadline:
    """Tell `DeadlinePassed(run_id)` at `at_ms` (UTC milliseconds). Replaces an earlier one."""

    run_id: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class ClearDeadline:
    pass


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Tell `RetryDue` after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hint:
    """Wake-ups, after the commit: these sessions have got messages."""

    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OfferExtraction:
    """A run has ended: offer the session to the extractor. A hint; nobody waits for what comes of it."""


@dataclass(frozen=True, slots=True)
class FixExtraction:
    """Before the history is compacted: have the range of what the extractor is due fixed; answered by
    `ExtractionFixed`, within a bound. The extraction itself goes on beside what follows."""

    compaction_id: str
    through: int


@dataclass(frozen=True, slots=True)
class Compact:
    """Make the machine's history shorter; answered by `Compacted` or `CompactionFailed`, within a bound."""

    compaction_id: str
    trigger: Trigger
    limit: int


@dataclass(frozen=True, slots=True)
class AbortCompaction:
    """Cut it off, or what comes before it; answered by `CompactionAborted` (or by its result, if that came first)."""

    compaction_id: str


@dataclass(frozen=True, slots=True)
class RaiseAlert:
    """Tell people."""

    level: Literal["info", "warning", "error"]
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Rest:
    """The Pod rests: nothing is in flight, the shell may park it later."""


@dataclass(frozen=True, slots=True)
class Release:
    """Give the lease up; answered by `Released` or `ReleaseRefused`."""


@dataclass(frozen=True, slots=True)
class Quit:
    """The machine is done; end tool processes, drop everything. `reason`: `parked`, `ended`, `fenced`, `store`."""

    reason: Literal["parked", "ended", "fenced", "store"]
    detail: str = ""


Instruction: TypeAlias = (
    Append
    | ResolveReferences
    | AbortResolving
    | SendRequest
    | AbortRequest
    | RunCalls
    | AbortCalls
    | Restore
    | SetDeadline
    | ClearDeadline
    | RetryLater
    | Hint
    | OfferExtraction
    | FixExtraction
    | Compact
    | AbortCompaction
    | RaiseAlert
    | Rest
    | Release
    | Quit
)
