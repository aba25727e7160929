"""What stands in a history: frozen values, closed unions, no behaviour beyond shape.

A *history item* is the unit that a model wire encodes once (`HistoryItem`): one user message, one assistant message,
one group of tool results (all results of one assistant message, in call order), or one SystemItem.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

Json: TypeAlias = Any
"""A JSON value. Opaque to the log: stored and given back as it came."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text the model wrote. `block` is the live-delta block that carried it, unique in the session."""

    text: str
    block: str | None = None
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning of the model. `provider` is what the provider needs back, verbatim (for example a signature)."""

    text: str
    provider: dict[str, Json] = field(default_factory=dict)
    block: str | None = None
    type: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of a reply.

    `arguments` is the parsed object, or None when the model's text was not a JSON object; then `raw` is that text and
    `problem` says what is wrong. A call with a `problem` is answered with an error and never run.
    """

    call_id: str
    name: str
    arguments: dict[str, Json] | None = None
    raw: str | None = None
    problem: str | None = None
    type: Literal["tool_call"] = "tool_call"


AssistantItem: TypeAlias = Annotated[Text | Reasoning | ToolCall, Field(discriminator="type")]

ResultStatus = Literal["ok", "error", "denied", "interrupted", "not_run"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one answer to one tool call.

    `call_seq` is the seq of the assistant entry and `index` the position among its tool calls: this pair is the
    identity of the call, since a provider's `call_id` may repeat. `summary` (one line) is always kept; `content` may be
    left out of later requests. `data` is for machines (never shown to the model): ids, digests, counts.
    """

    call_seq: int
    index: int
    call_id: str
    name: str
    status: ResultStatus
    summary: str
    content: str | None = None
    data: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class SystemItem:
    """Something the system itself put before the model. `body` is the exact text the model saw."""

    kind: str
    item_id: str
    payload: dict[str, Json]
    body: str


REFERENCE_TYPES = frozenset({"file_ref", "knowledge_ref", "workflow_invoke"})
"""Segments that stand for something else: it is resolved at the run and attached."""
SEGMENT_TYPES = REFERENCE_TYPES | {"text", "paste"}


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a prompt. `text` is what the model reads of it; `data` by `type`, one of `SEGMENT_TYPES`:

    `text` and `paste` have none, `file_ref` has `{path}`, `knowledge_ref` and `workflow_invoke` have `{slug}`. A type
    of a newer writer is kept as it is.
    """

    type: str
    text: str = ""
    data: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A prompt as the model sees it. `sender` is `"user"`, or the id of the Pod that sent it."""

    segments: tuple[Segment, ...]
    message_id: str
    sender: Annotated[str, Field(alias="from")]
    type: Literal["user_message"] = "user_message"

    @property
    def text(self) -> str:
        """Texts and pastes on lines of their own; a reference stays in its sentence."""
        told = [s for s in self.segments if s.text]
        inline = [s.type in REFERENCE_TYPES for s in told]
        starts = ("" if i == 0 or inline[i] or inline[i - 1] else "\n" for i in range(len(told)))
        return "".join(start + s.text for start, s in zip(starts, told, strict=True))


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """One reply: its items in the order the model made them. `seq` is that of its `assistant_items` entry."""

    seq: int
    request_id: str
    items: tuple[AssistantItem, ...]
    type: Literal["assistant_message"] = "assistant_message"

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(i for i in self.items if isinstance(i, ToolCall))

    @property
    def text(self) -> str:
        return "".join(i.text for i in self.items if isinstance(i, Text))


@dataclass(frozen=True, slots=True)
class ToolResultGroup:
    """All results of one assistant message, in call order, exactly one for each call."""

    results: tuple[ToolResult, ...]
    type: Literal["tool_result_group"] = "tool_result_group"


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """A SystemItem in its place in the history."""

    item: SystemItem
    type: Literal["system_message"] = "system_message"


HistoryItem: TypeAlias = Annotated[
    UserMessage | AssistantMessage | ToolResultGroup | SystemMessage,
    Field(discriminator="type"),
]


@dataclass(frozen=True, slots=True)
class Problem:
    """An error told as data: a stable `type` for programs and a `message` for people."""

    type: str
    message: str
