"""What became of a message, read off the log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from session_store.codec import to_plain
from session_store.entries import (
    AssistantItems,
    Invoke,
    LogEntry,
    QuestionClosed,
    RunEnd,
    SystemItems,
    ToolResults,
    ToolStarted,
    UserInput,
    Withdrawn,
)
from session_store.items import Json, Problem
from session_store.rows import PodRow

SUSPENDED = ("paused", "waiting_on_user")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run came to rest. `text` is that of its last reply."""

    run_id: str
    outcome: str
    text: str = ""
    error: Problem | None = None


class ResultFold:
    """Follows the run that serves a message (None: the run whose `invoke` comes first) to its end.

    A run that waits for children goes on in the run that their news starts. `found`: the message was met.
    """

    def __init__(self, message_id: str | None = None) -> None:
        self.found = message_id is None
        self.ended: Ended | None = None
        self.seq = 0
        self._message_id = message_id
        self._closed = False
        self._request_id = ""
        self._text = ""

    def take(self, entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            self.seq = entry.seq
            if not self.found and self._message_id is not None:
                self.found = consumes(entry, self._message_id)
                if self.found and isinstance(entry, Withdrawn):
                    self.ended, self._closed = Ended("", "withdrawn", error=entry.error), True
            if self.found and not self._closed:
                self._apply(entry)

    def is_over(self, row: PodRow) -> bool:
        """Whether to wait no longer, given the row as it was before the entries were read."""
        if row.status == "ended":
            return True
        if self.ended is None:
            return False
        if self._closed:
            return True
        if self.ended.outcome == "waiting_on_children":
            return row.status not in ("running", "waiting_on_children")
        goes_on = self.ended.outcome in SUSPENDED and row.status == "running" and row.run_id == self.ended.run_id
        return not goes_on

    def _apply(self, entry: LogEntry) -> None:
        match entry:
            case Invoke():
                if self.ended is not None and self.ended.outcome != "waiting_on_children":
                    self._closed = True
                    return
                self.ended, self._text, self._request_id = None, "", ""
            case AssistantItems():
                self._continue()
                if entry.request_id != self._request_id:
                    self._request_id, self._text = entry.request_id, ""
                self._text += "".join(item.text for item in entry.items if item.type == "text")
            case ToolResults() | ToolStarted() | SystemItems():
                self._continue()
            case RunEnd():
                self.ended = Ended(entry.run_id, entry.outcome, self._text, entry.error)
            case _:
                pass

    def _continue(self) -> None:
        if self.ended is not None and self.ended.outcome in SUSPENDED:
            self.ended = None


def consumes(entry: LogEntry, message_id: str) -> bool:
    """Whether the message went into this entry."""
    match entry:
        case Invoke():
            return any(served.message_id == message_id for served in entry.serves)
        case UserInput() | Withdrawn() | QuestionClosed():
            return entry.message_id == message_id
        case SystemItems():
            return any(item.item_id == message_id for item in entry.items)
        case _:
            return False


def result_view(row: PodRow, ended: Ended | None) -> dict[str, Json]:
    """`{"status", "outcome", "text", "error?"}`; `outcome` null: not ended yet, or there was no run."""
    if ended is None:
        return {"status": row.status, "outcome": None, "text": ""}
    view: dict[str, Json] = {"status": row.status, "outcome": ended.outcome, "text": ended.text}
    if ended.error is not None:
        view["error"] = to_plain(ended.error)
    return view


def cancelled_view(entries: Sequence[LogEntry], seq: int) -> dict[str, Json]:
    """What a cancel did, from the log up to the commit that consumed it: the outcome, and prompts given back.

    `entries` begin with the run that was current, or behind the head of a Pod that was about to start one.
    """
    outcome: str | None = None
    inputs: dict[str, Json] = {}
    queued: dict[str, Json] = {}
    for entry in entries:
        if entry.seq > seq:
            break
        match entry:
            case Invoke():
                inputs, queued, outcome = {}, {}, None
            case UserInput():
                inputs[entry.message_id] = to_plain(entry.segments)
            case RunEnd():
                queued, outcome = {}, entry.outcome
            case Withdrawn():
                queued[entry.message_id] = to_plain(entry.segments)
            case _:
                pass
    back = {**inputs, **queued} if outcome == "withdrawn" else queued
    return {
        "outcome": outcome,
        "withdrawn": [{"message_id": message_id, "segments": segments} for message_id, segments in back.items()],
    }
