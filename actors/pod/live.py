"""The live side of one Pod: text of blocks still being made, kept until the entry that commits them is out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from actors.protocol.live import TOOL_BLOCK, Delta, Discard, LiveEvent, Retry
from session_store.items import AssistantItem, Text

JOINED = 4_096
"""Code points up to which texts of one block are joined at once; all joining is left to `since` beyond that, since
joining copies."""
KEPT_NOTICES = 512
"""Retries and discards kept for watchers that ask late."""


class LiveLog:
    """Implements `LiveSink`. `after` gives the head that new deltas follow.

    Deltas of a request are dropped when it is committed or discarded, so memory is bounded by one reply.
    """

    def __init__(self, after: Callable[[], int]) -> None:
        self._after = after
        self._count = 0
        self._events: deque[tuple[int, LiveEvent]] = deque()
        self._notices = 0
        self._lengths: dict[str, int] = {}
        self._pulled = 0
        self._changed = asyncio.Event()
        self._over = False

    @property
    def cursor(self) -> int:
        """The number of the youngest event."""
        return self._count

    def text(self, request_id: str, block: str, text: str) -> None:
        if not text:
            return
        offset = self._lengths.get(block, 0)
        self._lengths[block] = offset + len(text)
        number, last = self._events[-1] if self._events else (0, None)
        if isinstance(last, Delta) and last.block == block and number > self._pulled and len(last.text) < JOINED:
            self._events[-1] = (number, replace(last, text=last.text + text))
        else:
            self._add(Delta(request_id, block, offset, text, self._after()))
        self._changed.set()

    def retry(self, request_id: str, attempt: int, wait: float, reason: str) -> None:
        self._notice(Retry(request_id, attempt, wait, reason))

    def discard(self, request_id: str) -> None:
        if self._drop(lambda delta: delta.request_id == request_id):
            self._notice(Discard(request_id))

    def committed(self, request_id: str) -> None:
        """The request's reply is in the log: its blocks end with that entry."""
        self._drop(lambda delta: delta.request_id == request_id)

    def committed_blocks(self, blocks: set[str]) -> None:
        """These blocks' text is in the log."""
        self._drop(lambda delta: delta.block in blocks)

    def partial(self, request_id: str) -> tuple[AssistantItem, ...]:
        """The text that a cut-off request had streamed, block by block (tool output is not the model's)."""
        texts: dict[str, str] = {}
        for _, event in self._events:
            if isinstance(event, Delta) and event.request_id == request_id and not event.block.startswith(TOOL_BLOCK):
                texts[event.block] = texts.get(event.block, "") + event.text
        return tuple(Text(text, block) for block, text in texts.items() if text.strip())

    def since(self, cursor: int) -> tuple[int, tuple[LiveEvent, ...]]:
        """Events after `cursor` and the new cursor, runs of one block joined. A cursor of the future counts as 0."""
        if cursor > self._count:
            cursor = 0
        self._pulled = self._count
        return self._count, tuple(_joined(e for n, e in self._events if n > cursor))

    async def wait(self, cursor: int, seconds: float) -> None:
        """Return when there is something after `cursor`, when nothing more can come, or after `seconds`."""
        if self._over or (self._count > cursor and self._events and self._events[-1][0] > cursor):
            return
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return

    def end(self) -> None:
        """This incarnation says nothing more: whoever waits for it goes to the next."""
        self._over = True
        self._changed.set()

    def _notice(self, event: LiveEvent) -> None:
        self._add(event)
        self._notices += 1
        if self._notices > KEPT_NOTICES:
            oldest = next(i for i, (_, e) in enumerate(self._events) if not isinstance(e, Delta))
            del self._events[oldest]
            self._notices -= 1
        self._changed.set()

    def _add(self, event: LiveEvent) -> None:
        self._count += 1
        self._events.append((self._count, event))

    def _drop(self, gone: Callable[[Delta], bool]) -> bool:
        """Forget deltas; whether there were any."""
        dropped = {e.block for _, e in self._events if isinstance(e, Delta) and gone(e)}
        if dropped:
            self._events = deque((n, e) for n, e in self._events if not (isinstance(e, Delta) and e.block in dropped))
            for block in dropped:
                self._lengths.pop(block, None)
        return bool(dropped)


def _joined(events: Iterable[LiveEvent]) -> list[LiveEvent]:
    out: list[LiveEvent] = []
    for event in events:
        last = out[-1] if out else None
        if (
            isinstance(event, Delta)
            and isinstance(last, Delta)
            and last.block == event.block
            and last.offset + len(last.text) == event.offset
        ):
            out[-1] = replace(last, text=last.text + event.text)
        else:
            out.append(event)
    return out
