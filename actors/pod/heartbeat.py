"""The heartbeat of one actor process: a thread, so that nothing a Pod does on the event loop can delay it.

Its last good reply is the lease (law 3): the gate lets work start only while it is young, and the tool guards are fed
only while it is young, so that a frozen or cut-off process starts nothing and loses its tool processes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass

from actors.protocol.ids import Clock

GATE_POLL = 0.02
"""Seconds between looks of work that is held back."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Seconds: between beats, and how old a reply may be (DESIGN: 0.5 and 4)."""

    every: float = 0.5
    lease: float = 4.0


class Heartbeat:
    """Implements `LeaseGate`. `beat` sends one and returns when it was answered (raises when it was not);
    `feed` feeds the tool guards. Both are called on the thread."""

    def __init__(self, rhythm: Rhythm, clock: Clock, beat: Callable[[], None], feed: Callable[[], None]) -> None:
        self._rhythm = rhythm
        self._clock = clock
        self._beat = beat
        self._feed = feed
        self._answered = clock.monotonic()
        self._stopped = threading.Event()
        self.last_error = ""
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    @property
    def age(self) -> float:
        """Seconds since the last answered beat was sent."""
        return self._clock.monotonic() - self._answered

    async def fresh(self) -> None:
        while self.age >= self._rhythm.lease:  # noqa: ASYNC110  the reply comes on another thread, and rarely late
            await asyncio.sleep(GATE_POLL)

    def _run(self) -> None:
        while not self._stopped.wait(self._rhythm.every):
            sent = self._clock.monotonic()
            try:
                self._beat()
            except Exception as error:  # no answer is what the lease is for; the next beat tries again
                self.last_error = f"{type(error).__name__}: {error}"
            else:
                self._answered = max(self._answered, sent)
                self.last_error = ""
            if self.age < self._rhythm.lease:
                self._feed()
