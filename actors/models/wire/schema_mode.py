"""Tool calls through `response_format`, for servers and models that are weak at calling tools.

The tools are described in the system prompt and each reply must be one JSON object: `{"tool", "arguments"}` for one
call, or `{"answer"}` to end. History is sent as plain messages in the same words. The request goes over the Chat
Completions wire.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from actors.models.wire.blocks import Decoded, LiveText, finish, parse_arguments, whole_characters
from actors.models.wire.json_bytes import dump, dump_text
from actors.models.wire.openai_chat import OpenAIChatWire, assemble, request_head, sent_arguments, user_message
from actors.models.wire.openai_decoder import OpenAIDecoder
from actors.models.wire.shape import Decoder, spoken
from actors.models.wire.sse import SseEvent
from actors.protocol.model import ModelError, ModelRequest
from session_store.entries import ToolSpec
from session_store.items import (
    AssistantItem,
    AssistantMessage,
    HistoryItem,
    Json,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResultGroup,
    UserMessage,
)

_UNITS = re.compile(
    r'(?:[^"\\]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\[^u])*'
)
"""Whole characters of a JSON string: a surrogate pair is one."""
_ANSWER = re.compile(r'\s*\{\s*"answer"\s*:\s*"')
_TOOL = re.compile(r'\s*\{\s*"tool"\s*:\s*"((?:[^"\\]|\\.)*)"')
_KEPT = frozenset(
    {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "prefixItems",
        "enum",
        "const",
        "anyOf",
        "oneOf",
    }
)
"""Keywords of a schema that stay in the grammar asked for."""
_MAX_REFERENCES = 20


@dataclass(frozen=True, slots=True)
class SchemaWire:
    chat: OpenAIChatWire

    @property
    def path(self) -> str:
        return self.chat.path

    def headers(self, key: str | None) -> dict[str, str]:
        return self.chat.headers(key)

    def encode(self, item: HistoryItem) -> bytes:
        match item:
            case UserMessage() | SystemMessage():
                return self.chat.encode(item)
            case AssistantMessage():
                return b'{"role":"assistant","content":' + dump(_written(item)) + b"}"
            case ToolResultGroup():
                return user_message("\n\n".join(map(_result, item.results)))
            case _:
                assert_never(item)

    def assemble(self, request: ModelRequest) -> bytes:
        if not request.tools:
            return assemble(request_head(self.chat), request, b"")
        prompt = f"{request.system_prompt}\n\n{describe(request.tools, request.must_call)}".strip()
        shape = {"name": "reply", "strict": True, "schema": reply_schema(request.tools, request.must_call)}
        tail = b',"response_format":' + dump({"type": "json_schema", "json_schema": shape})
        return assemble(request_head(self.chat), replace(request, system_prompt=prompt), tail)

    def decoder(self, prefix: str) -> Decoder:
        return SchemaDecoder(prefix)


class SchemaDecoder:
    """Live is reasoning, and the answer's own text as its JSON string grows."""

    def __init__(self, prefix: str) -> None:
        self._chat = OpenAIDecoder(prefix)
        self._block = f"{prefix}.answer"
        self._call_id = f"call_{prefix}"
        self._answer = AnswerReader()

    @property
    def complete(self) -> bool:
        return self._chat.complete

    @property
    def done(self) -> bool:
        return self._chat.done

    def feed(self, event: SseEvent) -> list[LiveText]:
        return self._translate(self._chat.feed(event))

    def end(self) -> tuple[Decoded, list[LiveText]]:
        decoded, rest = self._chat.end()
        live = self._translate(rest)
        native = tuple(i for i in decoded.items if isinstance(i, ToolCall))
        read = native or self._read(spoken(decoded.items))
        shown = len(self._answer.text)
        live += [LiveText(self._block, i.text[shown:]) for i in read if isinstance(i, Text) and i.text[shown:]]
        items = tuple(i for i in decoded.items if isinstance(i, Reasoning)) + read
        stop = decoded.stop
        if stop in ("end", "tool_calls"):
            stop = "tool_calls" if any(isinstance(i, ToolCall) for i in items) else "end"
        return finish(replace(decoded, items=items, stop=stop)), live

    def fail(self, error: ModelError) -> ModelError:
        """A broken reply keeps no text: half an object is neither an answer nor a call."""
        failed = self._chat.fail(error)
        failed.kept = tuple(i for i in failed.kept if isinstance(i, Reasoning))
        return failed

    def _translate(self, live: list[LiveText]) -> list[LiveText]:
        """Reasoning as it is; of the object only what is new of the answer."""
        shown = [text for text in live if text.reasoning]
        if new := self._answer.add("".join(text.text for text in live if not text.reasoning)):
            shown.append(LiveText(self._block, new))
        return shown

    def _read(self, written: str) -> tuple[AssistantItem, ...]:
        """What the model's JSON says. Words that are no object are an answer; a broken object is a call with a
        problem, unless it is an answer that the output limit cut."""
        try:
            value = json.loads(written)
        except (ValueError, RecursionError):
            return self._salvage(written)
        if isinstance(value, dict) and isinstance(value.get("tool"), str):
            arguments, problem = parse_arguments(dump_text(value.get("arguments", {})))
            raw = None if problem is None else written
            return (ToolCall(self._call_id, whole_characters(value["tool"]), arguments, raw, problem),)
        if isinstance(value, dict) and isinstance(value.get("answer"), str):
            return self._text(whole_characters(value["answer"]))
        return self._text(written)

    def _salvage(self, written: str) -> tuple[AssistantItem, ...]:
        if self._answer.text:
            return self._text(self._answer.text)
        if tool := _TOOL.match(written):
            problem = "the call is not whole JSON; it may have been cut off"
            return (ToolCall(self._call_id, tool[1], None, written, problem),)
        return self._text(written)

    def _text(self, text: str) -> tuple[AssistantItem, ...]:
        return (Text(text, self._block),) if text.strip() else ()


class AnswerReader:
    """Reads the string of `{"answer": "…` while it grows, in whole characters."""

    def __init__(self) -> None:
        self.text = ""
        self._written = ""
        self._at: int | None = None
        self._new_at = 0

    def add(self, piece: str) -> str:
        """Take more of the object; give what is new of the answer's text."""
        if not piece:
            return ""
        self._written = self._written[self._new_at :] + piece
        self._new_at = 0
        if self._at is None:
            if (start := _ANSWER.match(self._written)) is None:
                return ""
            self._at = self._new_at = start.end()
        units = _UNITS.match(self._written, self._new_at)
        body = units[0] if units else ""
        self._new_at += len(body)
        try:
            new = whole_characters(json.loads(f'"{body}"', strict=False))
        except ValueError:
            return ""
        if not self.text and not new.strip():
            self._new_at -= len(body)
            return ""
        self.text += new
        return new


def describe(tools: Sequence[ToolSpec], must_call: bool = False) -> str:
    """The tools in words, for the system prompt."""
    lines = [
        "Reply with one JSON object and nothing else.",
        'To use a tool: {"tool": NAME, "arguments": {...}}. You will be told its result.',
        *([] if must_call else ['When you have finished: {"answer": TEXT}.']),
        "Tools:",
    ]
    lines += [f"- {t.name}: {t.description} Arguments: {dump_text(t.parameters)}" for t in tools]
    return "\n".join(lines)


def reply_schema(tools: Sequence[ToolSpec], must_call: bool = False) -> dict[str, Json]:
    """One of the calls, or an answer (unless it `must_call`)."""
    answer = _object({"answer": {"type": "string"}})
    calls = [_object({"tool": {"const": t.name}, "arguments": _shape(t.parameters)}) for t in tools]
    return {"anyOf": calls if must_call else [*calls, answer]}


def _object(properties: dict[str, Json]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _shape(schema: dict[str, Json]) -> Json:
    """The schema reduced to what a weak server's grammar can hold: types, properties, choices.

    Its own `$defs` are put in place, since it moves to a deeper level; recursive ones become free. Lengths, ranges and
    patterns are left out (llama.cpp refuses long repetitions and unanchored patterns): the tool checks them itself.
    """
    keys = ("$defs", "definitions")
    named = {f"#/{key}/{name}": value for key in keys for name, value in schema.get(key, {}).items()}

    def put(value: Json, depth: int) -> Json:
        if isinstance(value, list):
            return [put(v, depth) for v in value]
        if not isinstance(value, dict):
            return value
        if isinstance(name := value.get("$ref"), str):
            return put(named.get(name, {}), depth + 1) if depth < _MAX_REFERENCES else {}
        return {k: put_named(v, depth) if k == "properties" else put(v, depth) for k, v in value.items() if k in _KEPT}

    def put_named(properties: dict[str, Json], depth: int) -> Json:
        return {name: put(value, depth) for name, value in properties.items()}

    return put(schema, 0)


def _written(message: AssistantMessage) -> str:
    """A reply as the model would have written it in this mode."""
    said = [dump_text({"answer": text})] if (text := spoken(message.items)) else []
    calls = [dump_text({"tool": c.name, "arguments": sent_arguments(c)}) for c in message.calls]
    return "\n".join([*said, *calls])


def _result(result: ToolResult) -> str:
    content = result.content if result.content is not None else result.summary
    state = "" if result.status == "ok" else f" ({result.status.replace('_', ' ')})"
    return f"Result of {result.name}{state}:\n{content}"
