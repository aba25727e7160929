"""The blocks of a transcript: one frozen value per kind of thing that a person reads. Pure.

`key` names a block in its transcript and stays when the block changes; `seq` is that of its entry, 0 for what is not
committed. `left` says that the history no longer holds it (a rewind, a withdrawn run).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class UserPrompt:
    """A prompt, by a person or (`sender`) by another Pod. `answers`: the id of the question that it answered."""

    key: str
    seq: int
    text: str
    sender: str
    message_id: str
    answers: str | None = None
    left: bool = False


@dataclass(frozen=True, slots=True)
class AssistantText:
    """What the model wrote, or is writing (`live`)."""

    key: str
    seq: int
    text: str
    live: bool = False
    left: bool = False


@dataclass(frozen=True, slots=True)
class Reasoning:
    key: str
    seq: int
    text: str
    left: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call and, once it is there, its result.

    `status` None: no result yet. `words` is the call in one line, `detail` its arguments as JSON. `output` is the end
    of what the tool prints while it runs, `output_length` how much there was (code points); both end with the result.
    """

    key: str
    seq: int
    name: str
    words: str
    detail: str
    problem: str | None = None
    status: str | None = None
    summary: str = ""
    content: str | None = None
    output: str = ""
    output_length: int = 0
    left: bool = False


@dataclass(frozen=True, slots=True)
class SystemNote:
    """A SystemItem. `words` is what a person reads of it, `body` what the model saw."""

    key: str
    seq: int
    kind: str
    mark: str
    words: str
    body: str
    left: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a person. `choices` are (label, description). `closed` says how it ended, None: it is open."""

    key: str
    seq: int
    question_id: str
    kind: str
    question: str
    choices: tuple[tuple[str, str], ...] = ()
    closed: str | None = None
    left: bool = False


@dataclass(frozen=True, slots=True)
class RunEnd:
    key: str
    seq: int
    outcome: str
    words: str
    left: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """What one request used: tokens, as in `llm_usage`."""

    key: str
    seq: int
    words: str
    left: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """What happened to the session: its entry's `type` (`segment_start`, `invoke`, `rewound`, …) and words."""

    key: str
    seq: int
    type: str
    words: str
    style: str = "dim"
    left: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """An entry or an event that this version does not know, or that is malformed."""

    key: str
    seq: int
    name: str
    words: str
    left: bool = False


@dataclass(frozen=True, slots=True)
class Live:
    """A word on what goes on now, such as a request that is tried again. Never committed."""

    key: str
    words: str
    seq: int = 0
    left: bool = False


Block: TypeAlias = (
    UserPrompt
    | AssistantText
    | Reasoning
    | ToolCall
    | SystemNote
    | Question
    | RunEnd
    | Usage
    | Mark
    | Unknown
    | Live
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AlertNote:
    """An alert, for the bar; not part of the transcript."""

    alert_id: str
    level: str
    message: str


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """The question that waits now."""

    question_id: str
    kind: Literal["clarify", "permission"] | str
    question: str
    choices: tuple[tuple[str, str], ...]


def choices_of(value: Any) -> tuple[tuple[str, str], ...]:
    """Choices of a question's JSON as (label, description)."""
    return tuple(
        (str(choice.get("label")), str(choice.get("description") or ""))
        for choice in value or ()
        if isinstance(choice, Mapping)
    )
