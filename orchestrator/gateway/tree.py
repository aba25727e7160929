"""The stream over many Pods: headers of what is committed, under an opaque cursor of the whole store; and alerts.

The cursor is a place among the store's notices and the newest time told up to there. A stream that goes on from it
tells every header from that time on: none is left out, those of that very millisecond may come again (a header is known
by its `pod_id` and `seq`). A store that has forgotten the place names every session, and the time sorts them out.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from actors.protocol.alerts import KEPT, Alert
from orchestrator.events import EntryHeader, Resync
from orchestrator.gateway.alerts import Ring, alert_event, missed_event
from orchestrator.gateway.feed import FROM_NOW, Feed
from orchestrator.gateway.sse import KEEPALIVE, OPENING, frame
from orchestrator.gateway.views import header_event
from session_store.errors import Refused, StoreUnavailable
from session_store.reading import decoded
from session_store.requests import Commits, Follow, Query, Read
from session_store.rows import PodRow

PAGE = 256
STEP = 64
ALERTS_WAITING = 8 * KEPT
"""Alerts of all tenants that wait until it is known whose they are."""
OPERATOR = "default"
"""The tenant that hears of the control plane itself: the home's owner."""
RETRY_PAUSE = 0.5
CLOCKS_APART = 60_000
"""Milliseconds by which the clocks of store and gateway may differ: a cursor beyond that is of no time there was."""

_CURSOR = re.compile(r"([0-9a-f]{1,15})\.([0-9a-f]{1,15})", re.ASCII)


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
        found = _CURSOR.fullmatch(text.strip())
        return None if found is None else cls(int(found[1], 16), int(found[2], 16))


@dataclass(frozen=True, slots=True)
class TreeScope:
    """Whose Pods: all of a tenant, or only those of one tree."""

    tenant: str
    root: str | None = None

    def holds(self, row: PodRow) -> bool:
        return row.tenant == self.tenant and self.root in (None, row.root_id)

    @property
    def holds_control_plane(self) -> bool:
        """Whether alerts that are about no Pod are for this caller."""
        return self.tenant == OPERATOR and self.root is None


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
        self._alerts: Ring[Alert] = Ring(ALERTS_WAITING)
        self._alerts_taken = 0
        self._begun = False

    def hear(self, alerts: tuple[Alert, ...]) -> None:
        """Take alerts of all Pods and of the control plane."""
        for alert in alerts:
            self._alerts.add(alert)
        self._woken.set()

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
                if told := await self._alert_frames():
                    yield told
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
        return frame(Resync(reason, None, None))

    async def _begin(self) -> bytes:
        """Find the place to begin at; a `resync` if the client's cursor names none."""
        cursor = None if self._given is None else TreeCursor.read(self._given)
        ahead = cursor is not None and cursor.since > self._now_ms() + CLOCKS_APART
        if cursor is not None and not ahead:
            found = await self._feed.ask(Follow(cursor.place))
            self._since = self._newest = cursor.since
            self.notice(found)
            return b""
        self._place = max(self._place, self._feed.cursor)
        self._since = self._newest = self._now_ms()
        if self._given is None:
            # An id without data: a client that loses the connection before anything happens has its place.
            return f"id: {TreeCursor(self._place, self._newest)}\n\n".encode()
        here = TreeCursor(self._place, self._newest)
        return frame(Resync("beyond-head" if ahead else "malformed-cursor", None, None, cursor=str(here)))

    async def _alert_frames(self) -> bytes:
        """The latest kept alerts of this caller at first, then each new one."""
        count, missed = self._alerts.count, self._alerts.missed(self._alerts_taken)
        mine = await alerts_held(self._feed, self._scope, self._alerts.after(self._alerts_taken))
        out = bytearray()
        if self._begun and missed:
            out += frame(missed_event(missed, self._alerts_taken, self._now_ms()))
        for alert in mine if self._begun else mine[-KEPT:]:
            out += frame(alert_event(alert, with_pod=True))
        self._begun, self._alerts_taken = self._begun or count > 0, count
        return bytes(out)

    async def _round(self, changed: dict[str, int], place: int) -> AsyncIterator[bytes]:
        """All that the changed sessions have that is new; the last event carries the cursor behind it all."""
        held: EntryHeader | None = None
        try:
            for row in await rows_held(self._feed, self._scope, changed):
                async for header in self._headers(row):
                    if held is not None:
                        yield frame(held)
                    held = header
        except StoreUnavailable:
            if held is not None:
                yield frame(held)
            raise
        if held is not None:
            yield frame(replace(held, cursor=str(TreeCursor(place, self._newest))))

    async def _headers(self, row: PodRow) -> AsyncIterator[EntryHeader]:
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
                    yield header_event(row, entry)
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


async def rows_held(feed: Feed, scope: TreeScope, pod_ids: Iterable[str]) -> list[PodRow]:
    """The rows of those of these Pods that the scope holds. Raises `StoreUnavailable`."""
    rows: list[PodRow] = []
    ids = tuple(pod_ids)
    for first in range(0, len(ids), PAGE):
        found = await feed.ask(Query(ids=ids[first : first + PAGE], tenant=scope.tenant, limit=PAGE))
        rows += [row for row in found.rows if scope.holds(row)]
    return rows


async def alerts_held(feed: Feed, scope: TreeScope, alerts: Sequence[Alert]) -> list[Alert]:
    """Those of these alerts that are for the scope's caller, in their order. Raises `StoreUnavailable`."""
    about = dict.fromkeys(alert.pod_id for alert in alerts if alert.pod_id is not None)
    mine: set[str | None] = {row.id for row in await rows_held(feed, scope, about)}
    if scope.holds_control_plane:
        mine.add(None)
    return [alert for alert in alerts if alert.pod_id in mine]
