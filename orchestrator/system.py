"""The real clock and real chance. Everything else takes them as ports."""

from __future__ import annotations

import os
import time

from actors.protocol.ids import uuid7


class SystemClock:
    """Implements `Clock`."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class SystemIds:
    """Implements `Ids`."""

    def session(self) -> str:
        return uuid7(time.time_ns() // 1_000_000, os.urandom(16))

    def token(self) -> str:
        return os.urandom(12).hex()
