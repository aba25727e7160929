"""What a Pod tells its watchers live. Never in the log; each belongs to the entry that follows `after`.

A delta is sent after entry `after` and dropped once the entry that commits its block is out. Every block that had
deltas ends with the entry that commits it, or with a `Discard` of its request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Delta:
    """Text of a block still being made. `offset` counts Unicode code points from the start of the block.

    Law: comes after the entry `after` and never after the entry that commits its block; the deltas of a block follow
    each other by `offset` without a gap or an overlap, and whoever attaches in mid-stream gets the block from offset 0.
    A block that had deltas ends with the entry that commits it (an item with that `block`; for `tool:<seq>.<index>` the
    result of that call) or with a `Discard` of its request.
    """

    request_id: str
    block: str
    offset: int
    text: str
    after: int
    type: Literal["delta"] = "delta"


@dataclass(frozen=True, slots=True)
class Retry:
    """The request is tried again: `attempt` (from 2) starts after `wait` seconds, because of `reason`.

    Law: comes after the `Discard` of what the failed attempt had said, before any delta of the new one. Only those who
    watch when it happens hear of it.
    """

    request_id: str
    attempt: int
    wait: float
    reason: str
    type: Literal["retry"] = "retry"


@dataclass(frozen=True, slots=True)
class Discard:
    """Forget all deltas of this request: its blocks will not be committed.

    Law: comes once there were deltas of the request and they are void; blocks of the request that still count are sent
    again from offset 0. The gateway says it itself when the Pod's generation changes or its process is lost.
    """

    request_id: str
    type: Literal["discard"] = "discard"


TOOL_BLOCK = "tool:"
"""Prefix of the blocks that carry a tool's live output: `tool:<seq>.<index>`. They end with the call's result."""

LiveEvent: TypeAlias = Delta | Retry | Discard


class LiveSink(Protocol):
    """Where models and tools put live text. Calls never block and never fail."""

    def text(self, request_id: str, block: str, text: str) -> None:
        """Append text to a block (created at its first text)."""

    def retry(self, request_id: str, attempt: int, wait: float, reason: str) -> None: ...

    def discard(self, request_id: str) -> None: ...


class Unwatched:
    """A `LiveSink` that nobody watches."""

    def text(self, request_id: str, block: str, text: str) -> None: ...

    def retry(self, request_id: str, attempt: int, wait: float, reason: str) -> None: ...

    def discard(self, request_id: str) -> None: ...
