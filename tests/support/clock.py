"""A clock that only the test moves."""

from __future__ import annotations


class HandClock:
    def __init__(self) -> None:
        self.now = 100.0

    def now_ms(self) -> int:
        return round(self.now * 1000)

    def monotonic(self) -> float:
        return self.now
