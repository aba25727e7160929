"""What a wire is: the two halves that `endpoint` puts together, and what both wires share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from actors.models.wire.blocks import Decoded, LiveText
from actors.models.wire.sse import SseEvent
from actors.protocol.model import ModelError, ModelRequest, Usage
from session_store.items import AssistantItem, HistoryItem, Json, Text, ToolCall

BYTES_PER_TOKEN = 3.3


class Decoder(Protocol):
    """Events in, live text out, the reply at the end. One for each attempt."""

    @property
    def complete(self) -> bool:
        """The reason to stop has come: from here on the reply is whole, even if the rest of the stream is cut."""

    @property
    def done(self) -> bool:
        """The end marker has come: nothing more need be read."""

    def feed(self, event: SseEvent) -> list[LiveText]:
        """Raises `ModelError` for an error event or one that cannot be read."""

    def end(self) -> tuple[Decoded, list[LiveText]]:
        """The whole reply and the last live text. Raises `ModelError`: broken, empty or refused."""

    def fail(self, error: ModelError) -> ModelError:
        """`error` as the outcome of this stream: broken, with what is kept, if output had begun."""


class Wire(Protocol):
    """A provider's way of speaking, free of I/O."""

    @property
    def path(self) -> str:
        """The path below the base URL."""

    def headers(self, key: str | None) -> dict[str, str]: ...

    def encode(self, item: HistoryItem) -> bytes:
        """One or several comma-joined JSON objects; empty if the item has nothing to send."""

    def assemble(self, request: ModelRequest) -> bytes: ...

    def decoder(self, prefix: str) -> Decoder: ...


def broken_stream(why: str) -> ModelError:
    return ModelError("broken_stream", f"the reply broke off: {why}")


def estimate(size: int) -> int:
    """Tokens of `size` bytes of UTF-8."""
    return math.ceil(size / BYTES_PER_TOKEN)


def estimated_usage(request: ModelRequest, items: Iterable[AssistantItem]) -> Usage:
    """Usage when the provider reports none: bytes of what was sent and of what came back, by `BYTES_PER_TOKEN`."""
    return Usage(input=prompt_tokens(request), output=estimate(_output_bytes(items)), estimated=True)


def prompt_tokens(request: ModelRequest) -> int:
    """An estimate of the prompt: history as sent, system prompt, tool descriptions."""
    tools = sum(len(t.name) + len(t.description) + len(str(t.parameters)) for t in request.tools)
    return estimate(sum(map(len, request.history)) + len(request.system_prompt.encode("utf-8", "replace")) + tools)


def _output_bytes(items: Iterable[AssistantItem]) -> int:
    size = 0
    for item in items:
        if isinstance(item, ToolCall):
            size += len(item.name) + len(item.raw if item.raw is not None else str(item.arguments))
        else:
            size += len(item.text.encode("utf-8", "replace"))
    return size


def whole_number(source: Mapping[str, Json], *names: str) -> int | None:
    """The first of the named fields that is a count."""
    for name in names:
        value = source.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def as_object(value: Any) -> dict[str, Json]:
    """The value if it is a JSON object, else an empty one: providers leave out and null what they like."""
    return value if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[dict[str, Json]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def spoken(items: Iterable[AssistantItem]) -> str:
    """The texts of a message, joined."""
    return "".join(i.text for i in items if isinstance(i, Text))
