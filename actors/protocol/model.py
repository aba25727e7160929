"""The model port: one request in, one reply out, live text on the side.

A Pod encodes each history item once (`encode`) and keeps the bytes; a request is assembled from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from actors.protocol.live import LiveSink
from session_store.entries import ToolSpec
from session_store.items import AssistantItem, HistoryItem

StopReason: TypeAlias = Literal["end", "tool_calls", "length", "refusal", "pause"]
"""Why the reply ended: by itself, to have tools run, at the output limit, refused by the provider, or to go on."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request; `input` is the whole prompt, of which the cache figures are parts (for every provider).

    `estimated`: the provider reported nothing and the figures are UTF-8 bytes / 3.3 (FACTS: Japanese 2.2 characters a
    token).
    """

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    estimated: bool = False


class GrowingHistory(list[bytes]):
    """The encoded items of one Pod: only ever appended to, made anew when an item goes.

    `memo` is the wire's: what it found out about the items so far, so that a request costs what is new (law 9).
    """

    memo: object = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. `history[i]` is what `encode` gave for the i-th history item, oldest first.

    `must_call`: words alone are no reply. A wire that can hold the model to that does (`tool_mode = "schema"`); whoever
    asks checks the reply all the same.

    `number` counts the Pod's requests from 1 (the scripted model matches on it); `run_request` counts within the run.
    """

    request_id: str
    session: str
    pod_name: str
    number: int
    system_prompt: str
    tools: tuple[ToolSpec, ...]
    history: Sequence[bytes]
    epoch: int = 0
    run_request: int = 1
    must_call: bool = False


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A complete reply. `latency` in ms from the last attempt's sending to its end, `first_token` to the first text of
    it that was shown; `attempts` from 1."""

    items: tuple[AssistantItem, ...]
    usage: Usage
    stop: StopReason
    latency: int
    model: str
    attempts: int = 1
    first_token: int | None = None


@dataclass(slots=True)
class ModelError(Exception):
    """The request failed for good (its own retries are spent).

    `type` is one of `auth, bad_request, not_found, rate_limited, overloaded, server, connection, timeout,
    broken_stream, empty_reply, context_overflow, refused, script, settings`. `broken` says that the stream broke after
    output had begun: `kept` then holds the blocks that were complete before the break (text and reasoning only, never
    a call).
    `message` never contains a key.
    """

    type: str
    message: str
    broken: bool = False
    kept: tuple[AssistantItem, ...] = ()
    status: int | None = None
    detail: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Exception.__init__(self, self.type, self.message)

    def __str__(self) -> str:
        return f"{self.type}: {self.message}"


class Model(Protocol):
    """A model endpoint with its wire. One instance serves many Pods of a process; it holds no history."""

    @property
    def name(self) -> str:
        """The name people know it by (`[models.NAME]`)."""

    @property
    def context_window(self) -> int | None:
        """Tokens the model takes, if known."""

    def encode(self, item: HistoryItem) -> bytes:
        """One history item as this wire's bytes. Pure: the same item always gives the same bytes."""

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        """Carry the request out, with bounded retries. Cancellable at any await; closes its connection then.

        Blocks in `live` are named `<request_id>.<attempt>.<n>`; an abandoned attempt's blocks are discarded by
        `live.discard(request_id)` before the next begins. Raises `ModelError`.
        """

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class UnusableModel:
    """A model that cannot be had (a missing key, a script that is gone): every request fails with `error`.

    So its Pod's run ends with that error as any other would, and the next one may find the model again.
    """

    name: str
    error: ModelError
    context_window: int | None = None

    def encode(self, item: HistoryItem) -> bytes:
        return b""

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        """Raises `ModelError`: a new one each time, since it will carry a traceback."""
        raise ModelError(self.error.type, self.error.message, status=self.error.status)

    async def close(self) -> None:
        """Nothing to close."""
