"""A Chat Completions stream as a state machine: chunks in, live text out, the reply at the end.

Quirks met in recorded streams and taken in: calls without an index (each named piece is a call), all calls at index 0
(a new id with a name is a new call), the id or name repeated with every piece, empty ids in later pieces, reasoning as
`reasoning_content` or `reasoning`, content as a list of parts, usage with the last choice or after it, and a whole
reply (`message`) instead of a stream. A role the reply claims is ignored.
"""

from __future__ import annotations

import json

from actors.models.wire.blocks import Call, Decoded, LiveText, Prose, ReplyBlocks, broken, finish
from actors.models.wire.refusals import error_event
from actors.models.wire.shape import as_object, as_objects, as_text, broken_stream, whole_number
from actors.models.wire.sse import SseEvent
from actors.protocol.model import ModelError, StopReason, Usage
from session_store.items import Json, ToolCall

_STOPS: dict[str, StopReason] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refusal",
}


class OpenAIDecoder:
    def __init__(self, prefix: str) -> None:
        self._blocks = ReplyBlocks(prefix)
        self._calls: dict[int, Call] = {}
        self._next_index = 0
        self._stop: StopReason | None = None
        self._refusal = ""
        self._usage: Usage | None = None
        self._model: str | None = None
        self._done = False

    @property
    def complete(self) -> bool:
        return self._stop is not None

    @property
    def done(self) -> bool:
        return self._done

    def feed(self, event: SseEvent) -> list[LiveText]:
        data = event.data.strip()
        if data == "[DONE]":
            self._done = True
            return []
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            if self.complete:
                return []
            raise broken_stream("an event of the stream is not JSON") from None
        if not isinstance(chunk, dict):
            return []
        if chunk.get("error") or (event.name == "error" and not chunk.get("choices")):
            raise error_event(chunk.get("error") or chunk)
        if isinstance(chunk.get("usage"), dict):
            self._usage = usage_of(chunk["usage"])
        self._model = as_text(chunk.get("model")) or self._model
        live: list[LiveText] = []
        for choice in as_objects(chunk.get("choices")):
            if whole_number(choice, "index") in (None, 0):
                live += self._choice(choice)
        return live

    def end(self) -> tuple[Decoded, list[LiveText]]:
        if self._stop is None:
            raise broken_stream("the stream ended without a finish reason")
        live = self._blocks.close_prose()
        items = self._blocks.items(cut=self._stop == "length")
        stop = self._stop
        if stop == "end" and any(isinstance(i, ToolCall) for i in items):
            stop = "tool_calls"
        return finish(Decoded(items, self._usage, stop, self._model), self._refusal), live

    def fail(self, error: ModelError) -> ModelError:
        return broken(self._blocks, error)

    def _choice(self, choice: dict[str, Json]) -> list[LiveText]:
        delta = as_object(choice.get("delta")) or as_object(choice.get("message"))
        live: list[LiveText] = []
        for name in ("reasoning_content", "reasoning"):
            if words := as_text(delta.get(name)):
                live += self._prose(words, reasoning=True, field=name)
                break
        live += self._content(delta.get("content"))
        if words := as_text(delta.get("refusal")):
            self._refusal += words
            self._stop = "refusal"
            live += self._prose(words, reasoning=False)
        for piece in as_objects(delta.get("tool_calls")):
            live += self._call(piece)
        if (reason := choice.get("finish_reason")) and self._stop != "refusal":
            self._stop = _STOPS.get(str(reason), "end")
        if self._stop is not None:
            live += self._blocks.close_prose()
        return live

    def _content(self, content: Json) -> list[LiveText]:
        if isinstance(content, str):
            return self._prose(content, reasoning=False)
        live: list[LiveText] = []
        for part in as_objects(content):
            if part.get("type") == "thinking":
                words = "".join(as_text(p.get("text")) for p in as_objects(part.get("thinking")))
                live += self._prose(words or as_text(part.get("thinking")), reasoning=True, field="content")
            else:
                live += self._prose(as_text(part.get("text")), reasoning=False)
        return live

    def _prose(self, words: str, reasoning: bool, field: str | None = None) -> list[LiveText]:
        """Text of one kind goes on in the last block if that is of the kind and open; otherwise a new one begins."""
        if not words:
            return []
        last = self._blocks.last()
        if isinstance(last, Prose) and last.reasoning == reasoning and not last.closed:
            block, live = last, []
        else:
            live = self._blocks.close_prose()
            block = self._blocks.prose(reasoning)
        if field is not None:
            block.provider["field"] = field
        if text := block.add(words):
            live.append(LiveText(block.name, text, reasoning))
        return live

    def _call(self, piece: dict[str, Json]) -> list[LiveText]:
        function = as_object(piece.get("function"))
        call_id, name = as_text(piece.get("id")), as_text(function.get("name"))
        index = whole_number(piece, "index")
        if index is None:
            index = self._next_index if name or self._next_index == 0 else self._next_index - 1
        call = self._calls.get(index)
        live: list[LiveText] = []
        if call is None or (call_id and name and call.call_id and call_id != call.call_id):
            live = self._blocks.close_prose()
            call = self._calls[index] = self._blocks.call()
        self._next_index = max(self._next_index, index + 1)
        call.call_id = call.call_id or call_id
        call.name = call.name or name
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            call.given = arguments
        else:
            call.parts.append(as_text(arguments))
        return live


def usage_of(plain: dict[str, Json]) -> Usage | None:
    """OpenAI's `prompt_tokens` include cached ones. Some servers leave reasoning out of `completion_tokens`: the total
    tells."""
    prompt = whole_number(plain, "prompt_tokens", "input_tokens")
    if prompt is None:
        return None
    details = as_object(plain.get("prompt_tokens_details"))
    output = whole_number(plain, "completion_tokens", "output_tokens") or 0
    total = whole_number(plain, "total_tokens") or 0
    cached = whole_number(details, "cached_tokens")
    if cached is None:
        cached = whole_number(plain, "prompt_cache_hit_tokens", "cached_tokens") or 0
    written = whole_number(details, "cache_write_tokens", "cache_creation_tokens") or 0
    return Usage(
        input=prompt,
        cache_read=min(cached, prompt),
        cache_write=min(written, prompt - min(cached, prompt)),
        output=max(output, total - prompt),
    )
