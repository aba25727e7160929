"""The Anthropic Messages wire.

Each history item is one message; SystemItems go as role `user` with their exact body. Thinking goes back verbatim with
its signature, and is left out without one. The prompt cache is marked behind tools, system prompt and the last two user
messages; the marks are spliced into kept bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from actors.models.wire.anthropic_decoder import AnthropicDecoder
from actors.models.wire.call_ids import encoded, unique, wire_ids
from actors.models.wire.json_bytes import Kept, dump
from actors.models.wire.openai_chat import sent_arguments, sent_name
from actors.models.wire.shape import Decoder
from actors.protocol.model import ModelRequest
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
    ToolResultGroup,
    UserMessage,
)

VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 8192
_USER = b'{"role":"user","content":[{"type":'
_END = b"}]}"
_CACHE = b',"cache_control":{"type":"ephemeral"}'
_CACHED_MESSAGES = 2
_NO_TEXT = "(no text)"
"""Stands for a message without a visible character, which the provider refuses."""


@dataclass(frozen=True, slots=True)
class AnthropicWire:
    """`body` are further fields of the request (thinking, temperature, …). `cache` False sets no cache marks."""

    model: str
    max_output_tokens: int = DEFAULT_MAX_TOKENS
    cache: bool = True
    below_version: bool = False
    body: dict[str, Json] = field(default_factory=dict)
    _dumped: Kept[Sequence[ToolSpec]] = field(default_factory=lambda: Kept(_dump_tools), compare=False, repr=False)

    @property
    def path(self) -> str:
        """`below_version`: the base URL ends with the version already."""
        return "/messages" if self.below_version else "/v1/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        version = {"anthropic-version": VERSION}
        return version if key is None else {**version, "x-api-key": key}

    def encode(self, item: HistoryItem) -> bytes:
        match item:
            case UserMessage():
                return _user(item.text)
            case SystemMessage():
                return _user(item.item.body)
            case AssistantMessage():
                return _assistant(item)
            case ToolResultGroup():
                return _results(item)
            case _:
                assert_never(item)

    def assemble(self, request: ModelRequest) -> bytes:
        messages = [m for m in unique(request.history) if m]
        if self.cache:
            _mark_last(messages)
        head = {"model": self.model, "max_tokens": self.max_output_tokens, **self.body, "stream": True}
        parts = [dump(head)[:-1], self._tools(request.tools), self._system(request.system_prompt)]
        return b"".join((*parts, b',"messages":[', b",".join(messages), b"]}"))

    def decoder(self, prefix: str) -> Decoder:
        return AnthropicDecoder(prefix)

    def _tools(self, tools: Sequence[ToolSpec]) -> bytes:
        return b',"tools":' + self._marked(self._dumped(tools)) if tools else b""

    def _system(self, prompt: str) -> bytes:
        if not prompt.strip():
            return b""
        return b',"system":' + self._marked(dump([{"type": "text", "text": prompt}]))

    def _marked(self, blocks: bytes) -> bytes:
        """A list of blocks with a cache mark on its last one."""
        return blocks[:-2] + _CACHE + blocks[-2:] if self.cache else blocks


def _dump_tools(tools: Sequence[ToolSpec]) -> bytes:
    return dump([{"name": t.name, "description": t.description, "input_schema": t.parameters} for t in tools])


def _mark_last(messages: list[bytes]) -> None:
    """Put a cache mark on the last block of the last user messages."""
    left = _CACHED_MESSAGES
    for place in range(len(messages) - 1, -1, -1):
        if left and messages[place].startswith(_USER):
            messages[place] = messages[place][: -len(_END)] + _CACHE + _END
            left -= 1
        if not left:
            return


def _user(text: str) -> bytes:
    return _USER + b'"text","text":' + dump(text if text.strip() else _NO_TEXT) + _END


def _assistant(message: AssistantMessage) -> bytes:
    """Empty when nothing of it can be sent."""
    ids = iter(wire_ids(c.call_id for c in message.calls))
    pieces: list[bytes | str] = []
    for item in message.items:
        block = _block(item, ids)
        if block:
            pieces += [b"," if pieces else b'{"role":"assistant","content":[', *block]
    return encoded([*pieces, b"]}"], answers=False) if pieces else b""


def _block(item: AssistantItem, ids: Iterator[str]) -> list[bytes | str]:
    match item:
        case Text(text=text):
            return [dump({"type": "text", "text": text})] if text.strip() else []
        case Reasoning(text=text, provider=provider):
            if "data" in provider:
                return [dump({"type": "redacted_thinking", "data": provider["data"]})]
            if "signature" in provider:
                return [dump({"type": "thinking", "thinking": text, "signature": provider["signature"]})]
            return []
        case ToolCall():
            rest = dump({"name": sent_name(item.name), "input": sent_arguments(item)})[1:]
            return [b'{"type":"tool_use","id":"', next(ids), b'",' + rest]
        case _:
            assert_never(item)


def _results(group: ToolResultGroup) -> bytes:
    pieces: list[bytes | str] = []
    start = _USER + b'"tool_result","tool_use_id":"'
    for result, call_id in zip(group.results, wire_ids(r.call_id for r in group.results), strict=True):
        content = result.content if result.content is not None else result.summary
        error = b',"is_error":true' if result.status != "ok" else b""
        body = b',"content":' + dump(content) if content else b""
        pieces += (start, call_id, b'"' + body + error + b"}")
        start = b',{"type":"tool_result","tool_use_id":"'
    return encoded([*pieces, b"]}"], answers=True)
