"""The bodies and queries that the HTTP seam takes. Unknown fields are refused."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, StringConstraints, model_validator

from actors.protocol.alerts import KEPT
from actors.protocol.ids import name_problem
from actors.protocol.references import segment_problem
from orchestrator.sigils import shown
from orchestrator.usage import By
from session_store.items import REFERENCE_TYPES, Json, Segment
from session_store.messages import PodEventKind
from session_store.rows import Scope
from session_store.status import Status

_SESSION_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
# Ids that polypod itself gives to messages: events and tasks (`<pod id>:…`), cascades, what tools and `stop` send.
_OWN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:|(cascade|answer|send|stop|fork):")


def is_pod_id(text: str) -> bool:
    """Whether `text` can be the id of a Pod at all (case G07)."""
    return _SESSION_ID.fullmatch(text) is not None and ".." not in text


def _message_id(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("a message id holds printable characters only, and no space at its ends")
    if _OWN_ID.match(text):
        raise ValueError("ids of this form are polypod's own")
    return text


def _name(text: str) -> str:
    if (problem := name_problem(text)) is not None:
        raise ValueError(problem)
    return text


def _pod_id(text: str) -> str:
    if not is_pod_id(text):
        raise ValueError("this is no id of a Pod")
    return text


def _written(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is empty")
    return text


MessageId = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_message_id)]
PodName = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_name)]
PodId = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_pod_id)]
Written = Annotated[str, AfterValidator(_written)]
SettingsName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Folder = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Lenient(BaseModel):
    """A query: its values come as text."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoQuery(Lenient):
    """Of a request that takes no parameters."""


class SegmentBody(Body):
    """A typed part of a prompt. What it refers to stands in `path` or `slug`, or as in the log in `data`."""

    type: Annotated[str, StringConstraints(max_length=64)]
    text: str | None = None
    path: str | None = None
    slug: str | None = None
    data: dict[str, JsonValue] | None = None

    @model_validator(mode="after")
    def _well_formed(self) -> SegmentBody:
        if (problem := segment_problem(self.segment())) is not None:
            raise ValueError(problem)
        if self.type in REFERENCE_TYPES:
            own = "path" if self.type == "file_ref" else "slug"
            if set(self._target()) != {own}:
                raise ValueError(f"a {self.type} holds `{own}` and `text`, nothing else")
        elif self.text is None or self._target():
            raise ValueError(f"a segment of type {self.type} holds `text`, nothing else")
        return self

    def segment(self) -> Segment:
        """As the log keeps it: a reference without a text reads as people write it."""
        data = self._target() or None
        return Segment(self.type, self.text or shown({"type": self.type, "data": data}), data)

    def _target(self) -> dict[str, Json]:
        given = {"path": self.path, "slug": self.slug}
        return {**(self.data or {}), **{k: v for k, v in given.items() if v is not None}}


class PromptBody(Body):
    """Either typed `segments` or literal text, whose field the subclass names."""

    segments: list[SegmentBody] | None = Field(default=None, min_length=1, max_length=1000)

    def typed(self, text: str | None) -> tuple[Segment, ...]:
        if text is not None:
            return (Segment("text", text),)
        return tuple(s.segment() for s in self.segments or ())

    def _check_written(self, field: str, text: str | None) -> None:
        if text is not None and self.segments is not None:
            raise ValueError(f"give `{field}` or `segments`, not both")
        if self.segments is not None and not any(s.segment().text.strip() for s in self.segments):
            raise ValueError("the segments hold no text")


class ScopeBody(Body):
    read: list[Folder] = Field(default_factory=list, max_length=1000)
    write: list[Folder] = Field(default_factory=list, max_length=1000)

    def scope(self) -> Scope:
        return Scope(tuple(self.read), tuple(self.write))


class LimitsBody(Body):
    requests: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    depth: int | None = Field(default=None, ge=0)
    children: int | None = Field(default=None, ge=0)


class NewPodBody(PromptBody):
    prompt: Written | None = None
    name: PodName | None = None
    profile: SettingsName | None = None
    model: SettingsName | None = None
    scope: ScopeBody | None = None
    limits: LimitsBody = Field(default_factory=LimitsBody)
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    message_id: MessageId | None = None
    workspace: Folder | None = None

    @model_validator(mode="after")
    def _one_prompt(self) -> NewPodBody:
        self._check_written("prompt", self.prompt)
        return self


class MessageBody(PromptBody):
    content: Written | None = None
    message_id: MessageId | None = None
    when_busy: Literal["queue", "steer", "interrupt", "reject"] = "queue"

    @model_validator(mode="after")
    def _one_content(self) -> MessageBody:
        self._check_written("content", self.content)
        if self.content is None and self.segments is None:
            raise ValueError("give `content` or `segments`")
        return self


class NotifyBody(Body):
    message: Written
    message_id: MessageId | None = None
    wake: bool = True


class ErrorBody(Body):
    type: str
    message: str


class EventBody(Body):
    """A PodEvent (DESIGN §7)."""

    kind: PodEventKind
    event_id: Annotated[str, StringConstraints(min_length=3, max_length=200)]
    pod_id: PodId
    pod_name: str
    generation: int = Field(ge=0)
    outcome: str | None = None
    text: str | None = None
    open_children: int | None = Field(default=None, ge=0)
    error: ErrorBody | None = None
    question: dict[str, JsonValue] | None = None


class PodEventBody(Body):
    event: EventBody


class AnswerBody(Body):
    question_id: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    choice: str | None = None
    text: Written | None = None
    message_id: MessageId | None = None

    @model_validator(mode="after")
    def _something(self) -> AnswerBody:
        if self.choice is None and self.text is None:
            raise ValueError("give `choice`, `text`, or both")
        return self


class ControlBody(Body):
    """Of `pause` and `resume`, and of what is asked for once like them."""

    message_id: MessageId | None = None


class CancelBody(ControlBody):
    clear_queue: bool = False


class StopBody(ControlBody):
    reason: Annotated[str, StringConstraints(max_length=1000)] | None = None


class RewindBody(ControlBody):
    to_seq: int = Field(ge=1, lt=1 << 62)
    expected_head: int = Field(ge=1, lt=1 << 62)


class ForkBody(ControlBody):
    at_seq: int | None = Field(default=None, ge=1, lt=1 << 62)
    name: PodName | None = None


class ListQuery(Lenient):
    status: Status | None = None
    parent: PodId | None = None
    root: PodId | None = None
    name: PodName | None = None
    limit: int = Field(default=100, ge=1, le=1000)
    cursor: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,18}$")] | None = None


class LogQuery(Lenient):
    after: int = Field(default=0, ge=0, lt=1 << 62)
    limit: int = Field(default=1000, ge=1, le=10_000)


class ResultQuery(Lenient):
    wait: float = Field(default=30.0, ge=0, allow_inf_nan=False)
    message_id: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None


class UsageQuery(Lenient):
    by: By = "pod"
    pod: PodId | None = None


class CompletionQuery(Lenient):
    sigil: Literal["@", "#", "/"]
    prefix: Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*$")] = ""
    limit: int = Field(default=20, ge=1, le=100)


class EventsQuery(Lenient):
    after: str | None = None


class AlertsQuery(Lenient):
    pod: PodId | None = None
    root: PodId | None = None
    limit: int = Field(default=KEPT, ge=1, le=KEPT)


class TreeQuery(Lenient):
    after: str | None = None
    root: PodId | None = None
