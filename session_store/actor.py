"""The session store as a Ray actor: one process that owns the file, and lanes that do not wait for each other.

It is a sync (threaded) actor, which answers in half the time of an asyncio one. Every method takes and gives bytes of
`wire_codec`; refusals come back as data. Concurrency groups give each lane its threads: a waiting `follow` holds no
append up. Callers retry by id; nothing here relies on the order in which calls arrive.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray

from session_store.append_times import AppendTimes
from session_store.backends.memory import MemoryStore
from session_store.backends.sqlite_reader import READS
from session_store.batching import GroupCommit
from session_store.errors import StoreError, StoreUnavailable
from session_store.local_server import READS as READ_LANE
from session_store.local_server import WRITES as WRITE_LANE
from session_store.local_server import LocalServer
from session_store.lock import FileLock, start_time
from session_store.opening import lock_path, make_folder, open_store, sqlite_path
from session_store.requests import Append, Appended, Deliver, Delivered, Follow, Request
from session_store.rows import CounterValues
from session_store.wire_codec import decode_many, decode_request, encode_many, encode_reply

NAMESPACE = "polypod"
NAME = "session-store"
LOCK_WAIT_SECONDS = 10.0
LANES = {"writes": 32, "reads": 8, "follow": 32, "control": 2}
"""Threads of each lane. `follow` bounds how many may wait at once."""
MOST_FOLLOW_SECONDS = 30.0
HEAD_RESOURCE = "node:__internal_head__"
"""What Ray gives to the head node of a cluster, one unit, and to no other node."""
REOPEN_SECONDS = 1.0
"""How long a store that could not be opened is left alone."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How the actor is started. `lock_wait` is how long it waits for an earlier holder of the file's lock to end.

    `on_head`: only on the cluster's head, where the file is.
    """

    name: str = NAME
    namespace: str = NAMESPACE
    detached: bool = True
    lock_wait: float = LOCK_WAIT_SECONDS
    on_head: bool = False


class _Opened:
    """The lock, the store, and the group commit in front of it."""

    def __init__(self, url: str, lock_wait: float) -> None:
        """Raises `LockHeld`, and what `open_store` raises; then nothing is held."""
        path = sqlite_path(url)
        self._lock = None
        if path is not None:
            make_folder(path)
            self._lock = FileLock(lock_path(path))
            self._lock.acquire(lock_wait)
        try:
            self.store = open_store(url)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise
        self._commits = None if isinstance(self.store, MemoryStore) else GroupCommit(self.store)

    def write(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """A reply or an exception for each."""
        if any(isinstance(r, (*READS, Follow)) for r in requests):
            raise StoreUnavailable("a request that only reads came down the lane of the writes")
        if self._commits is not None:
            return self._commits.execute(requests)
        return [_tried(self.store, request) for request in requests]


class SessionStoreActor:
    """Holds `store.lock` beside the file for as long as its process lives; a PostgreSQL store has no lock, since
    several actors may write it.

    A store that cannot be opened (the lock is held, a newer schema, a damaged file) does not end the actor, since Ray
    would never start it again: each call is answered with that error, and the next tries anew.
    """

    def __init__(self, url: str, lock_wait: float = LOCK_WAIT_SECONDS) -> None:
        self._url = url
        self._lock_wait = lock_wait
        self._opening = threading.Lock()
        self._opened: _Opened | None = None
        self._problem: StoreError | None = None
        self._tried_at = 0.0
        self._appends = AppendTimes()
        with suppress(StoreError):
            self._ready()
        self._server = LocalServer({WRITE_LANE: self.many, READ_LANE: self._reads})
        self._address = self._server.start()

    def local_address(self) -> str:
        """Where processes of this machine reach the store without Ray; empty where they cannot."""
        return self._address

    def write(self, request: bytes) -> bytes:
        """One writing request."""
        return _answered(lambda: self._written([decode_request(request)])[0])

    def read(self, request: bytes) -> bytes:
        """A request that only reads."""

        def answer() -> Any:
            reply = self._ready().store.execute(decode_request(request))
            return self._appends.beside(reply) if isinstance(reply, CounterValues) else reply

        return _answered(answer)

    def follow(self, request: bytes) -> bytes:
        """`Follow`, which may wait."""

        def wait() -> Any:
            asked = decode_request(request)
            assert isinstance(asked, Follow)
            return self._ready().store.execute(Follow(asked.cursor, min(asked.wait, MOST_FOLLOW_SECONDS)))

        return _answered(wait)

    def many(self, requests: bytes) -> bytes:
        """Several writing requests in one call and one commit; a reply for each, in order."""
        decoded = [_attempt(part) for part in decode_many(requests)]
        good = [r for r in decoded if isinstance(r, Request)]
        try:
            replies = iter(self._written(good))
        except StoreError as error:
            replies = iter([error] * len(good))
        return encode_many([encode_reply(next(replies) if isinstance(r, Request) else r) for r in decoded])

    def _written(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """Carry them out, and tell the processes of this machine whose sessions have got messages by it."""
        began = time.perf_counter()
        replies = self._ready().write(requests)
        self._appends.took(time.perf_counter() - began, sum(isinstance(reply, Appended) for reply in replies))
        for request, reply in zip(requests, replies, strict=True):
            if isinstance(request, Append) and isinstance(reply, Appended):
                self._server.hint([*(d.session for d in request.deliveries), *reply.cascaded])
            elif isinstance(request, Deliver) and isinstance(reply, Delivered):
                self._server.hint([request.session])
        return replies

    def _reads(self, requests: bytes) -> bytes:
        """Several reads; a reply for each, in order."""
        return encode_many([self.read(part) for part in decode_many(requests)])

    def ping(self) -> int:
        """The process that owns the store."""
        return os.getpid()

    def process(self) -> tuple[int, str]:
        """The same with its start time, as in `session_store.lock.Holder`."""
        return os.getpid(), start_time(os.getpid())

    def _ready(self) -> _Opened:
        """The store, opened now if it is not yet. Raises what keeps it from being opened."""
        if self._opened is not None:
            return self._opened
        with self._opening:
            return self._open()

    def _open(self) -> _Opened:
        if self._opened is not None:
            return self._opened
        if self._problem is not None and time.monotonic() - self._tried_at < REOPEN_SECONDS:
            raise self._problem
        try:
            self._opened = _Opened(self._url, self._lock_wait if self._problem is None else 0.0)
        except StoreError as error:
            self._problem, self._tried_at = error, time.monotonic()
            raise
        return self._opened


def start_store(url: str, options: StoreOptions | None = None) -> Any:
    """The handle of the store actor of that name, started if it is not there. It is restarted without limit."""
    chosen = options or StoreOptions()
    remote = ray.remote(concurrency_groups=LANES, num_cpus=0, max_restarts=-1, max_task_retries=0)(SessionStoreActor)
    return remote.options(
        name=chosen.name,
        namespace=chosen.namespace,
        lifetime="detached" if chosen.detached else None,
        get_if_exists=True,
        resources={HEAD_RESOURCE: 0.001} if chosen.on_head else None,
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
    """Exceptions as data: those with arguments of their own do not cross Ray whole, and callers know the store's."""
    try:
        return encode_reply(act())
    except Exception as error:
        return encode_reply(error)
