"""Time and chance as the models take them, so that tests and the simulator can give their own."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Timing:
    """`sleep` and `monotonic` in seconds, `now_ms` since the epoch, `chance` in [0, 1)."""

    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    monotonic: Callable[[], float] = time.monotonic
    now_ms: Callable[[], int] = _now_ms
    chance: Callable[[], float] = random.random

    def since(self, started: float) -> int:
        """Whole milliseconds since `started`."""
        return max(0, round((self.monotonic() - started) * 1000))
