"""The stream over many Pods: headers of what is committed, under an opaque cursor of the whole store.

The cursor is a place among the store's notices and the newest time told up to there. A stream that goes on from it
tells every header from that time on: none is left out, those of that very millisecond may come again (a header is known
by its `pod_id` and `seq`). A store that has forgotten the place names every session, and the time sorts them out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass

from orchestrator.gateway.feed import FROM_NOW, Feed
from orchestrator.gateway.sse import KEEPALIVE, OPENING, frame
from orchestrator.gateway.views import header_view
from session_store.errors import Refused, StoreUnavailable
from session_store.reading import decoded
from session_store.requests import Commits, Follow, Query, Read
from session_store.rows import PodRow

PAGE = 256
STEP = 64
RETRY_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class TreeCursor:
    """`place` as in `Follow`; `since` in ms since the epoch."""

    place: int
    since: int

    def __str__(self) -> str:
        return f"{self.place:x}.{self.since:x}"

    @classmethod
    def read(cls, text: str) -> TreeCursor | None:
        """None if `text` is no cursor of this kind."""
        place, _, since = text.strip().partition(".")
        try:
            cursor = cls(int(place, 16), int(since, 16))
        except ValueError:
            return None
        return cursor if cursor.place >= 0 and 0 <= cursor.since < 1 << 62 and cursor.place < 1 << 62 else None


@dataclass(frozen=True, slots=True)
class TreeScope:
    """Whose Pods: all of a tenant, or only those of one tree."""

    tenant: str
    root: str | None = None

    def holds(self, row: PodRow) -> bool:
        return row.tenant == self.tenant and self.root in (None, row.root_id)


class TreeReader:
    """Collects which sessions changed (once each) while it sends; so what it holds is bounded by their number."""

    def __init__(self, feed: Feed, scope: TreeScope, given: str | None, now_ms: Callable[[], int]) -> None:
        self._feed = feed
        self._scope = scope
        self._given = given
        self._now_ms = now_ms
        self._woken = asyncio.Event()
        self._place = FROM_NOW
        self._since = 0
        self._newest = 0
        self._changed: dict[str, int] = {}
        self._heads: dict[str, int] = {}

    def notice(self, found: Commits) -> None:
        """Take what the feed tells."""
        for commit in found.commits:
            self._changed[commit.session] = max(commit.head, self._changed.get(commit.session, 0))
        self._place = max(self._place, found.cursor)
        self._woken.set()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield OPENING
        if told := await self._begin():
            yield told
        while not self._feed.closed.is_set():
            self._woken.clear()
            changed, self._changed, place = self._changed, {}, self._place
            try:
                async for chunk in self._round(changed, place):
                    yield chunk
            except StoreUnavailable:
                # Nothing is lost: what was told is known by its heads, the rest is looked for again.
                self._changed = {**changed, **self._changed}
                await asyncio.sleep(RETRY_PAUSE)
                continue
            if not self._changed and not await self._wait():
                yield KEEPALIVE

    async def farewell(self, reason: str) -> bytes:
        return frame("resync", {"reason": reason, "head_seq": None, "snapshot": None})

    async def _begin(self) -> bytes:
        """Find the place to begin at; a `resync` if the client's cursor names none."""
        cursor = None if self._given is None else TreeCursor.read(self._given)
        if cursor is not None:
            found = await self._feed.ask(Follow(cursor.place))
            self._since = self._newest = cursor.since
            self.notice(found)
            return b""
        self._place = max(self._place, self._feed.cursor)
        self._since = self._newest = self._now_ms()
        if self._given is None:
            return b""
        told = {"reason": "malformed-cursor", "head_seq": None, "snapshot": None}
        return frame("resync", told, str(TreeCursor(self._place, self._newest)))

    async def _round(self, changed: dict[str, int], place: int) -> AsyncIterator[bytes]:
        """All that the changed sessions have that is new; the last event carries the cursor behind it all."""
        held = b""
        try:
            for row in await self._rows(changed):
                async for header in self._headers(row):
                    if held:
                        yield held
                    held = frame("entry", header)
        except StoreUnavailable:
            if held:
                yield held
            raise
        if held:
            yield f"id: {TreeCursor(place, self._newest)}\n".encode() + held

    async def _rows(self, changed: dict[str, int]) -> list[PodRow]:
        rows: list[PodRow] = []
        ids = tuple(changed)
        for first in range(0, len(ids), PAGE):
            found = await self._feed.ask(Query(ids=ids[first : first + PAGE], tenant=self._scope.tenant, limit=PAGE))
            rows += [row for row in found.rows if self._scope.holds(row)]
        return rows

    async def _headers(self, row: PodRow) -> AsyncIterator[dict[str, object]]:
        head = self._heads.get(row.id)
        after = await self._first_seq(row) if head is None else head
        while after < row.head:
            try:
                found = await self._feed.ask(Read(row.id, after, PAGE))
                entries = decoded(row.id, found.entries)
            except Refused:
                return  # a damaged log; its own stream tells more
            if not entries:
                return
            for entry in entries:
                if head is not None or entry.ts >= self._since:
                    self._newest = max(self._newest, entry.ts)
                    yield header_view(row, entry)
                self._heads[row.id] = entry.seq
            after = entries[-1].seq
        self._heads.setdefault(row.id, row.head)

    async def _first_seq(self, row: PodRow) -> int:
        """A seq before which nothing is new in a session not met before; found from its end."""
        step, after = STEP, row.head
        while after > 0:
            after = max(0, row.head - step)
            try:
                found = await self._feed.ask(Read(row.id, after, 1))
            except Refused:
                return row.head
            if found.entries and found.entries[0].ts < self._since:
                break
            step *= 4
        return after

    async def _wait(self) -> bool:
        try:
            async with asyncio.timeout(self._feed.options.keepalive):
                await self._woken.wait()
        except TimeoutError:
            return False
        return True
