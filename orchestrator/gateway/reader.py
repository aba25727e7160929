"""One reader of one Pod's stream: what it has been sent, and so what it is to be sent next.

Nothing is queued for a reader: entries are read at its cursor, live text is compared with what it has. Laws of order:
a delta comes after the entry `after`; a block's deltas end with the entry that commits it or with `discard`; `status`
comes when every entry it speaks of is out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from actors.protocol.live import Alert, Retry
from orchestrator.gateway.live_text import is_tool_block
from orchestrator.gateway.sse import KEEPALIVE, OPENING, frame
from orchestrator.gateway.topic import PodTopic, Told
from orchestrator.gateway.views import JsonObject, status_view
from session_store.codec import time_text, to_plain
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

    def __init__(self, topic: PodTopic, start: Start, snapshot: Snapshot, keepalive: float) -> None:
        self._topic = topic
        self._cursor = start.cursor
        self._resync = start.resync
        self._snapshot = snapshot
        self._keepalive = keepalive
        self._woken = asyncio.Event()
        self._blocks: dict[str, Sent] = {}
        self._notes = 0
        self._status: JsonObject | None = None
        self._alerts_shown = False

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
            return await self._resync_frame(reason, row)
        except StoreError:
            return frame("resync", {"reason": reason, "head_seq": row.head, "snapshot": None})

    async def _entries(self) -> AsyncIterator[bytes]:
        """All entries up to the end, in chunks."""
        if self._resync is not None:
            yield await self._start_anew(self._resync)
        while self._cursor < self._topic.end:
            told = await self._topic.entries(self._cursor)
            if told and told[0].seq != self._cursor + 1:
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
            elif not told:
                return

    async def _start_anew(self, reason: str) -> bytes:
        """The one `resync` that an unusable cursor gets; the stream goes on from the head that it names."""
        row = self._topic.row
        told = await self._resync_frame(reason, row)
        self._resync, self._cursor = None, row.head
        return told

    async def _resync_frame(self, reason: str, row: PodRow) -> bytes:
        return frame("resync", {"reason": reason, "head_seq": row.head, "snapshot": await self._snapshot(row)})

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
        out += self._notes_frames()
        for name, block in topic.live.blocks.items():
            sent = self._blocks.setdefault(name, Sent(block.request_id, 0))
            if block.after <= self._cursor and sent.length < len(block.text):
                data = {"request_id": block.request_id, "block": name, "offset": sent.length}
                out += frame("delta", {**data, "text": block.text[sent.length :], "after": block.after})
                sent.length = len(block.text)
        status = status_view(topic.row)
        if topic.row.head <= self._cursor and _differs(status, self._status):
            self._status = status
            out += frame("status", status)
        return bytes(out)

    def _notes_frames(self) -> bytes:
        notes: list[Alert | Retry] = []
        if not self._alerts_shown:
            self._alerts_shown = True
            notes += self._topic.live.alerts()
        else:
            notes += self._topic.live.notes_after(self._notes)
        self._notes = self._topic.live.count
        return b"".join(_note_frame(note) for note in notes)

    def _discard(self, request_id: str) -> bytes:
        """Tell the client to forget a request's deltas; those that still count are sent again from their start."""
        gone = [name for name, sent in self._blocks.items() if sent.request_id == request_id]
        told = any(self._blocks.pop(name).length for name in gone)
        return frame("discard", {"request_id": request_id}) if told else b""

    def _last_words(self, error: Refused) -> bytes:
        data = {"reason": error.code.replace("_", "-"), "head_seq": self._topic.row.head, "snapshot": None}
        return frame("resync", {**data, "detail": error.message})

    async def _wait(self) -> bool:
        """False: nothing happened for as long as a stream may be silent."""
        try:
            async with asyncio.timeout(self._keepalive):
                await self._woken.wait()
        except TimeoutError:
            return False
        return True


def _differs(status: JsonObject, told: JsonObject | None) -> bool:
    return told is None or any(status[key] != told[key] for key in ("status", "generation"))


def _note_frame(note: Alert | Retry) -> bytes:
    data = to_plain(note)
    del data["type"]
    if isinstance(note, Alert):
        data["ts"] = time_text(note.ts)
    return frame(note.type, data)
