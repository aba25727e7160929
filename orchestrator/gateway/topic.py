"""One watched Pod, shared by all who watch it: entries read once, live text pulled by one call at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from actors.protocol.alerts import Alert
from orchestrator.events import AlertEvent
from orchestrator.gateway.alerts import Ring, alert_event, hear
from orchestrator.gateway.feed import AT_ONCE, BACKOFF, Feed
from orchestrator.gateway.live_text import LiveText, committed_blocks, ended_by
from orchestrator.gateway.sse import frame
from orchestrator.gateway.views import entry_events
from orchestrator.ports import LiveBatch
from session_store.errors import Refused, StoreDamaged, StoreUnavailable, UnknownSession
from session_store.reading import decoded
from session_store.requests import Query, Read
from session_store.rows import PodRow

log = logging.getLogger(__name__)

PAGE = 256
TAIL_ENTRIES = 256
TAIL_BYTES = 4 << 20
NO_PROCESS_PAUSE = 1.0
"""Seconds between looks at a Pod without a process; a commit or message of it shortens them."""
WATCH_GRACE = 5.0
"""Seconds beyond its wait that a look for live text may take before the Pod counts as lost."""


@dataclass(frozen=True, slots=True)
class Told:
    """An entry as readers get it. `ends` and `holds` as in `ended_by` and `committed_blocks`."""

    seq: int
    frames: bytes
    ends: tuple[str, ...]
    holds: frozenset[str]


class PodTopic:
    """`end` is the seq up to which entries are known here; `row` the Pod's row, never older than a notice that is in.

    `failure` says why no more can be told (the log is damaged); readers tell it and leave.
    """

    def __init__(self, feed: Feed, row: PodRow) -> None:
        self.row = row
        self.end = row.head
        self.live = LiveText()
        self.alerts: Ring[AlertEvent] = Ring()
        self.failure: Refused | None = None
        self.watchers: set[asyncio.Event] = set()
        self._feed = feed
        self._tail: deque[Told] = deque()
        self._tail_bytes = 0
        self._seen_from = row.head
        self._dirty = asyncio.Event()
        self._nudged = asyncio.Event()
        self._old_news = True

    @property
    def pod_id(self) -> str:
        return self.row.id

    @property
    def closed(self) -> bool:
        return self._feed.closed.is_set()

    def wake(self) -> None:
        for watcher in self.watchers:
            watcher.set()

    def notice(self) -> None:
        """There may be something new."""
        self._dirty.set()
        self._nudged.set()
        if self.closed:
            self.wake()

    async def entries(self, after: int) -> list[Told]:
        """Some entries after `after`, oldest first; none only if there is none up to `end`."""
        if self._tail and self._tail[0].seq <= after + 1:
            return [told for told in self._tail if told.seq > after]
        return await self._read(after)

    async def run(self) -> None:
        """Keep up with store and Pod until cancelled. Raises only what nobody expected."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_up())
            tasks.create_task(self._pull())
            tasks.create_task(hear(self._feed, self.pod_id, self._alert))

    def _alert(self, alerts: tuple[Alert, ...]) -> None:
        for alert in alerts:
            self.alerts.add(alert_event(alert))
        self.wake()

    async def _read(self, after: int) -> list[Told]:
        found = await self._feed.ask(Read(self.pod_id, after, PAGE))
        told = []
        for entry in decoded(self.pod_id, found.entries):
            self.live.commit(entry)
            frames = b"".join(map(frame, entry_events(entry)))
            told.append(Told(entry.seq, frames, ended_by(entry), committed_blocks(entry)))
        return told

    async def _keep_up(self) -> None:
        delay = BACKOFF[0]
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self._refresh()
                delay = BACKOFF[0]
            except StoreUnavailable:
                self._dirty.set()
                await asyncio.sleep(delay)
                delay = min(delay * 2, BACKOFF[1])
            except Refused as error:
                self.failure = error
                self.wake()
                return

    async def _refresh(self) -> None:
        """Entries first: they are what a reader waits for."""
        while told := await self._read(self.end):
            for one in told:
                self._keep(one)
            self.wake()
            if len(told) < PAGE:
                break
        found = await self._feed.ask(Query(ids=(self.pod_id,)))
        if not found.rows:
            raise UnknownSession(f"session {self.pod_id} is gone", session=self.pod_id)
        self.row = found.rows[0]
        if self.row.head > self.end:
            self._dirty.set()
        self.wake()

    def _keep(self, told: Told) -> None:
        self.end = told.seq
        self._tail.append(told)
        self._tail_bytes += len(told.frames)
        while len(self._tail) > TAIL_ENTRIES or (self._tail_bytes > TAIL_BYTES and len(self._tail) > 1):
            self._tail_bytes -= len(self._tail.popleft().frames)

    async def _pull(self) -> None:
        """Live text, by one call at a time that answers all since the last."""
        cursor = 0
        while True:
            began = time.monotonic()
            batch = await self._look(cursor)
            if batch is None:
                self._lose()
                cursor, self._old_news = 0, True
                await self._idle(NO_PROCESS_PAUSE)
                continue
            if batch.generation != self.live.generation and self.live.generation is not None:
                self.live.restart(batch.generation)
                self._old_news = False
                self.wake()
                if cursor:
                    # The cursor was one of the old incarnation: what came with it may lack a beginning.
                    cursor = 0
                    continue
            self.live.generation = batch.generation
            cursor = await self._take(batch, cursor)
            if batch.generation == 0:
                await self._idle(NO_PROCESS_PAUSE)
            elif batch.events or time.monotonic() - began < AT_ONCE:
                await asyncio.sleep(self._feed.options.live_pause)

    async def _look(self, cursor: int) -> LiveBatch | None:
        """None: the Pod cannot be reached."""
        # The first look finds what happened before and does not wait: what happens meanwhile would count as that.
        wait = 0.0 if self._old_news else self._feed.options.watch_wait
        try:
            async with asyncio.timeout(wait + WATCH_GRACE):
                return await self._feed.plane.watch(self.pod_id, cursor, wait)
        except StoreDamaged as error:
            self.failure = error
            self.wake()
            return None
        except Exception as error:
            # Whatever is wrong with the Pod, its log can still be read (case V05).
            log.info("no live text of Pod %s: %s", self.pod_id, str(error) or type(error).__name__)
            return None

    async def _take(self, batch: LiveBatch, cursor: int) -> int:
        """The cursor to go on with."""
        await self._cover(batch)
        whole = self.live.take(batch.events, snapshot=self._old_news)
        # What lacks a beginning even from the start is left out: the entry will bring it.
        again = not whole and cursor != 0
        self._old_news = again
        if batch.events:
            self.wake()
        return 0 if again else batch.cursor

    async def _cover(self, batch: LiveBatch) -> None:
        """See whether blocks that are new here were committed by entries from before anyone watched."""
        first = min((delta.after for delta in self.live.unknown_blocks(batch.events)), default=self._seen_from)
        after = first
        try:
            while after < self._seen_from:
                told = await self._read(after)
                if not told:
                    break
                after = told[-1].seq
        except StoreUnavailable:
            return  # seen again with the next new block
        except StoreDamaged as error:
            self.failure = error
            self.wake()
        self._seen_from = min(first, self._seen_from)

    def _lose(self) -> None:
        self.live.lose()
        self.wake()

    async def _idle(self, seconds: float) -> None:
        self._nudged.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._nudged.wait()
        except TimeoutError:
            return


class Topics:
    """The Pods that somebody watches."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._open: dict[str, _Shared] = {}

    def __len__(self) -> int:
        return len(self._open)

    @asynccontextmanager
    async def join(self, row: PodRow) -> AsyncIterator[PodTopic]:
        """The topic of this Pod, kept while anybody is in it. Raises `StoreUnavailable`."""
        shared = self._open.get(row.id)
        if shared is None:
            shared = self._open[row.id] = _Shared(PodTopic(self._feed, row))
        shared.readers += 1
        try:
            async with self._feed.listen(row.id, lambda _: shared.topic.notice()):
                if shared.task is None:
                    shared.task = asyncio.create_task(shared.topic.run(), name=f"gateway-topic-{row.id}")
                    shared.task.add_done_callback(lambda task: _ended(shared.topic, task))
                # What was committed between the row and the place in the feed.
                shared.topic.notice()
                yield shared.topic
        finally:
            shared.readers -= 1
            if shared.readers == 0:
                del self._open[row.id]
                if shared.task is not None:
                    shared.task.cancel()
                    await asyncio.gather(shared.task, return_exceptions=True)


@dataclass(slots=True)
class _Shared:
    topic: PodTopic
    readers: int = 0
    task: asyncio.Task[None] | None = None


def _ended(topic: PodTopic, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the feed of Pod %s broke", topic.pod_id, exc_info=error)
        topic.failure = Refused(f"the feed of Pod {topic.pod_id} broke: {type(error).__name__}")
        topic.wake()
