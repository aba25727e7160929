"""Following a Pod, or a home, from Python: typed events over aiohttp, with automatic resume.

    async with PodEvents(Server("http://127.0.0.1:7420"), pod_id) as events:
        async for event in events:
            ...

Every event is told once, over any number of connections (`following` has the rules).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar
from urllib.parse import quote

import aiohttp

from orchestrator.event_lines import EventLines, EventTooLong
from orchestrator.events import PodStreamEvent, Resync, StoreEvent, Wire
from orchestrator.following import Following, PodFollowing, StoreFollowing

EventT = TypeVar("EventT")

_AGAIN = frozenset({429, 502, 503, 504})
"""What a gateway says that is starting, closing, or without its store."""


class StreamError(Exception):
    """The stream cannot go on. `StreamRefused` | `StreamLost`."""


class StreamRefused(StreamError):
    """The gateway says no: `status` (HTTP) and its words, for example that there is no such Pod."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{detail} (HTTP {status})")
        self.status = status
        self.detail = detail


class StreamLost(StreamError):
    """The gateway could not be reached for as long as `Patience` allows; `place` is where to go on."""

    def __init__(self, reason: str, seconds: float, place: str | None) -> None:
        super().__init__(f"no event stream for {seconds:.0f} s ({reason}); go on after {place or 'the start'}")
        self.reason = reason
        self.place = place


@dataclass(frozen=True, slots=True)
class Server:
    """Where the gateway is; `token` is what it asks for, if it does."""

    address: str
    token: str | None = None


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: `first` until a lost stream is asked for again, doubled up to `longest` while there is no news; `limit`
    of waiting, without a connection that brings anything or stands for longer than `longest`, after which it counts as
    lost for good; `silence` after which a connection counts as broken (a gateway's comments come every 15 s)."""

    first: float = 0.1
    longest: float = 5.0
    limit: float = 120.0
    silence: float = 45.0


PATIENT = Patience()


class EventsOf(Generic[EventT]):
    """One stream, from its following's place on. Raises `StreamRefused` and `StreamLost` while iterated; ends by itself
    only after a `Resync` that says why (a damaged log), never because a connection does."""

    def __init__(
        self,
        server: Server,
        path: str,
        following: Following[EventT],
        patience: Patience = PATIENT,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.connections = 0
        self._stands_since: float | None = None
        self._url = server.address.rstrip("/") + path
        self._headers = {"Accept": "text/event-stream"}
        if server.token is not None:
            self._headers["Authorization"] = f"Bearer {server.token}"
        self._following = following
        self._patience = patience
        self._sleep = sleep
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=self._patience.silence)
        self._http = aiohttp.ClientSession(timeout=timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            await self._http.close()

    async def __aiter__(self) -> AsyncIterator[EventT]:
        waited, pause = 0.0, self._patience.first
        while True:
            reason, silent = "the gateway ended it", False
            try:
                async for wire in self._connection():
                    waited = 0.0
                    for event in self._following.take(wire):
                        pause = self._patience.first
                        yield event
                        if isinstance(event, Resync) and event.is_final:
                            return
            except (aiohttp.ClientError, TimeoutError, OSError, EventTooLong) as error:
                reason, silent = str(error) or type(error).__name__, isinstance(error, TimeoutError)
            if self._stood() and not silent:  # a quiet stream that something on the way cuts now and then
                waited, pause = 0.0, self._patience.first
            if waited + pause > self._patience.limit:
                raise StreamLost(reason, waited, self._following.place)
            await self._sleep(pause)
            waited, pause = waited + pause, min(2 * pause, self._patience.longest)

    def _stood(self) -> bool:
        """Whether the connection that has ended stood for a while."""
        since, self._stands_since = self._stands_since, None
        return since is not None and asyncio.get_running_loop().time() - since > self._patience.longest

    async def _connection(self) -> AsyncIterator[Wire]:
        """The events of one connection. Raises `StreamRefused`, and what aiohttp raises when it breaks."""
        if self._http is None:
            raise RuntimeError("a stream is iterated inside `async with` only")
        place = self._following.place
        headers = self._headers if place is None else {**self._headers, "Last-Event-ID": place}
        async with self._http.get(self._url, headers=headers) as response:
            if response.status in _AGAIN:
                raise aiohttp.ClientError(_detail(response.status, await response.read()))
            if response.status != 200:
                raise StreamRefused(response.status, _detail(response.status, await response.read()))
            self.connections += 1
            self._stands_since = asyncio.get_running_loop().time()
            self._following.connected()
            lines = EventLines()
            async for chunk in response.content.iter_any():
                for wire in lines.feed(chunk):
                    yield wire


class PodEvents(EventsOf[PodStreamEvent]):
    """What one Pod does, from the entry after `after` on. `following` has its cursor and its text in the making."""

    def __init__(
        self,
        server: Server,
        pod_id: str,
        after: int = 0,
        patience: Patience = PATIENT,
    ) -> None:
        self.following = PodFollowing(after)
        super().__init__(server, f"/v1/pods/{quote(pod_id, safe='')}/events", self.following, patience)


class StoreEvents(EventsOf[StoreEvent]):
    """Headers and alerts of all Pods of the caller, or of one tree (`root`), from now on or after a cursor."""

    def __init__(
        self,
        server: Server,
        root: str | None = None,
        cursor: str | None = None,
        patience: Patience = PATIENT,
    ) -> None:
        self.following = StoreFollowing(cursor)
        query = "" if root is None else f"?root={quote(root, safe='')}"
        super().__init__(server, f"/v1/events{query}", self.following, patience)


def _detail(status: int, body: bytes) -> str:
    """The words of a problem document, or what can be said without one."""
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    detail = problem.get("detail") if isinstance(problem, dict) else None
    return str(detail) if detail else f"the gateway answers with status {status}"
