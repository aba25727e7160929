"""An Anthropic Messages stream as a state machine: events in, live text out, the reply at the end.

Blocks of kinds that are not ours (server tools and their results, fallback notes) are skipped with their deltas, as are
unknown events. A whole message instead of a stream is read too.
"""

from __future__ import annotations

import json

from actors.models.wire.blocks import Call, Decoded, LiveText, Prose, ReplyBlocks, broken, finish
from actors.models.wire.refusals import error_event
from actors.models.wire.shape import as_object, as_objects, as_text, broken_stream, whole_number
from actors.models.wire.sse import SseEvent
from actors.protocol.model import ModelError, StopReason, Usage
from session_store.items import Json

_STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
}
_USAGE = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


class AnthropicDecoder:
    def __init__(self, prefix: str) -> None:
        self._blocks = ReplyBlocks(prefix)
        self._open: dict[int, Prose | Call | None] = {}
        self._stop: StopReason | None = None
        self._why: str | None = None
        self._usage: dict[str, int] = {}
        self._model: str | None = None
        self._done = False

    @property
    def complete(self) -> bool:
        return self._stop is not None

    @property
    def done(self) -> bool:
        return self._done

    def feed(self, event: SseEvent) -> list[LiveText]:
        try:
            plain = json.loads(event.data)
        except (ValueError, RecursionError):
            if self.complete or event.name == "ping":
                return []
            raise broken_stream("an event of the stream is not JSON") from None
        data = as_object(plain)
        match as_text(data.get("type")) or event.name:
            case "message_start":
                self._head(as_object(data.get("message")))
            case "content_block_start":
                return self._start(whole_number(data, "index"), as_object(data.get("content_block")))
            case "content_block_delta":
                return self._delta(whole_number(data, "index"), as_object(data.get("delta")))
            case "content_block_stop":
                return self._end_block(whole_number(data, "index"))
            case "message_delta":
                self._count(as_object(data.get("usage")))
                return self._stopped(as_object(data.get("delta")))
            case "message_stop":
                self._done = True
            case "message" if "content" in data:
                return self._whole(data)
            case "error":
                raise error_event(data.get("error") or data)
            case _:
                pass
        return []

    def end(self) -> tuple[Decoded, list[LiveText]]:
        if self._stop is None:
            raise broken_stream("the stream ended without a stop reason")
        live = self._blocks.close_prose()
        decoded = Decoded(self._blocks.items(cut=True), self._normal_usage(), self._stop, self._model)
        return finish(decoded, self._why), live

    def fail(self, error: ModelError) -> ModelError:
        return broken(self._blocks, error)

    def _head(self, message: dict[str, Json]) -> None:
        self._model = as_text(message.get("model")) or self._model
        self._count(as_object(message.get("usage")))

    def _start(self, index: int | None, block: dict[str, Json]) -> list[LiveText]:
        index = len(self._open) if index is None else index
        match block.get("type"):
            case "text":
                self._open[index] = prose = self._blocks.prose(reasoning=False)
                return self._add(prose, as_text(block.get("text")))
            case "thinking":
                self._open[index] = prose = self._blocks.prose(reasoning=True)
                self._sign(prose, as_text(block.get("signature")))
                return self._add(prose, as_text(block.get("thinking")))
            case "redacted_thinking":
                self._open[index] = prose = self._blocks.prose(reasoning=True)
                prose.provider["data"] = block.get("data")
            case "tool_use":
                self._open[index] = call = self._blocks.call()
                call.call_id, call.name = as_text(block.get("id")), as_text(block.get("name"))
                call.given = as_object(block.get("input"))
            case _:
                self._open[index] = None
        return []

    def _delta(self, index: int | None, delta: dict[str, Json]) -> list[LiveText]:
        if index is None or index not in self._open:
            raise broken_stream("a piece of a block came that never began")
        match self._open[index], delta.get("type"):
            case Prose() as prose, "text_delta":
                return self._add(prose, as_text(delta.get("text")))
            case Prose() as prose, "thinking_delta":
                return self._add(prose, as_text(delta.get("thinking")))
            case Prose() as prose, "signature_delta":
                self._sign(prose, as_text(delta.get("signature")))
            case Call() as call, "input_json_delta":
                call.parts.append(as_text(delta.get("partial_json")))
            case _:
                pass
        return []

    def _end_block(self, index: int | None) -> list[LiveText]:
        match self._open.get(index) if index is not None else None:
            case Prose() as prose:
                rest = prose.close()
                return [LiveText(prose.name, rest)] if rest else []
            case Call() as call:
                call.closed = True
            case None:
                pass
        return []

    def _stopped(self, delta: dict[str, Json]) -> list[LiveText]:
        reason = as_text(delta.get("stop_reason"))
        if not reason:
            return []
        self._stop = _STOPS.get(reason, "end")
        details = as_object(delta.get("stop_details"))
        self._why = as_text(details.get("explanation")) or None
        return self._blocks.close_prose()

    def _whole(self, message: dict[str, Json]) -> list[LiveText]:
        self._head(message)
        live: list[LiveText] = []
        for index, block in enumerate(as_objects(message.get("content"))):
            live += self._start(index, block)
            live += self._end_block(index)
        self._done = True
        return live + self._stopped(message)

    def _add(self, prose: Prose, words: str) -> list[LiveText]:
        text = prose.add(words) if words and not prose.closed else ""
        return [LiveText(prose.name, text)] if text else []

    def _sign(self, prose: Prose, signature: str) -> None:
        if signature:
            prose.provider["signature"] = prose.provider.get("signature", "") + signature

    def _count(self, usage: dict[str, Json]) -> None:
        for name in _USAGE:
            if (value := whole_number(usage, name)) is not None:
                self._usage[name] = value

    def _normal_usage(self) -> Usage | None:
        """Anthropic's `input_tokens` are what is beside the cache; ours are the whole prompt."""
        if "input_tokens" not in self._usage:
            return None
        beside, read, written, output = (self._usage.get(name, 0) for name in _USAGE)
        return Usage(beside + read + written, read, written, output)
