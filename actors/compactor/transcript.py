"""What the worker is shown of a history: one line of JSON per item. Pure.

Shown are who spoke and the words, calls with their arguments, results, and what polypod said; no reasoning. Long texts
lose their middle, and say so. As JSON each item is one line, so that no text can pass for another item.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from actors.protocol.sizes import in_tokens, text_bytes, without_middle
from session_store.items import AssistantMessage, HistoryItem, Json, SystemMessage, Text, ToolCall, UserMessage
from session_store.messages import USER

RESULT_TOKENS = 2_000
"""Of one tool result. What matters of a longer one, the replies after it tell."""
ARGUMENT_TOKENS = 600
TEXT_TOKENS = 12_000
LEAST_LINE = 60
"""Tokens that each long line keeps when all have to be shorter."""


def transcript(items: Iterable[HistoryItem], budget: int) -> str:
    """The items in about `budget` tokens: first every long line gives, then the middle of the whole."""
    lines = [json.dumps(line, ensure_ascii=False) for item in items for line in _lines(item)]
    if in_tokens(sum(map(text_bytes, lines)) + len(lines)) > budget:
        share = max(LEAST_LINE, budget // max(1, len(lines)))
        lines = [without_middle(line, share) for line in lines]
    return without_middle("\n".join(lines), budget)


def _lines(item: HistoryItem) -> Iterator[dict[str, Json]]:
    match item:
        case UserMessage(sender=sender):
            who = "user" if sender == USER else "another Pod"
            yield {"who": who, "text": without_middle(item.text, TEXT_TOKENS)}
        case AssistantMessage(items=said):
            for part in said:
                if isinstance(part, Text) and part.text.strip():
                    yield {"who": "assistant", "text": without_middle(part.text, TEXT_TOKENS)}
                elif isinstance(part, ToolCall):
                    arguments = part.raw if part.arguments is None else json.dumps(part.arguments, ensure_ascii=False)
                    yield {
                        "who": "assistant",
                        "calls": part.name,
                        "with": without_middle(arguments or "", ARGUMENT_TOKENS),
                    }
        case SystemMessage(item=told):
            yield {"who": "polypod", "kind": told.kind, "text": without_middle(told.body, TEXT_TOKENS)}
        case group:
            for result in group.results:
                text = result.summary if result.content is None else result.content
                yield {
                    "who": "tool",
                    "tool": result.name,
                    "status": result.status,
                    "text": without_middle(text, RESULT_TOKENS),
                }
