"""How long appends take at the store: in the memory of its process, since no log holds it."""

from __future__ import annotations

import threading

from session_store.counters import APPEND_TIME, total
from session_store.rows import CounterValues


class AppendTimes:
    """A distribution that many threads add to."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._guard = threading.Lock()

    def took(self, seconds: float, appends: int) -> None:
        """So many appends were committed after this time."""
        if appends:
            ms = round(seconds * 1e3)
            with self._guard:
                for _ in range(appends):
                    APPEND_TIME.observe(self._count, ms)

    def beside(self, stored: CounterValues) -> CounterValues:
        """With what is counted here."""
        with self._guard:
            return CounterValues(total(self._counts, dict(stored.values)))

    def _count(self, key: str, more: int) -> None:
        self._counts[key] = self._counts.get(key, 0) + more
