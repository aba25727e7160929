"""Commit notices for followers: a bounded memory of which session changed, in the order of the commits."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

from session_store.requests import Commit, Commits

KEPT = 65_536
INCARNATION_BITS = 40


class Notices:
    """A ring of `(number, session, head)`. Numbers of a later incarnation of the store are all larger.

    So a cursor from before a restart is one that is older than kept, and gives every session once.
    """

    def __init__(self, incarnation: int = 1, kept: int = KEPT) -> None:
        self._first = incarnation << INCARNATION_BITS
        self._last = self._first
        self._ring: deque[tuple[int, str, int]] = deque(maxlen=kept)
        self._changed = threading.Condition()
        self._closed = False

    def publish(self, commits: Iterable[Commit]) -> None:
        with self._changed:
            for commit in commits:
                self._last += 1
                self._ring.append((self._last, commit.session, commit.head))
            self._changed.notify_all()

    def close(self) -> None:
        """Let every waiting follower go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait(self, cursor: int, seconds: float) -> Commits | None:
        """Commits beyond `cursor`, at the latest after `seconds`; None if the cursor is older than what is kept."""
        limit = time.monotonic() + seconds
        with self._changed:
            if cursor == -1:
                cursor = self._last
            while True:
                found = self._after(cursor)
                left = limit - time.monotonic()
                if found is None or found.commits or left <= 0 or self._closed:
                    return found
                self._changed.wait(left)

    @property
    def cursor(self) -> int:
        """The number of the newest notice."""
        return self._last

    def _after(self, cursor: int) -> Commits | None:
        oldest = self._ring[0][0] - 1 if self._ring else self._last
        if not oldest <= cursor <= self._last:
            return None
        newest: dict[str, int] = {}
        for number, session, head in reversed(self._ring):
            if number <= cursor:
                break
            newest[session] = max(head, newest.get(session, 0))  # of another store actor's commits one may come late
        return Commits(self._last, tuple(Commit(s, h) for s, h in reversed(newest.items())))
