"""The session store as a Ray actor: one process that owns the file, and lanes that do not wait for each other.

It is a sync (threaded) actor, which answers in half the time of an asyncio one. Every method takes and gives bytes of
`wire_codec`; refusals come back as data. Concurrency groups give each lane its threads: a waiting `follow` holds no
append up. Callers retry by id; nothing here relies on the order in which calls arrive.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray

from session_store.backends.memory import MemoryStore
from session_store.backends.sqlite_reader import READS
from session_store.batching import GroupCommit
from session_store.errors import StoreError, StoreUnavailable
from session_store.lock import FileLock
from session_store.opening import lock_path, open_store, sqlite_path
from session_store.requests import Follow, Request
from session_store.wire_codec import decode_many, decode_request, encode_many, encode_reply

NAMESPACE = "polypod"
NAME = "session-store"
LOCK_WAIT_SECONDS = 10.0
LANES = {"writes": 32, "reads": 8, "follow": 32, "control": 2}
"""Threads of each lane. `follow` bounds how many may wait at once."""
MOST_FOLLOW_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How the actor is started. `lock_wait` is how long it waits for an earlier holder of the file's lock to end."""

    name: str = NAME
    namespace: str = NAMESPACE
    detached: bool = True
    lock_wait: float = LOCK_WAIT_SECONDS


class SessionStoreActor:
    """Holds `store.lock` beside the file for as long as its process lives."""

    def __init__(self, url: str, lock_wait: float = LOCK_WAIT_SECONDS) -> None:
        """Raises `LockHeld`, and what `open_store` raises."""
        path = sqlite_path(url)
        self._lock = None if path is None else FileLock(lock_path(path))
        if self._lock is not None:
            assert path is not None
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(lock_wait)
        self._store = open_store(url)
        self._commits = None if isinstance(self._store, MemoryStore) else GroupCommit(self._store)

    def write(self, request: bytes) -> bytes:
        """One writing request."""
        return _answered(lambda: self._write([decode_request(request)])[0])

    def read(self, request: bytes) -> bytes:
        """`Read`, `Pending`, `Query` or `FindMessage`."""
        return _answered(lambda: self._store.execute(decode_request(request)))

    def follow(self, request: bytes) -> bytes:
        """`Follow`, which may wait."""

        def wait() -> Any:
            asked = decode_request(request)
            assert isinstance(asked, Follow)
            return self._store.execute(Follow(asked.cursor, min(asked.wait, MOST_FOLLOW_SECONDS)))

        return _answered(wait)

    def many(self, requests: bytes) -> bytes:
        """Several writing requests in one call and one commit; a reply for each, in order."""
        decoded = [_attempt(part) for part in decode_many(requests)]
        good = [r for r in decoded if isinstance(r, Request)]
        try:
            replies = iter(self._write(good))
        except StoreError as error:
            replies = iter([error] * len(good))
        return encode_many([encode_reply(next(replies) if isinstance(r, Request) else r) for r in decoded])

    def ping(self) -> int:
        """The process that owns the store."""
        return os.getpid()

    def _write(self, requests: Sequence[Request[Any]]) -> list[Any]:
        if any(isinstance(r, (*READS, Follow)) for r in requests):
            raise StoreUnavailable("a request that only reads came down the lane of the writes")
        if self._commits is not None:
            return self._commits.execute(requests)
        return [_tried(self._store, request) for request in requests]


def start_store(url: str, options: StoreOptions | None = None) -> Any:
    """The handle of the store actor of that name, started if it is not there. It is restarted without limit."""
    chosen = options or StoreOptions()
    remote = ray.remote(concurrency_groups=LANES, num_cpus=0, max_restarts=-1, max_task_retries=0)(SessionStoreActor)
    return remote.options(
        name=chosen.name,
        namespace=chosen.namespace,
        lifetime="detached" if chosen.detached else None,
        get_if_exists=True,
    ).remote(url, chosen.lock_wait)


def _tried(store: Any, request: Request[Any]) -> Any:
    try:
        return store.execute(request)
    except StoreError as error:
        return error


def _attempt(part: bytes) -> Request[Any] | StoreError:
    try:
        return decode_request(part)
    except StoreError as error:
        return error


def _answered(act: Any) -> bytes:
    """Exceptions as data: those with arguments of their own do not cross Ray whole."""
    try:
        return encode_reply(act())
    except StoreError as error:
        return encode_reply(error)
