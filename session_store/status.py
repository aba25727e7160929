"""Status is derived: one pure fold over a session's log and its inbox (DESIGN law 5).

The store keeps a `StatusFold` per session in its catalogue and evaluates `starts_run` when a Pod wants to rest; the
turn machine evaluates the same function. Nobody sets a status.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from session_store.entries import (
    AssistantItems,
    Invoke,
    LlmUsage,
    LogEntry,
    PodEnd,
    Question,
    QuestionClosed,
    Rewound,
    RunEnd,
    Served,
    SystemItems,
    ToolResults,
    ToolStarted,
    UserInput,
)
from session_store.items import Json, Problem
from session_store.messages import CONTROL_KINDS, Message

Status: TypeAlias = Literal["idle", "running", "waiting_on_user", "waiting_on_children", "paused", "errored", "ended"]
STATUSES: tuple[Status, ...] = (
    "idle",
    "running",
    "waiting_on_user",
    "waiting_on_children",
    "paused",
    "errored",
    "ended",
)
CONTINUING = (UserInput, AssistantItems, ToolStarted, ToolResults, SystemItems)
"""Entries by which a paused run goes on."""
GIVEN_UP = "died"
"""`run_end.error.type` of a Pod that the Directory gave up: only a prompt or `resume` wakes it."""


@dataclass(frozen=True, slots=True)
class ChildEvent:
    """The youngest event of one child that is in the parent's log."""

    seq: int
    shut_down: bool


@dataclass(slots=True)
class StatusFold:
    """What status, inbox rules and listings need to know of a log. Grows with the children, rewinds and withdrawn runs
    only."""

    head: int = 0
    run_id: str | None = None
    run_seq: int = 0
    run_open: bool = False
    trigger: str = ""
    serves: tuple[Served, ...] = ()
    outcome: str | None = None
    error: Problem | None = None
    waits_for: tuple[str, ...] = ()
    mode: Literal["all", "any"] = "all"
    question: Question | None = None
    ended: bool = False
    created_at: int = 0
    updated_at: int = 0
    requests: int = 0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    child_events: dict[str, ChildEvent] = field(default_factory=dict)
    removed: tuple[tuple[int, int], ...] = ()
    """Ranges of seqs, both ends inclusive, whose prompts have left the history: rewound, or withdrawn with a run."""

    def apply(self, entry: LogEntry) -> None:
        """Take one committed entry, in order of seq."""
        self.head = entry.seq
        self.created_at = self.created_at or entry.ts
        self.updated_at = entry.ts
        match entry:
            case Invoke():
                self.run_id, self.run_seq, self.run_open = entry.run_id, entry.seq, True
                self.trigger, self.serves = entry.trigger, entry.serves
                self._rest_over()
            case RunEnd():
                self.run_open = False
                self.outcome, self.error = entry.outcome, entry.error
                self.waits_for, self.mode = entry.waits_for or (), entry.mode or "all"
                if entry.outcome == "withdrawn" and self.run_seq:
                    self.removed += ((self.run_seq, entry.seq),)
            case UserInput() | AssistantItems() | ToolResults() | ToolStarted():
                self._continue_paused()
            case SystemItems():
                self._continue_paused()
                self._note_child_events(entry)
            case Question():
                self.question = entry
            case QuestionClosed():
                self._close_question(entry)
            case LlmUsage():
                self.requests += 1
                self.input += entry.input
                self.cache_read += entry.cache_read
                self.cache_write += entry.cache_write
                self.output += entry.output
            case Rewound():
                self._rest_over()
                self.run_open, self.question = False, None
                self.removed = (*(r for r in self.removed if r[0] < entry.to), (entry.to, entry.seq))
            case PodEnd():
                self.ended, self.run_open, self.question = True, False, None
            case _:
                pass

    @property
    def suspended(self) -> bool:
        """Whether the last run goes on with the same `run_id` (paused, or asking for a permission)."""
        if self.run_open or self.ended:
            return False
        return self.outcome == "paused" or (
            self.outcome == "waiting_on_user" and self.question is not None and self.question.kind == "permission"
        )

    @property
    def waiting(self) -> bool:
        """Whether the rest is one that a cancel ends."""
        return not self.run_open and (
            self.suspended or self.question is not None or self.outcome == "waiting_on_children"
        )

    @property
    def given_up(self) -> bool:
        return self.outcome == "errored" and self.error is not None and self.error.type == GIVEN_UP

    @property
    def resting(self) -> Status:
        """The status the log alone gives (an empty inbox)."""
        if self.ended:
            return "ended"
        if self.run_open:
            return "running"
        if self.question is not None:
            return "waiting_on_user"
        if self.outcome in ("paused", "waiting_on_children", "errored"):
            return self.outcome  # type: ignore[return-value]  # narrowed to three literals of Status
        return "idle"

    def in_history(self, seq: int) -> bool:
        """Whether the prompt at `seq` is in the present history: neither rewound away nor withdrawn."""
        return not any(first <= seq <= last for first, last in self.removed)

    def is_stale(self, event: dict[str, Json]) -> bool:
        """Whether the parent's log already holds that child's `shut_down` or a younger event of it."""
        known = self.child_events.get(str(event.get("pod_id")))
        return known is not None and (known.shut_down or known.seq > event_seq(event))

    def _rest_over(self) -> None:
        self.outcome, self.error, self.waits_for = None, None, ()

    def _continue_paused(self) -> None:
        if not self.run_open and self.outcome == "paused":
            self.run_open = True
            self._rest_over()

    def _close_question(self, entry: QuestionClosed) -> None:
        if self.question is None or self.question.question_id != entry.question_id:
            return
        reopens = self.suspended and entry.how == "answered"
        self.question = None
        if reopens:
            self.run_open = True
            self._rest_over()

    def _note_child_events(self, entry: SystemItems) -> None:
        for item in entry.items:
            event = item.payload.get("event") if item.kind == "pod_event" else None
            if not isinstance(event, dict) or event.get("stale"):
                continue
            pod_id, seq = str(event.get("pod_id")), event_seq(event)
            known = self.child_events.get(pod_id)
            if known is None or seq >= known.seq:
                self.child_events[pod_id] = ChildEvent(seq, event.get("kind") == "shut_down")


def event_seq(event: dict[str, Json]) -> int:
    """The seq part of an event's id `<pod_id>:<seq>`; 0 when it has none."""
    tail = str(event.get("event_id", "")).rpartition(":")[2]
    return int(tail) if tail.isdecimal() else 0


def starts_run(fold: StatusFold, inbox: Sequence[Message]) -> bool:
    """Whether the unconsumed messages start (or continue) a run in the rest that `fold` shows."""
    if fold.ended or fold.run_open:
        return False
    if any(m.kind == "stop" for m in inbox):
        return False
    if rewind_of(inbox) is not None:  # it comes first, and leaves an idle session
        return any(m.kind == "prompt" or wakes(fold, m) for m in inbox)
    if fold.suspended:
        return _continues_suspended(fold, inbox)
    if fold.question is not None:
        return any(m.kind == "prompt" or answers(fold, m) for m in inbox)
    if any(m.kind == "prompt" for m in inbox):
        return True
    if fold.outcome == "errored" and any(m.kind == "resume" and _aimed(fold, m) for m in inbox):
        return True
    if fold.outcome == "waiting_on_children":
        return wait_over(fold, inbox)
    if fold.given_up:
        return False
    return any(wakes(fold, m) for m in inbox)


def needs_owner(fold: StatusFold, inbox: Sequence[Message]) -> bool:
    """Whether the session wants a Pod now: an open run, a run to start, a rewind or a compaction, or a control that
    changes its rest.

    A cancel that came down from above always does: what is below may be at work, and only the Pod passes it on.
    """
    if fold.ended:
        return False
    if fold.run_open or starts_run(fold, inbox) or rewind_of(inbox) is not None or compact_of(inbox) is not None:
        return True
    return any(
        m.kind == "stop" or (m.kind == "cancel" and (bool(m.body.get("cascade")) or (fold.waiting and _aimed(fold, m))))
        for m in inbox
    )


def status(fold: StatusFold, inbox: Sequence[Message]) -> Status:
    """The status people see: a message that may start a run makes the session `running`."""
    return "running" if starts_run(fold, inbox) else fold.resting


def rewind_of(inbox: Iterable[Message]) -> Message | None:
    """The rewind that was accepted and has not taken place. Nothing else begins before it has."""
    return next((m for m in inbox if m.kind == "rewind"), None)


def compact_of(inbox: Iterable[Message]) -> Message | None:
    """The compaction that was accepted and not tried yet. It comes before the next run."""
    return next((m for m in inbox if m.kind == "compact"), None)


def wakes(fold: StatusFold, message: Message) -> bool:
    """Whether a notice or PodEvent wakes an idle Pod."""
    if not message.wake:
        return False
    if message.kind == "notify":
        return True
    if message.kind != "pod_event":
        return False
    event = message.body.get("event") or {}
    return event.get("kind") != "scope_sub_delegated" and not fold.is_stale(event)


def answers(fold: StatusFold, message: Message) -> bool:
    """Whether the message answers the open question."""
    if fold.question is None:
        return False
    field_name = {"answer": "question_id", "prompt": "answers"}.get(message.kind)
    return field_name is not None and message.body.get(field_name) == fold.question.question_id


def wait_over(fold: StatusFold, inbox: Iterable[Message]) -> bool:
    """Whether the inbox ends the wait of `run_end{waiting_on_children}` (a prompt does; checked by the caller)."""
    concluded: set[str] = set()
    for message in inbox:
        event = message.body.get("event") if message.kind == "pod_event" else None
        if not isinstance(event, dict) or fold.is_stale(event) or event.get("pod_id") not in fold.waits_for:
            continue
        if event.get("kind") in ("waiting_on_user", "errored"):
            return True
        if concludes(event):
            if fold.mode == "any":
                return True
            concluded.add(str(event["pod_id"]))
    return bool(concluded) and concluded.issuperset(fold.waits_for)


def concludes(event: dict[str, Json]) -> bool:
    """Whether with this event (plain form) the work its parent gave has ended (DESIGN §1, *concluded*)."""
    if event.get("kind") == "turn_ended":
        unfinished = event.get("outcome") == "finished" and bool(event.get("open_children"))
        return event.get("outcome") != "paused" and not unfinished and not event.get("queued")
    return event.get("kind") == "shut_down" or (event.get("kind") == "errored" and not event.get("queued"))


def is_control(message: Message) -> bool:
    return message.kind in CONTROL_KINDS


def _continues_suspended(fold: StatusFold, inbox: Sequence[Message]) -> bool:
    if fold.outcome == "paused":
        cancelled = any(m.kind == "cancel" and _aimed(fold, m) for m in inbox)
        return not cancelled and any(m.kind == "resume" and _aimed(fold, m) for m in inbox)
    return any(m.kind == "answer" and answers(fold, m) for m in inbox)


def _aimed(fold: StatusFold, message: Message) -> bool:
    """Whether a control message is aimed at the current run."""
    return message.body.get("run_id") in (None, fold.run_id)
