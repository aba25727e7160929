"""The OpenAI Chat Completions wire, as OpenAI and the many servers that follow it speak it.

SystemItems go as role `user` with their exact body: many servers refuse a system message after the first place.
Reasoning is kept in the log and sent back only with the option `send_reasoning`, under the field it came in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from actors.models.wire.call_ids import encoded, unique, wire_ids
from actors.models.wire.json_bytes import Kept, dump, dump_text
from actors.models.wire.openai_decoder import OpenAIDecoder
from actors.models.wire.shape import Decoder, spoken
from actors.protocol.model import ModelRequest
from session_store.entries import ToolSpec
from session_store.items import (
    AssistantMessage,
    HistoryItem,
    Json,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResultGroup,
    UserMessage,
)

_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class OpenAIChatWire:
    """`body` are further fields of the request (temperature, …)."""

    model: str
    max_output_tokens: int | None = None
    max_tokens_field: str = "max_tokens"
    send_reasoning: bool = False
    body: dict[str, Json] = field(default_factory=dict)
    _tools: Kept[Sequence[ToolSpec]] = field(default_factory=lambda: Kept(dump_tools), compare=False, repr=False)

    @property
    def path(self) -> str:
        return "/chat/completions"

    def headers(self, key: str | None) -> dict[str, str]:
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def encode(self, item: HistoryItem) -> bytes:
        match item:
            case UserMessage():
                return user_message(item.text)
            case SystemMessage():
                return user_message(item.item.body)
            case AssistantMessage():
                return self._assistant(item)
            case ToolResultGroup():
                return _results(item)
            case _:
                assert_never(item)

    def assemble(self, request: ModelRequest) -> bytes:
        return assemble(request_head(self), request, self._tools(request.tools))

    def decoder(self, prefix: str) -> Decoder:
        return OpenAIDecoder(prefix)

    def _assistant(self, message: AssistantMessage) -> bytes:
        text = spoken(message.items)
        calls = message.calls
        pieces: list[bytes | str] = [b'{"role":"assistant","content":', dump(text) if text or not calls else b"null"]
        if self.send_reasoning:
            for name, words in _reasoning(message).items():
                pieces += (b",", dump(name), b":", dump(words))
        if not calls:
            return b"".join(p for p in pieces if isinstance(p, bytes)) + b"}"
        separator = b',"tool_calls":['
        for call, call_id in zip(calls, wire_ids(c.call_id for c in calls), strict=True):
            pieces += (separator + b'{"id":"', call_id, b'","type":"function","function":', _function(call), b"}")
            separator = b","
        return encoded([*pieces, b"]}"], answers=False)


def user_message(text: str) -> bytes:
    return b'{"role":"user","content":' + dump(text) + b"}"


def sent_name(name: str) -> str:
    """A tool's name as a strict provider accepts it: the model may have made one up."""
    return _NOT_IN_NAME.sub("_", name)[:64] or "unnamed"


def sent_arguments(call: ToolCall) -> dict[str, Json]:
    """The arguments as an object also when the model's were none: servers parse them while rendering the prompt."""
    return call.arguments if call.arguments is not None else {"unparsed_arguments": call.raw or ""}


def dump_tools(tools: Sequence[ToolSpec]) -> bytes:
    """The `tools` field with its leading comma, or nothing."""
    if not tools:
        return b""
    plain = [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
        for t in tools
    ]
    return b',"tools":' + dump(plain)


def request_head(wire: OpenAIChatWire) -> dict[str, Json]:
    """All fields but messages and tools."""
    head: dict[str, Json] = {"model": wire.model, "stream": True, "stream_options": {"include_usage": True}}
    if wire.max_output_tokens is not None:
        head[wire.max_tokens_field] = wire.max_output_tokens
    return {**head, **wire.body, "stream": True}


def assemble(head: dict[str, Json], request: ModelRequest, tail: bytes) -> bytes:
    """A body of `head`, the system prompt, the history as it was encoded, and `tail` (fields with a leading comma)."""
    messages: list[bytes] = []
    if request.system_prompt:
        messages.append(b'{"role":"system","content":' + dump(request.system_prompt) + b"}")
    messages.extend(filter(None, unique(request.history)))
    return b"".join((dump(head)[:-1], b',"messages":[', b",".join(messages), b"]", tail, b"}"))


def _function(call: ToolCall) -> bytes:
    return dump({"name": sent_name(call.name), "arguments": dump_text(sent_arguments(call))})


def _reasoning(message: AssistantMessage) -> dict[str, str]:
    """Reasoning by the field it came in."""
    fields: dict[str, str] = {}
    for item in message.items:
        if isinstance(item, Reasoning) and (name := item.provider.get("field")) in ("reasoning_content", "reasoning"):
            fields[name] = fields.get(name, "") + item.text
    return fields


def _results(group: ToolResultGroup) -> bytes:
    pieces: list[bytes | str] = []
    start = b'{"role":"tool","tool_call_id":"'
    for result, call_id in zip(group.results, wire_ids(r.call_id for r in group.results), strict=True):
        content = result.content if result.content is not None else result.summary
        pieces += (start, call_id, b'","content":', dump(content), b"}")
        start = b',{"role":"tool","tool_call_id":"'
    return encoded(pieces, answers=True)
