"""The store's client in another process: `AsyncStore` over the actor, and the same for those without an event loop.

A call that got no answer is sent again: every request is idempotent by its id, so a retry after a lost answer changes
nothing. Writing requests made in one turn of the event loop go in one call. On the store's own machine calls take its
local entrance (`local_server`), which Ray only names; from elsewhere they go through Ray.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, PendingCallsLimitExceeded, RayActorError

from session_store.actor import NAME, NAMESPACE
from session_store.backends.sqlite_reader import READS
from session_store.errors import StoreUnavailable
from session_store.local_client import HintLine, LocalLine, connect, connect_hints
from session_store.local_server import READS as READ_LANE
from session_store.local_server import WRITES as WRITE_LANE
from session_store.requests import Follow, Open, ReplyT, Request
from session_store.wire_codec import decode_many, decode_reply, encode_many, encode_request

LIMIT_SECONDS = 30.0
ATTEMPT_SECONDS = 10.0
FIRST_DELAY = 0.02
LONGEST_DELAY = 1.0
MOST_IN_ONE_CALL = 64


class _NotThere(Exception):
    """There is no store actor of that name (yet)."""


_GONE = (RayActorError, GetTimeoutError, PendingCallsLimitExceeded, TimeoutError, ConnectionError, _NotThere)
"""What says that the actor is dead, restarting, frozen, full or not there."""
_GROUPS = {"write": "writes", "many": "writes", "read": "reads", "follow": "follow", "local_address": "control"}
_LOCAL = {"write": WRITE_LANE, "read": READ_LANE}


def named_store(name: str = NAME, namespace: str = NAMESPACE) -> Callable[[], Any]:
    """Finds the actor by name, also a later one of that name."""
    return lambda: ray.get_actor(name, namespace=namespace)


class _Lanes:
    """The actor's methods, bound to their concurrency groups; found anew when the actor was lost."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find
        self._methods: dict[str, Any] = {}

    def call(self, lane: str, *payload: bytes) -> Any:
        if not self._methods:
            try:
                handle = self._find()
            except ValueError as error:
                raise _NotThere(str(error)) from error
            self._methods = {n: getattr(handle, n).options(concurrency_group=g) for n, g in _GROUPS.items()}
        return self._methods[lane].remote(*payload)

    def lost(self) -> None:
        self._methods = {}


class _LocalRoad:
    """The connections to a store on this machine, made when first asked for."""

    def __init__(self, lanes: _Lanes, limit: float) -> None:
        self._lanes = lanes
        self._limit = limit
        self._lines: dict[str, LocalLine] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Future[None] | None = None
        self._hints: HintLine | None = None
        self.heard: Callable[[str], bool] | None = None
        self.running: set[str] = set()

    def runs(self, session: str, still: bool) -> None:
        """Whether this process runs the session: it is told then when that gets a message."""
        if self.heard is None:
            return
        (self.running.add if still else self.running.discard)(session)
        if self._hints is not None:
            self._hints.runs(session, still)

    async def line(self, lane: str) -> LocalLine | None:
        """The connection of a lane; None when the store is on another machine. Raises as a call through Ray does."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._lines, self._loop, self._opening = None, loop, None
        while self._lines is None:
            if self._opening is None:
                self._opening = asyncio.ensure_future(self._open())
            await asyncio.shield(self._opening)
        return self._lines.get(lane)

    def lost(self) -> None:
        lines, self._lines = self._lines, None
        for line in (lines or {}).values():
            line.close()
        if self._hints is not None:
            self._hints.close()
            self._hints = None

    def _hinted(self, session: str) -> None:
        if self.heard is not None and not self.heard(session):
            self.runs(session, still=False)

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(self._limit):
                address = await self._lanes.call("local_address")
                found = {lane: await connect(address, first) for lane, first in _LOCAL.items()} if address else {}
                if address and self.heard is not None:
                    self._hints = await connect_hints(address, self._hinted)
            if self._hints is not None:
                for session in self.running:
                    self._hints.runs(session)
            self._lines = {lane: line for lane, line in found.items() if line is not None}
        finally:
            self._opening = None


class _Attempts:
    """How often and how long one request is tried."""

    def __init__(self, limit: float, attempt: float) -> None:
        self._until = time.monotonic() + limit
        self._limit = limit
        self._attempt = attempt
        self._delay = FIRST_DELAY / 2

    def seconds(self) -> float:
        """For the next attempt."""
        return max(0.001, min(self._attempt, self._until - time.monotonic()))

    def delay(self, error: BaseException) -> float:
        """Before the next attempt. Raises `StoreUnavailable` when the time is over."""
        self._delay = min(self._delay * 2, LONGEST_DELAY)
        if time.monotonic() + self._delay >= self._until:
            raise StoreUnavailable(
                f"the store gave no answer for {self._limit:g} s ({type(error).__name__}): send the same request again"
            ) from error
        return self._delay


class RayStore:
    """`AsyncStore`. `limit` bounds the whole of one request with its retries, `attempt` one call; in seconds.

    `local` False: through Ray also on the store's own machine.
    """

    def __init__(
        self,
        find: Callable[[], Any],
        limit: float = LIMIT_SECONDS,
        attempt: float = ATTEMPT_SECONDS,
        *,
        local: bool = True,
    ) -> None:
        self._lanes = _Lanes(find)
        self._may_be_local = local
        self._local = _LocalRoad(self._lanes, attempt)
        self._limit = limit
        self._attempt = attempt
        self._outbox: list[tuple[bytes, asyncio.Future[bytes]]] = []
        self._sending: set[asyncio.Task[None]] = set()

    def hear(self, heard: Callable[[str], bool]) -> None:
        """Have `heard(session)` called, on the event loop, when a session opened here gets a message: sooner than any
        other hint, where the store is on this machine. It says whether the session is here still."""
        self._local.heard = heard

    async def execute(self, request: Request[ReplyT]) -> ReplyT:
        """Raises `Refused`, or `StoreUnavailable` when no answer came within the limit."""
        lane, wait = _lane(request)
        payload = encode_request(request)
        attempts = _Attempts(self._limit + wait, self._attempt + wait)
        while True:
            try:
                async with asyncio.timeout(attempts.seconds()):
                    reply: ReplyT = decode_reply(await self._ask(lane, payload))
                if isinstance(request, Open):
                    self._local.runs(request.session, still=True)
                return reply
            except _GONE as error:
                self._lanes.lost()
                self._local.lost()
                await asyncio.sleep(attempts.delay(error))

    async def _ask(self, lane: str, payload: bytes) -> bytes:
        line = await self._local.line(lane) if self._may_be_local and lane != "follow" else None
        if line is not None:
            return await line.ask(payload)
        data: bytes = await (self._post(payload) if lane == "write" else self._lanes.call(lane, payload))
        return data

    def _post(self, payload: bytes) -> asyncio.Future[bytes]:
        """Through Ray, together with what else is written in this turn of the loop."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        if not self._outbox:
            loop.call_soon(self._flush)
        self._outbox.append((payload, answer))
        return answer

    def _flush(self) -> None:
        posted, self._outbox = self._outbox, []
        for first in range(0, len(posted), MOST_IN_ONE_CALL):
            task = asyncio.ensure_future(self._send(posted[first : first + MOST_IN_ONE_CALL]))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send(self, posted: list[tuple[bytes, asyncio.Future[bytes]]]) -> None:
        try:
            async with asyncio.timeout(self._attempt):
                answers = decode_many(await self._lanes.call("many", encode_many([p for p, _ in posted])))
        except Exception as error:
            for _, answer in posted:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), data in zip(posted, answers, strict=True):
            if not answer.done():
                answer.set_result(data)


class BlockingRayStore:
    """`Store` over the actor, for the command line and for tests. Limits as for `RayStore`."""

    def __init__(self, find: Callable[[], Any], limit: float = LIMIT_SECONDS, attempt: float = ATTEMPT_SECONDS) -> None:
        self._lanes = _Lanes(find)
        self._limit = limit
        self._attempt = attempt

    def execute(self, request: Request[ReplyT]) -> ReplyT:
        """Raises `Refused`, or `StoreUnavailable` when no answer came within the limit."""
        lane, wait = _lane(request)
        payload = encode_request(request)
        attempts = _Attempts(self._limit + wait, self._attempt + wait)
        while True:
            try:
                data = ray.get(self._lanes.call(lane, payload), timeout=attempts.seconds())
            except _GONE as error:
                self._lanes.lost()
                time.sleep(attempts.delay(error))
                continue
            reply: ReplyT = decode_reply(data)
            return reply


def _lane(request: Request[Any]) -> tuple[str, float]:
    """(lane, seconds that its answer may take longer than others)"""
    if isinstance(request, Follow):
        return "follow", request.wait
    return ("read" if isinstance(request, READS) else "write"), 0.0
