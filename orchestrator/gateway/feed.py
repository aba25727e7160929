"""What the store commits, told to all who wait for it: one look at the store at a time for the whole gateway."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from orchestrator.gateway.options import GatewayOptions
from orchestrator.ports import ControlPlane
from session_store.errors import Refused, StoreError, StoreUnavailable
from session_store.requests import Commit, Commits, Follow, ReplyT, Request

log = logging.getLogger(__name__)

FROM_NOW = -1
AT_ONCE = 0.005
"""Seconds: a look that came back empty sooner did not wait, and the next one is put off by `POLL`."""
POLL = 0.02
BACKOFF = (0.1, 2.0)
"""Seconds until a failed look is repeated: at first, and at most."""

Listener = Callable[[Commit], None]
Follower = Callable[[Commits], None]


class Feed:
    """Follows the store while anybody listens, and not otherwise.

    Who listens before reading misses nothing: `listen` and `follow` return once the feed has its place in the store.
    """

    def __init__(self, plane: ControlPlane, options: GatewayOptions) -> None:
        self.plane = plane
        self.options = options
        self.cursor = FROM_NOW
        self.closed = asyncio.Event()
        self._listeners: dict[str, set[Listener]] = {}
        self._followers: set[Follower] = set()
        self._task: asyncio.Task[None] | None = None
        self._placed: asyncio.Future[None] | None = None

    async def ask(self, request: Request[ReplyT]) -> ReplyT:
        """One answer of the store within `store_wait`. Raises `Refused`, `StoreUnavailable`."""
        try:
            async with asyncio.timeout(self.options.store_wait):
                return await self.plane.store.execute(request)
        except TimeoutError:
            raise StoreUnavailable(f"no answer within {self.options.store_wait:g} s") from None

    @asynccontextmanager
    async def listen(self, session: str, listener: Listener) -> AsyncIterator[None]:
        """Tell `listener` of every commit to `session` and message for it. Raises `StoreUnavailable`."""
        self._listeners.setdefault(session, set()).add(listener)
        try:
            await self._ready()
            yield
        finally:
            listeners = self._listeners[session]
            listeners.discard(listener)
            if not listeners:
                del self._listeners[session]
            self._rest()

    @asynccontextmanager
    async def follow(self, follower: Follower) -> AsyncIterator[None]:
        """Tell `follower` of everything. Raises `StoreUnavailable`."""
        self._followers.add(follower)
        try:
            await self._ready()
            yield
        finally:
            self._followers.discard(follower)
            self._rest()

    @property
    def listening(self) -> bool:
        return bool(self._listeners or self._followers)

    async def close(self) -> None:
        """Ends the streams of all readers and the look in flight."""
        self.closed.set()
        self._wake_all()
        await self._stop()

    async def _ready(self) -> None:
        if self.closed.is_set():
            raise StoreUnavailable("the gateway is closing")
        if self._placed is None:
            self._placed = asyncio.get_running_loop().create_future()
            self._placed.add_done_callback(_retrieved)
            self._task = asyncio.create_task(self._run(self._placed), name="gateway-feed")
        # Shielded: the place is everybody's, and one who leaves must not take it from the others.
        await asyncio.shield(self._placed)

    def _rest(self) -> None:
        if not self.listening and self._task is not None:
            self._task.cancel()
            self._task, self._placed = None, None

    async def _stop(self) -> None:
        task, self._task, self._placed = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, placed: asyncio.Future[None]) -> None:
        try:
            first = await self.ask(Follow(FROM_NOW))
        except StoreError as error:
            # Those who wait for the place are told; the next one to come tries anew.
            self._task, self._placed = None, None
            placed.set_exception(error)
            return
        except asyncio.CancelledError:
            placed.cancel()
            raise
        self.cursor = first.cursor
        placed.set_result(None)
        delay = BACKOFF[0]
        while True:
            began = time.monotonic()
            try:
                found = await self._look()
            except (StoreUnavailable, Refused) as error:
                log.warning("the store does not tell of commits (%s); trying again in %.1f s", error, delay)
                await asyncio.sleep(delay)
                delay = min(delay * 2, BACKOFF[1])
                continue
            delay = BACKOFF[0]
            self.cursor = found.cursor
            if found.commits:
                self._tell(found)
            elif time.monotonic() - began < AT_ONCE:
                await asyncio.sleep(POLL)

    async def _look(self) -> Commits:
        wait = self.options.follow_wait
        try:
            async with asyncio.timeout(wait + self.options.store_wait):
                return await self.plane.store.execute(Follow(self.cursor, wait))
        except TimeoutError:
            raise StoreUnavailable("no answer") from None

    def _tell(self, found: Commits) -> None:
        for commit in found.commits:
            for listener in tuple(self._listeners.get(commit.session, ())):
                listener(commit)
        for follower in tuple(self._followers):
            follower(found)

    def _wake_all(self) -> None:
        everyone: Iterable[str] = tuple(self._listeners)
        for session in everyone:
            for listener in tuple(self._listeners[session]):
                listener(Commit(session, 0))
        for follower in tuple(self._followers):
            follower(Commits(self.cursor, ()))


def _retrieved(placed: asyncio.Future[None]) -> None:
    """An error that nobody waited for any more is no surprise."""
    if not placed.cancelled():
        placed.exception()
