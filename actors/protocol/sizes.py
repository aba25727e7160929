"""Tokens where nobody has measured them: an estimate from UTF-8 bytes. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from session_store.codec import to_plain
from session_store.entries import ToolSpec
from session_store.items import (
    AssistantItem,
    AssistantMessage,
    HistoryItem,
    Json,
    Reasoning,
    SystemMessage,
    Text,
    ToolResult,
    ToolResultGroup,
    UserMessage,
)

BYTES_PER_TOKEN = 3.3
"""Of UTF-8; Japanese runs at about 2.2 characters a token (measured)."""
FRAME = 16
"""Bytes that a wire puts around an item."""


def tokens(text: str) -> int:
    """An estimate for `text`."""
    return in_tokens(text_bytes(text))


def in_tokens(size: int) -> int:
    """An estimate for so many bytes of UTF-8."""
    return math.ceil(size / BYTES_PER_TOKEN)


def text_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def item_bytes(item: HistoryItem) -> int:
    """What one item of a history is to a request, about."""
    match item:
        case UserMessage():
            return FRAME + text_bytes(item.text)
        case AssistantMessage(items=items):
            return sum(map(said_bytes, items))
        case ToolResultGroup(results=results):
            return sum(map(result_bytes, results))
        case SystemMessage(item=told):
            return FRAME + text_bytes(told.body)


def said_bytes(item: AssistantItem) -> int:
    match item:
        case Text(text=text):
            return FRAME + text_bytes(text)
        case Reasoning(text=text, provider=provider):
            return FRAME + text_bytes(text) + (text_bytes(_json(provider)) if provider else 0)
        case _:
            arguments = item.raw if item.arguments is None else _json(item.arguments)
            return FRAME + text_bytes(item.name) + text_bytes(arguments or "")


def result_bytes(result: ToolResult) -> int:
    return FRAME + text_bytes(result.summary if result.content is None else result.content)


def frame_bytes(system_prompt: str, tools: Sequence[ToolSpec]) -> int:
    """What stands before every history: the system prompt and the tools."""
    return text_bytes(system_prompt) + text_bytes(_json([to_plain(tool) for tool in tools]))


def without_middle(text: str, budget: int) -> str:
    """At most about `budget` tokens of the text: its beginning and its end, and how much is missing between."""
    size = tokens(text)
    if size <= budget:
        return text
    share = max(1, int(len(text) * budget / size) // 2)
    while tokens(text[:share]) + tokens(text[-share:]) > budget and share > 1:
        share = share * 9 // 10
    return f"{text[:share]} [... {len(text) - 2 * share} characters left out ...] {text[-share:]}"


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
