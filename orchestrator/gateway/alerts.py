"""Alerts as the gateway hands them on: heard from the control plane while somebody watches, kept in a ring.

Whoever attaches reads the ring from its start and then what comes after, by position: no gap and no double. What does
not fit any more for one who reads slower than alerts come is told as a number.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from actors.protocol.alerts import KEPT, Alert
from orchestrator.events import AlertEvent
from orchestrator.gateway.feed import AT_ONCE, BACKOFF, POLL, Feed
from session_store.codec import time_text

log = logging.getLogger(__name__)

T = TypeVar("T")
GRACE = 5.0
"""Seconds beyond its wait that a look for alerts may take."""


@dataclass(slots=True)
class Ring(Generic[T]):
    """The last `limit` of what was told, by position; `count` is the position behind the youngest."""

    limit: int = KEPT
    count: int = 0
    _kept: deque[T] = field(default_factory=deque)

    def add(self, one: T) -> None:
        self.count += 1
        self._kept.append(one)
        if len(self._kept) > self.limit:
            self._kept.popleft()

    def after(self, position: int) -> list[T]:
        """What is kept from `position` on, oldest first."""
        new = min(self.count - position, len(self._kept))
        return [self._kept[at] for at in range(len(self._kept) - new, len(self._kept))]

    def missed(self, position: int) -> int:
        """How many of those from `position` on are not kept any more."""
        return max(0, self.count - position - len(self._kept))


def alert_event(alert: Alert, with_pod: bool = False) -> AlertEvent:
    """`with_pod`: where alerts of several Pods come together."""
    about = alert.pod_id if with_pod else None
    return AlertEvent(alert.alert_id, alert.level, alert.code, alert.message, time_text(alert.ts), about)


def missed_event(count: int, position: int, now_ms: int) -> AlertEvent:
    """Told in the place of alerts that came faster than this reader took them."""
    message = f"{count} alerts came faster than they were read here; GET /v1/alerts has the latest of each Pod"
    return AlertEvent(f"missed:{position}:{now_ms}", "warning", "alerts-missed", message, time_text(now_ms))


@asynccontextmanager
async def hearing(feed: Feed, pod_id: str | None, tell: Callable[[tuple[Alert, ...]], None]) -> AsyncIterator[None]:
    """As long as the block lasts, tell the kept alerts of a Pod (None: of all) and each new one, once each."""
    task = asyncio.create_task(hear(feed, pod_id, tell), name=f"gateway-alerts-{pod_id}")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def hear(feed: Feed, pod_id: str | None, tell: Callable[[tuple[Alert, ...]], None]) -> None:
    """By one look at a time, until cancelled. A control plane that does not answer is asked again."""
    cursor, delay = 0, BACKOFF[0]
    loop = asyncio.get_running_loop()
    while True:
        began, wait = loop.time(), feed.options.watch_wait
        try:
            async with asyncio.timeout(wait + GRACE):
                batch = await feed.plane.alerts(pod_id, cursor, wait)
        except Exception as error:
            # Whatever is wrong with the control plane, entries are told all the same.
            log.info("no alerts of %s: %s", pod_id or "the control plane", str(error) or type(error).__name__)
            await asyncio.sleep(delay)
            delay = min(delay * 2, BACKOFF[1])
            continue
        cursor, delay = batch.cursor, BACKOFF[0]
        if batch.alerts:
            tell(batch.alerts)
        elif loop.time() - began < AT_ONCE:
            await asyncio.sleep(POLL)
