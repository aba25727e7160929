"""Facts told to the turn machine. Past tense; each names what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from actors.pod.facts import PodFacts
from actors.protocol.compaction import ShorterHistory
from actors.protocol.model import ModelReply
from actors.protocol.references import Resolved
from actors.protocol.tools import ToolOutcome
from session_store.items import AssistantItem, Problem
from session_store.messages import Message
from session_store.requests import Appended as AppendReply
from session_store.restore import RestoredState


@dataclass(frozen=True, slots=True)
class Opened:
    """The lease was taken and the log restored; the machine may begin."""


@dataclass(frozen=True, slots=True)
class MessagesArrived:
    """Messages seen in the inbox. Ones seen before are told apart by their id."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Appended:
    batch_id: str
    reply: AppendReply


@dataclass(frozen=True, slots=True)
class AppendRefused:
    """The store said no (`code` of `session_store.errors`): another incarnation owns the session."""

    batch_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class AppendFailed:
    """The store could not commit within its limit (disk full, no answer). Nothing was written."""

    batch_id: str
    message: str


@dataclass(frozen=True, slots=True)
class RetryDue:
    """The wait of `RetryLater` is over."""


@dataclass(frozen=True, slots=True)
class ReferencesResolved:
    """What the prompt's references came to."""

    message_id: str
    resolved: Resolved


@dataclass(frozen=True, slots=True)
class ResolvingAborted:
    """The lookup was cut off as `AbortResolving` asked."""

    message_id: str


@dataclass(frozen=True, slots=True)
class ReplyCompleted:
    request_id: str
    reply: ModelReply


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The request failed for good. `broken`: after output had begun, `kept` being the blocks complete before it."""

    request_id: str
    error_type: str
    message: str
    broken: bool = False
    kept: tuple[AssistantItem, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestAborted:
    """The request was cut off as `AbortRequest` asked. `kept` is the text it had streamed."""

    request_id: str
    kept: tuple[AssistantItem, ...] = ()


@dataclass(frozen=True, slots=True)
class CallsFinished:
    """Calls ended, by index of the last reply's calls; several that ended at one moment come together."""

    outcomes: tuple[tuple[int, ToolOutcome], ...]


@dataclass(frozen=True, slots=True)
class ExtractionFixed:
    """What the extractor is due is fixed, or it did not come to that within the bound: nobody waits longer."""

    compaction_id: str


@dataclass(frozen=True, slots=True)
class Compacted:
    """The shorter history is there; it counts once it is committed."""

    compaction_id: str
    made: ShorterHistory


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """There is none. `error`: see `actors.protocol.compaction.CompactionError`."""

    compaction_id: str
    error: str
    message: str


@dataclass(frozen=True, slots=True)
class CompactionAborted:
    """It was cut off as `AbortCompaction` asked."""

    compaction_id: str


@dataclass(frozen=True, slots=True)
class Restored:
    """The log as it is after the rewind, folded anew."""

    state: RestoredState
    facts: PodFacts


@dataclass(frozen=True, slots=True)
class RestoreFailed:
    """The log could not be read within the store's limit, or is damaged."""

    message: str


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    run_id: str


@dataclass(frozen=True, slots=True)
class RunHalted:
    """A hook stopped the run; it ends `limit_reached` with this problem."""

    run_id: str
    problem: Problem


@dataclass(frozen=True, slots=True)
class ParkingAsked:
    """The Directory would like the Pod to give its lease up if it rests."""


@dataclass(frozen=True, slots=True)
class Released:
    pass


@dataclass(frozen=True, slots=True)
class ReleaseRefused:
    """Something wants the Pod, or the epoch is old (`stale`)."""

    stale: bool
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The shell learned that another incarnation owns the session, or that its actor is ending."""

    reason: str


Stimulus: TypeAlias = (
    Opened
    | MessagesArrived
    | Appended
    | AppendRefused
    | AppendFailed
    | RetryDue
    | ReferencesResolved
    | ResolvingAborted
    | ReplyCompleted
    | RequestFailed
    | RequestAborted
    | CallsFinished
    | ExtractionFixed
    | Compacted
    | CompactionFailed
    | CompactionAborted
    | Restored
    | RestoreFailed
    | DeadlinePassed
    | RunHalted
    | ParkingAsked
    | Released
    | ReleaseRefused
    | LeaseLost
)
