"""Group commit: what arrives together is committed together, by one writer at a time.

There is no writer thread to hand work to: whoever arrives while nobody commits leads, commits for all that has queued
up, and names the next leader. An uncontended request costs no switch of threads; under load commits grow by themselves.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from session_store.errors import StoreUnavailable
from session_store.requests import Request

MOST_IN_ONE_COMMIT = 256
MOST_WAITING = 10_000
WAIT_SECONDS = 30.0


class BatchStore(Protocol):
    """A store that carries out several writing requests with one commit."""

    def execute_batch(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """A reply or an exception for each; raises nothing."""
        ...


@dataclass(slots=True)
class _Turn:
    """One caller's requests. `taken` says that a leader has them."""

    requests: Sequence[Request[Any]]
    replies: list[Any] | None = None
    taken: bool = False
    wake: threading.Event = field(default_factory=threading.Event)


class GroupCommit:
    """Brings the writing requests of many threads to a `BatchStore`."""

    def __init__(self, store: BatchStore, most_waiting: int = MOST_WAITING, wait: float = WAIT_SECONDS) -> None:
        """`most_waiting` bounds the requests in the queue, `wait` the seconds that a caller waits for its answer."""
        self._store = store
        self._most_waiting = most_waiting
        self._wait = wait
        self._guard = threading.Lock()
        self._queue: deque[_Turn] = deque()
        self._waiting = 0
        self._led = False

    def execute(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """A reply or an exception for each request, once they are committed. Raises `StoreUnavailable`."""
        turn = _Turn(requests)
        if not self._enter(turn):
            turn = self._follow(turn)
        if turn.replies is None:
            self._lead()
        assert turn.replies is not None
        return turn.replies

    def _enter(self, turn: _Turn) -> bool:
        """Queue up; True for the one that is to lead."""
        with self._guard:
            if self._waiting + len(turn.requests) > self._most_waiting:
                raise StoreUnavailable(f"the store has {self._waiting} requests waiting: try again later")
            self._queue.append(turn)
            self._waiting += len(turn.requests)
            leads = not self._led
            self._led = True
        return leads

    def _follow(self, turn: _Turn) -> _Turn:
        """Wait until answered, or named leader (then `replies` is None)."""
        if turn.wake.wait(self._wait):
            return turn
        with self._guard:
            if turn.wake.is_set():
                return turn
            if not turn.taken:
                self._queue.remove(turn)
                self._waiting -= len(turn.requests)
        raise StoreUnavailable(f"the store did not commit within {self._wait} s: send the same request again")

    def _lead(self) -> None:
        """Commit what is queued, at most `MOST_IN_ONE_COMMIT` requests, and hand the lead on."""
        turns = self._take()
        requests = [request for turn in turns for request in turn.requests]
        try:
            replies = self._store.execute_batch(requests)
        except Exception as error:
            replies = [error] * len(requests)
        finally:
            self._hand_on()
        given = iter(replies)
        for turn in turns:
            turn.replies = [next(given) for _ in turn.requests]
            turn.wake.set()

    def _take(self) -> list[_Turn]:
        turns: list[_Turn] = []
        count = 0
        with self._guard:
            while self._queue and (not turns or count + len(self._queue[0].requests) <= MOST_IN_ONE_COMMIT):
                turn = self._queue.popleft()
                turn.taken = True
                turns.append(turn)
                count += len(turn.requests)
            self._waiting -= count
        return turns

    def _hand_on(self) -> None:
        with self._guard:
            if self._queue:
                self._queue[0].wake.set()
            else:
                self._led = False
