"""One reader of one Pod's stream: what it has been sent, and so what it is to be sent next.

Nothing is queued for a reader: entries are read at its cursor, live text is compared with what it has. Laws of order:
a delta comes after the entry `after`; a block's deltas end with the entry that commits it or with `discard`; `status`
comes when every entry it speaks of is out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from actors.protocol.live import Delta, Discard
from orchestrator.events import Resync, StatusEvent
from orchestrator.gateway.alerts import missed_event
from orchestrator.gateway.live_text import is_tool_block
from orchestrator.gateway.sse import KEEPALIVE, OPENING, frame
from orchestrator.gateway.topic import PodTopic, Told
from orchestrator.gateway.views import JsonObject, status_event
from session_store.errors import Refused, StoreError, StoreUnavailable
from session_store.rows import PodRow

CHUNK = 64 << 10
RETRY_PAUSE = 0.5

Snapshot = Callable[[PodRow], Awaitable[JsonObject]]
"""A Pod as `GET /v1/pods/{id}` shows it. Raises `StoreUnavailable`."""


@dataclass(slots=True)
class Sent:
    """How much of a block this reader has, in code points."""

    request_id: str
    length: int


@dataclass(frozen=True, slots=True)
class Start:
    """Where a stream begins: after seq `cursor`, or with a `resync` for this reason."""

    cursor: int
    resync: str | None = None


def start_of(given: str | None, head: int) -> Start:
    """What a client's cursor means for a log that ends at `head`; without one the stream begins with the log."""
    if given is None or not given.strip():
        return Start(0)
    text = given.strip()
    if not (text.isascii() and text.isdecimal()):
        return Start(head, "malformed-cursor")
    # More digits than any seq has: a number all the same.
    if len(text) > 18 or int(text) > head:
        return Start(head, "beyond-head")
    return Start(int(text))


class PodReader:
    """The reader's side of a topic, from its start until it leaves."""

    def __init__(
        self, topic: PodTopic, start: Start, snapshot: Snapshot, keepalive: float, now_ms: Callable[[], int]
    ) -> None:
        self._topic = topic
        self._cursor = start.cursor
        self._resync = start.resync
        self._snapshot = snapshot
        self._keepalive = keepalive
        self._now_ms = now_ms
        self._woken = asyncio.Event()
        self._blocks: dict[str, Sent] = {}
        self._alerts: int | None = None
        self._retries = topic.live.retries.count
        self._status: StatusEvent | None = None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Frames until the gateway closes or the log cannot be read."""
        self._topic.watchers.add(self._woken)
        try:
            yield OPENING
            while not self._topic.closed:
                self._woken.clear()
                try:
                    async for chunk in self._entries():
                        yield chunk
                except StoreUnavailable:
                    await asyncio.sleep(RETRY_PAUSE)
                    self._woken.set()
                except Refused as error:
                    yield self._last_words(error)
                    return
                if self._topic.failure is not None:
                    yield self._last_words(self._topic.failure)
                    return
                if chunk := self._present():
                    yield chunk
                elif not await self._wait():
                    yield KEEPALIVE
        finally:
            self._topic.watchers.discard(self._woken)

    async def farewell(self, reason: str) -> bytes:
        """Why the stream ends, for a reader that may come back with its cursor."""
        row = self._topic.row
        try:
            return frame(Resync(reason, row.head, await self._snapshot(row)))
        except StoreError:
            return frame(Resync(reason, row.head, None))

    async def _entries(self) -> AsyncIterator[bytes]:
        """All entries up to the end, in chunks."""
        if self._resync is not None:
            yield await self._start_anew(self._resync)
        while self._cursor < self._topic.end:
            told = await self._topic.entries(self._cursor)
            if not told or told[0].seq != self._cursor + 1:
                yield await self._start_anew("purged")
                continue
            out = bytearray()
            for one in told:
                out += self._send(one)
                if len(out) >= CHUNK:
                    yield bytes(out)
                    out.clear()
            if out:
                yield bytes(out)

    async def _start_anew(self, reason: str) -> bytes:
        """The one `resync` that an unusable cursor gets; the stream goes on from the head that it names."""
        row = self._topic.row
        head = max(row.head, self._topic.end)
        told = frame(Resync(reason, head, await self._snapshot(row)))
        self._resync, self._cursor = None, head
        self._blocks.clear()
        return told

    def _send(self, told: Told) -> bytes:
        """An entry, after the `discard` of what it should have committed and did not."""
        out = b""
        for key in told.ends:
            ended = [
                name for name, sent in self._blocks.items() if key == (name if is_tool_block(name) else sent.request_id)
            ]
            if any(name not in told.holds for name in ended):
                out += self._discard(key)
            for name in ended:
                self._blocks.pop(name, None)
        self._cursor = told.seq
        return out + told.frames

    def _present(self) -> bytes:
        """What is to be said now beyond entries. One look without a pause, so that it is of one moment."""
        topic = self._topic
        if self._cursor < topic.end or self._resync is not None:
            return b""
        out = bytearray()
        for request_id in dict.fromkeys(s.request_id for n, s in self._blocks.items() if n not in topic.live.blocks):
            out += self._discard(request_id)
        out += self._notices()
        for name, block in topic.live.blocks.items():
            sent = self._blocks.setdefault(name, Sent(block.request_id, 0))
            if block.after <= self._cursor and sent.length < len(block.text):
                text = block.text[sent.length :]
                out += frame(Delta(block.request_id, name, sent.length, text, block.after))
                sent.length = len(block.text)
        status = status_event(topic.row)
        if topic.row.head <= self._cursor and _differs(status, self._status):
            self._status = status
            out += frame(status)
        return bytes(out)

    def _notices(self) -> bytes:
        """Retries since this reader came; alerts that are kept, then those since."""
        alerts, retries = self._topic.alerts, self._topic.live.retries
        out = bytearray()
        if self._alerts is not None and (missed := alerts.missed(self._alerts)):
            out += frame(missed_event(missed, self._alerts, self._now_ms()))
        for alert in alerts.after(self._alerts or 0):
            out += frame(alert)
        for retry in retries.after(self._retries):
            out += frame(retry)
        self._alerts, self._retries = alerts.count, retries.count
        return bytes(out)

    def _discard(self, request_id: str) -> bytes:
        """Tell the client to forget a request's deltas; those that still count are sent again from their start."""
        gone = [name for name, sent in self._blocks.items() if sent.request_id == request_id]
        told = any(self._blocks.pop(name).length for name in gone)
        return frame(Discard(request_id)) if told else b""

    def _last_words(self, error: Refused) -> bytes:
        return frame(Resync(error.code.replace("_", "-"), self._topic.row.head, None, error.message))

    async def _wait(self) -> bool:
        """False: nothing happened for as long as a stream may be silent."""
        try:
            async with asyncio.timeout(self._keepalive):
                await self._woken.wait()
        except TimeoutError:
            return False
        return True


def _differs(status: StatusEvent, told: StatusEvent | None) -> bool:
    return told is None or (status.status, status.generation) != (told.status, told.generation)
