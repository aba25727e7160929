"""A model that repeats what a session's log says: its replies in order, request by request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from actors.models.scripted import read_text
from actors.models.timing import Timing
from actors.models.wire.openai_chat import OpenAIChatWire
from actors.models.wire.shape import as_object, as_text, estimated_usage
from actors.protocol.live import LiveSink
from actors.protocol.model import ModelError, ModelReply, ModelRequest, Usage
from session_store.codec import entry_from_plain
from session_store.entries import AssistantItems, LlmUsage, SegmentStart
from session_store.errors import UnreadableEntry
from session_store.items import AssistantItem, HistoryItem, Reasoning, Text, ToolCall


@dataclass(slots=True)
class Recording:
    """What one session's model said: `replies[n]` are the items of its n-th request."""

    pod_name: str = ""
    replies: dict[str, tuple[AssistantItem, ...]] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)


def read_recordings(lines: Iterable[str], source: str) -> dict[str, Recording]:
    """Recordings by session, from an exported log: one entry per line, bare or under `entry`, in the log's order.

    Lines without an entry's `type` are skipped. Raises `ModelError` (`settings`) for one that cannot be read.
    """
    recordings: dict[str, Recording] = {}
    session = ""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            plain = as_object(json.loads(line))
            entry = as_object(plain.get("entry", plain))
            session = as_text(plain.get("session")) or session
            if not isinstance(entry.get("type"), str):
                continue
            read = entry_from_plain(entry, int(entry.get("seq") or 0), 0)
        except (ValueError, TypeError, UnreadableEntry) as error:
            raise ModelError("settings", f"{source}, line {number}: not an entry of a log: {error}") from None
        recording = recordings.setdefault(session, Recording())
        match read:
            case SegmentStart(session=session, config=config):
                recordings.setdefault(session, Recording()).pod_name = as_text(config.get("name"))
            case AssistantItems(request_id=request_id, items=items):
                recording.replies[request_id] = recording.replies.get(request_id, ()) + items
            case LlmUsage():
                recording.usage[read.request_id] = Usage(
                    read.input, read.cache_read, read.cache_write, read.output, read.estimated
                )
            case _:
                pass
    return {key: recording for key, recording in recordings.items() if recording.replies}


class ReplayModel:
    """Request N of a Pod gets the N-th reply of the recording with the Pod's name, or of the only one there is."""

    def __init__(
        self, recordings: Mapping[str, Recording], name: str = "replay", context_window: int | None = None
    ) -> None:
        self._recordings = tuple(recordings.values())
        self._name = name
        self._context_window = context_window
        self._wire = OpenAIChatWire(name)
        self._timing = Timing()

    @classmethod
    def load(cls, path: str | Path, name: str = "replay", context_window: int | None = None) -> ReplayModel:
        """Read an exported log. Raises `ModelError` (`settings`)."""
        return cls(read_recordings(read_text(path, "log").split("\n"), str(path)), name, context_window)

    @property
    def name(self) -> str:
        return self._name

    @property
    def context_window(self) -> int | None:
        return self._context_window

    def encode(self, item: HistoryItem) -> bytes:
        return self._wire.encode(item)

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        started = self._timing.monotonic()
        named = [r for r in self._recordings if r.pod_name == request.pod_name]
        found = named or (self._recordings if len(self._recordings) == 1 else ())
        if not found or request.number > len(found[0].replies):
            raise ModelError(
                "script", f"the log has no reply to request {request.number} of the Pod {request.pod_name!r}"
            )
        request_id, said = list(found[0].replies.items())[request.number - 1]
        items = tuple(_renamed(item, f"{request.request_id}.1.{n}") for n, item in enumerate(said))
        for item in items:
            if isinstance(item, (Text, Reasoning)) and item.block is not None and item.text:
                live.text(request.request_id, item.block, item.text)
        calls = any(isinstance(i, ToolCall) for i in items)
        usage = found[0].usage.get(request_id) or estimated_usage(request, items)
        return ModelReply(items, usage, "tool_calls" if calls else "end", self._timing.since(started), self._name)

    async def close(self) -> None:
        """Nothing to close."""


def _renamed(item: AssistantItem, block: str) -> AssistantItem:
    """The item with a live block of its own: blocks are unique in a session."""
    match item:
        case Text(text=text):
            return Text(text, block)
        case Reasoning(text=text, provider=provider):
            return Reasoning(text, provider, block if text else None)
        case ToolCall():
            return item
