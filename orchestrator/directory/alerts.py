"""The alerts of all Pods and of the control plane, kept in memory for whoever asks. No Ray.

They outlive their Pods' processes, not the Directory's own: an alert is a notice, what must not be lost is in a log.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import replace

from actors.protocol.alerts import KEPT, Alert, shortened

KEPT_IN_ALL = 8 * KEPT
"""Of all Pods together; the oldest goes first. With `LONGEST` it bounds the memory to some 16 MB at the very worst."""
EPOCH_SHIFT = 32
MOST_CODES = 200
"""Codes that are counted apart."""


class AlertBook:
    """Alerts under rising numbers, which begin anew above all earlier ones with each Directory (`begin`).

    So who asks for what follows a number gets each alert once, also over a restart of the Directory.
    """

    def __init__(self, kept: int = KEPT, kept_in_all: int = KEPT_IN_ALL) -> None:
        self._kept = kept
        self._kept_in_all = kept_in_all
        self._number = 0
        self._alerts: dict[int, Alert] = {}
        self._rings: dict[str | None, deque[int]] = {}
        self._ids: set[str] = set()
        self._waiting: dict[str | None, set[asyncio.Future[None]]] = {}
        self.raised: Counter[tuple[str, str]] = Counter()
        """How many by level and code, since this Directory's process started."""

    def begin(self, epoch: int) -> None:
        """Number on above everything that Directories of earlier epochs numbered."""
        self._number = max(self._number, epoch << EPOCH_SHIFT)

    def add(self, alerts: Iterable[Alert]) -> None:
        """Keep them; one whose id is kept already is left out."""
        for alert in alerts:
            if alert.alert_id not in self._ids:
                counted = (alert.level, alert.code)
                self.raised[counted if len(self.raised) < MOST_CODES else (alert.level, "other")] += 1
                self._keep(replace(alert, message=shortened(alert.message)))

    def next_id(self) -> str:
        """For an alert of the Directory itself."""
        return f"directory:{self._number + 1:x}"

    def since(self, after: int, pod_id: str | None = None) -> tuple[int, tuple[Alert, ...]]:
        """The kept alerts of one Pod (None: all) numbered above `after`, oldest first, and the number to go on from."""
        found: list[Alert] = []
        for number in reversed(self._alerts if pod_id is None else self._rings.get(pod_id, ())):
            if number <= after:
                break
            found.append(self._alerts[number])
        return self._number, tuple(reversed(found))

    async def wait(self, after: int, pod_id: str | None, seconds: float) -> None:
        """Return when there is something above `after`, or after `seconds`."""
        if seconds <= 0 or self.since(after, pod_id)[1]:
            return
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(pod_id, set())
        waiting.add(told)
        try:
            await asyncio.wait([told], timeout=seconds)
        finally:
            waiting.discard(told)
            if not waiting and self._waiting.get(pod_id) is waiting:
                del self._waiting[pod_id]

    def __len__(self) -> int:
        return len(self._alerts)

    def _keep(self, alert: Alert) -> None:
        self._number += 1
        self._alerts[self._number] = alert
        self._ids.add(alert.alert_id)
        ring = self._rings.setdefault(alert.pod_id, deque())
        ring.append(self._number)
        if len(ring) > self._kept:
            self._forget(ring[0])
        if len(self._alerts) > self._kept_in_all:
            self._forget(next(iter(self._alerts)))
        for who in (alert.pod_id, None):
            for told in self._waiting.get(who, ()):
                if not told.done():
                    told.set_result(None)

    def _forget(self, number: int) -> None:
        """The oldest of its ring."""
        alert = self._alerts.pop(number)
        self._ids.discard(alert.alert_id)
        ring = self._rings[alert.pod_id]
        ring.popleft()
        if not ring:
            del self._rings[alert.pod_id]
