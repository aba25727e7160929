"""The log's vocabulary: one frozen value per entry kind, tagged by `type`, flat.

`seq` (one counter per session from 1, no gaps) and `ts` (milliseconds since the epoch, UTC) are given by the store at
commit; they are 0 on an entry that is not committed yet. In JSON `ts` is RFC 3339 with milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from session_store.items import AssistantItem, HistoryItem, Json, Problem, Segment, SystemItem, ToolCall, ToolResult

Outcome = Literal[
    "finished",
    "limit_reached",
    "cancelled",
    "paused",
    "waiting_on_user",
    "waiting_on_children",
    "errored",
    "stopped",
    "withdrawn",
]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a segment comes from: the session and the last seq of it that the segment's `history` stands for."""

    session: str
    seq: int


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model is told of it. `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Served:
    """A message that a run serves, and who sent it (`"user"` or a Pod's id)."""

    message_id: str
    sender: Annotated[str, Field(alias="from")]


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of a question."""

    label: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class CallRef:
    """Names one tool call: the assistant entry's seq and the call's index in it, with its name and arguments."""

    call_seq: int
    index: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """First entry of a segment: all that its requests are built from. `history` is empty in a new session."""

    session: str
    config: dict[str, Json]
    system_prompt: str
    tools: tuple[ToolSpec, ...]
    wire_version: int
    history: tuple[HistoryItem, ...] = ()
    origin: Origin | None = None
    seq: int = 0
    ts: int = 0
    type: Literal["segment_start"] = "segment_start"


@dataclass(frozen=True, slots=True)
class Invoke:
    """A run starts. `trigger` is the kind of the message that caused it (`prompt`, `notify`, `pod_event`, …)."""

    run_id: str
    trigger: str
    serves: tuple[Served, ...] = ()
    seq: int = 0
    ts: int = 0
    type: Literal["invoke"] = "invoke"


@dataclass(frozen=True, slots=True)
class UserInput:
    segments: tuple[Segment, ...]
    message_id: str
    sender: Annotated[str, Field(alias="from")]
    answers: str | None = None
    seq: int = 0
    ts: int = 0
    type: Literal["user_input"] = "user_input"


@dataclass(frozen=True, slots=True)
class AssistantItems:
    request_id: str
    items: tuple[AssistantItem, ...]
    seq: int = 0
    ts: int = 0
    type: Literal["assistant_items"] = "assistant_items"


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call that a person was asked about is about to run."""

    call: CallRef
    seq: int = 0
    ts: int = 0
    type: Literal["tool_started"] = "tool_started"


@dataclass(frozen=True, slots=True)
class ToolResults:
    results: tuple[ToolResult, ...]
    seq: int = 0
    ts: int = 0
    type: Literal["tool_results"] = "tool_results"


@dataclass(frozen=True, slots=True)
class SystemItems:
    """polypod writes one item per entry; readers accept any number. Old tag: `hook_injected_items` (see codec)."""

    items: tuple[SystemItem, ...]
    seq: int = 0
    ts: int = 0
    type: Literal["system_items"] = "system_items"


@dataclass(frozen=True, slots=True)
class Question:
    """A permission names its `call`, and the `subject` of the decision: the tool and what it would touch, resolved."""

    question_id: str
    kind: Literal["clarify", "permission"]
    question: str
    choices: tuple[Choice, ...] = ()
    call: CallRef | None = None
    subject: str | None = None
    seq: int = 0
    ts: int = 0
    type: Literal["question"] = "question"


@dataclass(frozen=True, slots=True)
class QuestionClosed:
    question_id: str
    how: Literal["answered", "superseded", "cancelled"]
    by: str
    choice: str | None = None
    text: str | None = None
    message_id: str | None = None
    seq: int = 0
    ts: int = 0
    type: Literal["question_closed"] = "question_closed"


@dataclass(frozen=True, slots=True)
class LlmUsage:
    """Tokens of one request. `input` is the whole prompt, cached or not; the cache figures are parts of it.

    `latency` is milliseconds from sending the request to the end of its reply, `first_token` to the first text of it
    that was shown (None: nothing was). `history_len` counts history items sent.
    """

    request_id: str
    history_len: int
    input: int
    cache_read: int
    cache_write: int
    output: int
    latency: int
    model: str | None = None
    estimated: bool = False
    first_token: int | None = None
    seq: int = 0
    ts: int = 0
    type: Literal["llm_usage"] = "llm_usage"


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The run rests. `waits_for` and `mode` only with `waiting_on_children`: the awaited Pods still open."""

    run_id: str
    outcome: Outcome
    error: Problem | None = None
    waits_for: tuple[str, ...] | None = None
    mode: Literal["all", "any"] | None = None
    seq: int = 0
    ts: int = 0
    type: Literal["run_end"] = "run_end"


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A prompt given back to its sender: it is in no history. `error`: why it was not taken, if nobody asked for it."""

    message_id: str
    segments: tuple[Segment, ...]
    error: Problem | None = None
    seq: int = 0
    ts: int = 0
    type: Literal["withdrawn"] = "withdrawn"


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """An explicit change of what a segment start fixed; absent fields stay."""

    config: dict[str, Json] | None = None
    system_prompt: str | None = None
    tools: tuple[ToolSpec, ...] | None = None
    seq: int = 0
    ts: int = 0
    type: Literal["config_changed"] = "config_changed"


@dataclass(frozen=True, slots=True)
class Rewound:
    """History keeps what is before the `user_input` at seq `to`; later entries stay in the log."""

    to: int
    seq: int = 0
    ts: int = 0
    type: Literal["rewound"] = "rewound"


@dataclass(frozen=True, slots=True)
class Extension:
    """A domain's own record. The store and `restore` know no domain."""

    domain: str
    payload: dict[str, Json]
    seq: int = 0
    ts: int = 0
    type: Literal["extension"] = "extension"


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    seq: int = 0
    ts: int = 0
    type: Literal["segment_end"] = "segment_end"


@dataclass(frozen=True, slots=True)
class PodEnd:
    reason: str
    seq: int = 0
    ts: int = 0
    type: Literal["pod_end"] = "pod_end"


@dataclass(frozen=True, slots=True)
class Unknown:
    """An entry of a kind this version does not know: kept whole, shown, skipped by folds."""

    type: str
    data: dict[str, Json] = field(default_factory=dict)
    seq: int = 0
    ts: int = 0


KnownEntry: TypeAlias = (
    SegmentStart
    | Invoke
    | UserInput
    | AssistantItems
    | ToolStarted
    | ToolResults
    | SystemItems
    | Question
    | QuestionClosed
    | LlmUsage
    | RunEnd
    | Withdrawn
    | ConfigChanged
    | Rewound
    | Extension
    | SegmentEnd
    | PodEnd
)
LogEntry: TypeAlias = KnownEntry | Unknown

ENTRY_TYPES: dict[str, type[Any]] = {
    "segment_start": SegmentStart,
    "invoke": Invoke,
    "user_input": UserInput,
    "assistant_items": AssistantItems,
    "tool_started": ToolStarted,
    "tool_results": ToolResults,
    "system_items": SystemItems,
    "question": Question,
    "question_closed": QuestionClosed,
    "llm_usage": LlmUsage,
    "run_end": RunEnd,
    "withdrawn": Withdrawn,
    "config_changed": ConfigChanged,
    "rewound": Rewound,
    "extension": Extension,
    "segment_end": SegmentEnd,
    "pod_end": PodEnd,
}
