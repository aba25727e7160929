"""The transport over aiohttp: one session per model instance, connections kept and reused.

The session is made at the first request, in the event loop that uses it. Nothing is read from the environment here, and
redirects are not followed, so that a key goes nowhere but to the configured address.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TypeVar

import aiohttp

from actors.models.transport import Post, Response, Timeouts, TransportError

_KEEP_ALIVE = 30.0
_HEADER_LIMIT = 64 << 10
_LARGE = 1 << 20  # larger bodies are written in pieces, so that the loop goes on meanwhile
_END = 0.02  # seconds to wait for a body's end after the reply is whole
_ResultT = TypeVar("_ResultT")


class HttpTransport:
    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def post(self, post: Post) -> AbstractAsyncContextManager[Response]:
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            self._loop = loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE),
                timeout=aiohttp.ClientTimeout(total=None),
                headers={"Accept": "text/event-stream, application/json", "Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
                max_line_size=_HEADER_LIMIT,
                max_field_size=_HEADER_LIMIT,
                trust_env=False,
            )
        return _Exchange(self._session, post)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


class _Exchange:
    """One request and its response: the context manager of `HttpTransport.post`, and what it gives."""

    def __init__(self, session: aiohttp.ClientSession, post: Post) -> None:
        self._session = session
        self._post = post
        self._response: aiohttp.ClientResponse | None = None
        self._ends = _Ends(post.timeouts)
        self._begun = False

    async def __aenter__(self) -> Response:
        post = self._post
        sent = self._session.post(
            post.url,
            data=post.body if len(post.body) < _LARGE else io.BytesIO(post.body),
            headers={"Content-Type": "application/json", **post.headers},
            proxy=post.proxy,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=post.timeouts.connect),
        )
        try:
            self._response = await self._ends.first(sent)
        except aiohttp.ConnectionTimeoutError:
            raise TransportError("timeout", f"no connection within {post.timeouts.connect:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError("connection", _words(error)) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        response = self._response
        if response is None:
            return
        if kind is None and await self._drain(response.content):
            response.release()
        else:
            response.close()

    @property
    def status(self) -> int:
        assert self._response is not None
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        assert self._response is not None
        return {name.lower(): value for name, value in self._response.headers.items()}

    async def read(self) -> bytes:
        assert self._response is not None
        wait = self._ends.next if self._begun else self._ends.first
        try:
            chunk = await wait(self._response.content.readany())
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError("broken_stream", f"the connection broke: {_words(error)}") from None
        self._begun = True
        return chunk

    async def _drain(self, content: aiohttp.StreamReader) -> bool:
        """Whether the body's end is there: it follows the end marker at once, and lets the connection be used again."""
        if content.at_eof():  # it came with the marker, as a rule
            return True
        try:
            async with asyncio.timeout(_END):
                while await content.readany():
                    pass
        except (TimeoutError, aiohttp.ClientError, OSError):
            return False
        return True


class _Ends:
    """The deadlines of one attempt."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        started = asyncio.get_running_loop().time()
        self._first = started + timeouts.first_byte
        self._total = started + timeouts.total

    async def first(self, work: Awaitable[_ResultT]) -> _ResultT:
        """Until the first byte of the body."""
        return await self._until(self._first, work, f"no reply within {self._timeouts.first_byte:g} s")

    async def next(self, work: Awaitable[_ResultT]) -> _ResultT:
        end = asyncio.get_running_loop().time() + self._timeouts.idle
        return await self._until(end, work, f"the reply stood still for {self._timeouts.idle:g} s")

    async def _until(self, end: float, work: Awaitable[_ResultT], says: str) -> _ResultT:
        if self._total < end:
            end, says = self._total, f"the reply took more than {self._timeouts.total:g} s"
        limit = asyncio.timeout_at(end)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise TransportError("timeout", says) from None


def _words(error: Exception) -> str:
    """An error in words. Those of aiohttp that show a request show its address only."""
    match error:
        case aiohttp.ClientConnectorError():
            return f"cannot connect to {error.host}:{error.port}: {error.os_error.strerror or error.os_error}"
        case aiohttp.ServerDisconnectedError():
            return "the server closed the connection"
        case aiohttp.ClientResponseError():
            return f"{type(error).__name__}: {error.message}"
        case _:
            return f"{type(error).__name__}: {error}"
