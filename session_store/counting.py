"""From what a transaction writes to what it adds to the counters. Pure; knows only labels that the log itself gives.

Each thing is counted by the transaction that commits it, so once, however often its request is sent. What an import
brings was counted where it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from session_store import counters
from session_store.counters import OTHER, Count
from session_store.entries import (
    ENTRY_TYPES,
    AssistantItems,
    Extension,
    Invoke,
    LlmUsage,
    LogEntry,
    PodEnd,
    Question,
    QuestionClosed,
    RunEnd,
    SystemItems,
    ToolResults,
    ToolStarted,
    Unknown,
)
from session_store.errors import ConditionFailed, Refused
from session_store.items import Json
from session_store.messages import Message, PodEventKind
from session_store.pricing import cost
from session_store.requests import Append, Request
from session_store.status import GIVEN_UP

POD = "pod"
"""The worker label of a session's own requests."""
UNKNOWN_MODEL = "unknown"
_EVENT_KINDS = frozenset(get_args(PodEventKind))
_END_REASONS = frozenset({"stopped", "failed_start"})
_MODEL_ERRORS = frozenset(
    {
        *("auth", "bad_request", "not_found", "rate_limited", "overloaded", "server", "connection", "timeout"),
        *("broken_stream", "empty_reply", "context_overflow", "refused", "script", "settings"),
    }
)
"""`run_end.error.type` of a failed request."""
POINTER = "memory.extract"
"""Domain of the annotation that says that a range was extracted; `processed_through_entry` is the range's end."""
_NOT_TIMED = frozenset({"not_run", "denied", "interrupted"})
_BILLIONTHS = 1e9


@dataclass(frozen=True, slots=True)
class _Tokens:
    input: int
    cache_read: int
    cache_write: int
    output: int


@dataclass(slots=True)
class Tally:
    """One session's part in a transaction. `begun`: (seq of the last reply with calls, when they began, in ms)."""

    count: Count
    config: Mapping[str, Json]
    begun: tuple[int, int] = (0, 0)
    replied: bool = False

    def take(self, entries: Sequence[LogEntry]) -> None:
        """Entries as committed, with seq and time, in order."""
        numbers: dict[type, int] = {}
        for entry in entries:
            kind = type(entry)
            numbers[kind] = numbers.get(kind, 0) + 1
            counted = _COUNTED.get(kind)
            if counted is not None:
                counted(self, entry)
        for kind, number in numbers.items():
            self.count(_ENTRY_KEYS[kind], number)

    def model(self) -> tuple[str, Mapping[str, float]]:
        """The session's model by its name in the settings, and its prices."""
        model = self.config.get("model")
        if not isinstance(model, dict):
            return UNKNOWN_MODEL, {}
        return str(model.get("name") or UNKNOWN_MODEL), model.get("prices") or {}

    def tokens(self, model: str, worker: str, used: _Tokens) -> None:
        name, prices = self.model()
        for kind in ("input", "cache_read", "cache_write", "output"):
            number = getattr(used, kind)
            if number > 0:
                self.count(counters.TOKENS.key(model, kind, worker), number)
        if prices and model == name:
            self.count(counters.COST.key(model, worker), round(cost(used, prices) * _BILLIONTHS))


def _invoke(tally: Tally, entry: Invoke) -> None:
    tally.count(counters.TURNS_STARTED.key(entry.trigger), 1)


def _assistant_items(tally: Tally, entry: AssistantItems) -> None:
    tally.begun = (entry.seq, entry.ts)


def _tool_started(tally: Tally, entry: ToolStarted) -> None:
    tally.begun = (entry.call.call_seq, entry.ts)


def _tool_results(tally: Tally, entry: ToolResults) -> None:
    known = tally.config.get("tools") or ()
    for result in entry.results:
        tool = result.name if result.name in known else OTHER
        tally.count(counters.TOOL_CALLS.key(tool, result.status), 1)
        if result.call_seq == tally.begun[0] and result.status not in _NOT_TIMED:
            counters.TOOL_TIME.observe(tally.count, entry.ts - tally.begun[1], tool)


def _llm_usage(tally: Tally, entry: LlmUsage) -> None:
    tally.replied = True
    model, _ = tally.model()
    tally.count(counters.REQUESTS.key(model, "ok"), 1)
    tally.tokens(model, POD, _Tokens(entry.input, entry.cache_read, entry.cache_write, entry.output))
    counters.REQUEST_TIME.observe(tally.count, entry.latency, model)
    if entry.first_token is not None:
        counters.FIRST_TOKEN_TIME.observe(tally.count, entry.first_token, model)


def _run_end(tally: Tally, entry: RunEnd) -> None:
    tally.count(counters.TURNS.key(entry.outcome), 1)
    if entry.outcome != "errored" or entry.error is None:
        return
    if entry.error.type == GIVEN_UP:
        tally.count(counters.GIVE_UPS.key(), 1)
    elif entry.error.type in _MODEL_ERRORS and not tally.replied:
        tally.count(counters.REQUESTS.key(tally.model()[0], "failed"), 1)


def _system_items(tally: Tally, entry: SystemItems) -> None:
    for item in entry.items:
        tally.count(counters.SYSTEM_ITEMS.key(item.kind), 1)
        if item.kind == "reminder":
            tally.count(counters.REMINDERS.key(), 1)


def _question(tally: Tally, entry: Question) -> None:
    tally.count(counters.QUESTIONS.key(entry.kind), 1)


def _question_closed(tally: Tally, entry: QuestionClosed) -> None:
    tally.count(counters.QUESTION_ENDS.key(entry.how), 1)


def _pod_end(tally: Tally, entry: PodEnd) -> None:
    tally.count(counters.POD_ENDS.key(entry.reason if entry.reason in _END_REASONS else OTHER), 1)


def _extension(tally: Tally, entry: Extension) -> None:
    match entry.domain:
        case "worker.usage":
            _worker_usage(tally, entry.payload)
        case "memory.extract.range":
            tally.count(counters.EXTRACTIONS.key("started"), 1)
        case domain if domain == POINTER:
            tally.count(counters.EXTRACTIONS.key("finished"), 1)
        case "compaction":
            error = entry.payload.get("error")
            outcome = str(error.get("type")) if isinstance(error, dict) else "finished"
            tally.count(counters.COMPACTIONS.key(str(entry.payload.get("trigger")), outcome), 1)
        case _:
            pass


def _worker_usage(tally: Tally, payload: Mapping[str, Json]) -> None:
    figures = [payload.get(kind) for kind in ("input", "cache_read", "cache_write", "output", "latency")]
    model, worker = payload.get("model"), payload.get("worker")
    if not isinstance(model, str) or not isinstance(worker, str) or not all(isinstance(f, int) for f in figures):
        return
    read, cached, written, output, latency = (int(f or 0) for f in figures)
    tally.count(counters.REQUESTS.key(model, "ok"), 1)
    tally.tokens(model, worker, _Tokens(read, cached, written, output))
    counters.REQUEST_TIME.observe(tally.count, latency, model)


_COUNTED: dict[type, Callable[[Tally, Any], None]] = {
    Invoke: _invoke,
    AssistantItems: _assistant_items,
    ToolStarted: _tool_started,
    ToolResults: _tool_results,
    LlmUsage: _llm_usage,
    RunEnd: _run_end,
    SystemItems: _system_items,
    Question: _question,
    QuestionClosed: _question_closed,
    PodEnd: _pod_end,
    Extension: _extension,
}


_ENTRY_KEYS = {cls: counters.ENTRIES.key(tag) for tag, cls in ENTRY_TYPES.items()} | {
    Unknown: counters.ENTRIES.key(OTHER)
}


def count_message(count: Count, message: Message, *, undeliverable: bool = False) -> None:
    """A message that was taken into an inbox, or kept beside one."""
    count((counters.UNDELIVERABLE if undeliverable else counters.MESSAGES).key(message.kind), 1)
    event = message.body.get("event") if message.kind == "pod_event" else None
    if isinstance(event, dict):
        kind = str(event.get("kind"))
        count(counters.POD_EVENTS.key(kind if kind in _EVENT_KINDS else OTHER), 1)


def count_taken(count: Count, messages: Sequence[Message], ts: int) -> None:
    """Messages that a commit at `ts` consumed."""
    for message in messages:
        if message.kind == "pod_event":
            counters.POD_EVENT_TIME.observe(count, ts - message.ts)


def count_start(count: Count, messages: Sequence[Message], ts: int, *, first: bool) -> None:
    """A turn begun by a Pod that was bound for it; `messages` are those it takes, `first`: it is the Pod's first."""
    accepted = min((m.ts for m in messages if m.ts), default=None)
    if accepted is not None:
        (counters.SPAWN_TIME if first else counters.WAKE_TIME).observe(count, ts - accepted)


def refusal(request: Request[Any], error: Refused) -> str:
    """The key of a refused request."""
    name = "append" if isinstance(request, Append) else type(request).__name__.lower()
    return counters.REFUSALS.key(name, error.reason or error.code if isinstance(error, ConditionFailed) else error.code)
