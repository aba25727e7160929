"""One Pod's event stream, read by a thread of its own and taken up by the screen when it has time.

The queue is bounded: when the screen cannot follow, the connection fills and the gateway drops this reader, which then
goes on from its cursor. So a flood costs neither memory nor a lost entry.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from orchestrator.cli.failure import CommandError
from orchestrator.cli.seam import Gateway
from orchestrator.events import PodStreamEvent, Resync
from orchestrator.following import PodFollowing

WAITING = 4096
"""Events between the reading thread and the screen."""
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 3.0
"""Seconds between two tries to connect, from the first to the longest."""


@dataclass(frozen=True, slots=True)
class Connected:
    """A new connection stands."""


@dataclass(frozen=True, slots=True)
class Away:
    """There is no connection now; another try follows. `reason` is for people."""

    reason: str


Coming: TypeAlias = PodStreamEvent | Connected | Away
Reach: TypeAlias = Callable[[], Gateway | None]
"""The owner's gateway as it is now; None when nobody owns the home. May raise `CommandError`."""

NO_OWNER = "nobody owns this home now: `polypod serve` starts its owner, and this view goes on"


class Feed:
    """Starts at once. `close` lets the thread end with the next thing it hears, at the latest the comment of a quiet
    stream; nothing is taken from it any more."""

    def __init__(self, reach: Reach, pod_id: str, after: int) -> None:
        self.pod_id = pod_id
        self._reach = reach
        self._following = PodFollowing(after)
        self._queue: queue.Queue[Coming] = queue.Queue(WAITING)
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="polypod-feed", daemon=True).start()

    def take(self, limit: int) -> Iterator[Coming]:
        """What has come, at most `limit`, without waiting."""
        for _ in range(limit):
            try:
                yield self._queue.get_nowait()
            except queue.Empty:
                return

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed.is_set():
            started = time.monotonic()
            try:
                self._put(Away(self._read()))
            except CommandError as error:
                self._put(Away(error.message))
            if time.monotonic() - started > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            self._closed.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _read(self) -> str:
        """One connection to its end, which is told. Raises `CommandError`."""
        gateway = self._reach()
        if gateway is None:
            return NO_OWNER
        path, place = f"/v1/pods/{self.pod_id}/events", self._following.place
        stream = gateway.stream(path, {"after": place}, self._closed.is_set)
        self._following.connected()
        connected = False
        for wire in stream:
            if not connected:
                connected = True
                self._put(Connected())
            for event in self._following.take(wire):
                self._put(event)
                if isinstance(event, Resync) and event.is_final:
                    return event.detail or event.reason
            if self._closed.is_set():
                break
        return "the stream has ended"

    def _put(self, coming: Coming) -> None:
        """Wait for room, but not once nobody takes any more."""
        while not self._closed.is_set():
            try:
                self._queue.put(coming, timeout=0.2)
            except queue.Full:
                continue
            return
