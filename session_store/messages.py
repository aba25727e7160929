"""Messages: what lies in a session's inbox beside its log until the owner commits it.

A message takes no seq. Its `message_id` is for ever: the same id delivered again changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from session_store.items import Json, Problem

MessageKind = Literal[
    "prompt", "notify", "pod_event", "answer", "pause", "resume", "cancel", "stop", "rewind", "compact"
]
CONTROL_KINDS = frozenset({"pause", "resume", "cancel", "stop"})

USER = "user"
"""Sender of what a person (or a program acting for one) sent. Any other sender is a Pod's id, or `SYSTEM`."""
SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Message:
    """One message for one session.

    `body` by kind: prompt `{segments, when_busy?}`; notify `{message}`; pod_event `{event}`; answer
    `{question_id, choice?, text?}`; pause, resume, cancel `{run_id?, clear_queue?, cascade?}`; stop
    `{reason?, cascade?}`; rewind `{to, expected_head}`; compact `{}`.
    `position` is the inbox place the store gave (1, 2, …; 0 before delivery). `wake` false only queues.
    """

    message_id: str
    kind: MessageKind
    sender: Annotated[str, Field(alias="from")]
    body: dict[str, Json] = field(default_factory=dict)
    wake: bool = True
    position: int = 0
    ts: int = 0


PodEventKind = Literal["turn_ended", "waiting_on_user", "errored", "shut_down", "scope_sub_delegated"]


@dataclass(frozen=True, slots=True)
class PodEvent:
    """A child's lifecycle told to its direct parent. `event_id` is `<pod_id>:<seq>` of the child's own entry.

    `queued` (made by the store) counts the parent's prompts that the child has not begun: with any, the work the parent
    gave has not ended yet.
    """

    kind: PodEventKind
    event_id: str
    pod_id: str
    pod_name: str
    generation: int
    outcome: str | None = None
    text: str | None = None
    open_children: int | None = None
    error: Problem | None = None
    question: dict[str, Json] | None = None
    stale: bool | None = None
    queued: int | None = None
