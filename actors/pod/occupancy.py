"""How full the model's context is: what the last request measured, and an estimate of what was added since. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.sizes import FRAME, frame_bytes, in_tokens, item_bytes, result_bytes, said_bytes, text_bytes
from session_store.entries import (
    AssistantItems,
    Invoke,
    LlmUsage,
    LogEntry,
    RunEnd,
    SegmentStart,
    SystemItems,
    ToolResults,
    UserInput,
)
from session_store.items import UserMessage
from session_store.restore import ATTACHMENT_KINDS


@dataclass(slots=True)
class Occupancy:
    """`measured` are tokens of the last request; `added` and `frame` are bytes.

    The usage of a request stands behind the reply that it brought, which the request did not hold. `frame` is the
    system prompt and the tools; it is part of what is measured.
    """

    measured: int = 0
    added: int = 0
    frame: int = 0
    _reply: int = 0
    _request_id: str = ""
    _given: int = 0
    """Bytes of what the run was given: they leave with it if it is withdrawn."""

    @property
    def tokens(self) -> int:
        """Of the next request, about."""
        return max(0, self.measured + in_tokens(self.added))

    def apply(self, entry: LogEntry) -> None:
        """Take one entry, in order of seq. A rewind is not followed: fold the present entries anew."""
        match entry:
            case SegmentStart():
                self.frame = frame_bytes(entry.system_prompt, entry.tools)
                self.measured, self._reply = 0, 0
                self.added = self.frame + sum(map(item_bytes, entry.history))
            case Invoke():
                self._given = 0
            case UserInput():
                self._give(FRAME + text_bytes(UserMessage(entry.segments, "", "").text))
            case SystemItems():
                for item in entry.items:
                    size = FRAME + text_bytes(item.body)
                    if item.kind in ATTACHMENT_KINDS:
                        self._give(size)
                    else:
                        self.added += size
            case AssistantItems():
                size = sum(map(said_bytes, entry.items))
                self._reply = size if entry.request_id != self._request_id else self._reply + size
                self._request_id = entry.request_id
                self.added += size
            case ToolResults():
                self.added += sum(map(result_bytes, entry.results))
            case LlmUsage() if entry.input > 0:
                self.measured = entry.input
                self.added = self._reply if entry.request_id == self._request_id else 0
            case RunEnd(outcome="withdrawn"):
                self.added -= self._given
                self._given = 0
            case _:
                pass

    def _give(self, size: int) -> None:
        self.added += size
        self._given += size
