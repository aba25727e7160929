"""Requests and a live sink for tests of models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from actors.protocol.model import Model, ModelRequest
from session_store.entries import ToolSpec
from session_store.items import (
    AssistantItem,
    AssistantMessage,
    HistoryItem,
    Segment,
    SystemItem,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolResultGroup,
    UserMessage,
)

READ = ToolSpec(
    "Read",
    "Read a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "offset": {"type": "integer"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)


@dataclass
class Live:
    """Keeps what a model showed live."""

    texts: list[tuple[str, str]] = field(default_factory=list)
    retries: list[tuple[int, float, str]] = field(default_factory=list)
    discards: int = 0

    def text(self, request_id: str, block: str, text: str) -> None:
        assert text, "empty deltas say nothing"
        self.texts.append((block, text))

    def retry(self, request_id: str, attempt: int, wait: float, reason: str) -> None:
        self.retries.append((attempt, wait, reason))

    def discard(self, request_id: str) -> None:
        self.discards += 1
        self.texts.clear()

    def blocks(self) -> dict[str, str]:
        whole: dict[str, str] = {}
        for block, text in self.texts:
            whole[block] = whole.get(block, "") + text
        return whole


def user(text: str, message_id: str = "m1") -> UserMessage:
    return UserMessage((Segment("text", text),), message_id, "user")


def system(body: str, kind: str = "notification") -> SystemMessage:
    return SystemMessage(SystemItem(kind, "i1", {"message": body}, body))


def assistant(seq: int, *items: AssistantItem) -> AssistantMessage:
    return AssistantMessage(seq, f"r{seq}", items)


def results(seq: int, *calls: ToolCall, content: str | None = "done") -> ToolResultGroup:
    return ToolResultGroup(
        tuple(ToolResult(seq, i, c.call_id, c.name, "ok", "did it", content) for i, c in enumerate(calls))
    )


def request(
    model: Model | None = None,
    history: Iterable[HistoryItem] = (),
    *,
    number: int = 1,
    pod_name: str = "root",
    tools: tuple[ToolSpec, ...] = (READ,),
    system_prompt: str = "You work.",
    epoch: int = 1,
) -> ModelRequest:
    items = tuple(history) or (user("hello"),)
    encoded = [] if model is None else [model.encode(i) for i in items]
    return ModelRequest(f"q{number}", "s1", pod_name, number, system_prompt, tools, encoded, epoch)
