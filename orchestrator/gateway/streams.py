"""A stream of server-sent events over ASGI: ends with the client, drops who does not read, leaves nothing open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from orchestrator.events import SLOW_READER
from orchestrator.gateway.options import GatewayOptions
from orchestrator.gateway.sse import MEDIA_TYPE


class Reader(Protocol):
    """Who makes a stream's bytes."""

    def chunks(self) -> AsyncGenerator[bytes, None]: ...

    async def farewell(self, reason: str) -> bytes:
        """The last bytes for a reader that is dropped."""


class EventStream(Response):
    """`source` is entered before the first byte is sent; so what it raises can still become a problem."""

    def __init__(self, source: Callable[[], AbstractAsyncContextManager[Reader]], options: GatewayOptions) -> None:
        super().__init__(media_type=MEDIA_TYPE)
        del self.headers["content-length"]
        self.headers["Cache-Control"] = "no-store"
        self.headers["X-Accel-Buffering"] = "no"
        self._source = source
        self._options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._source() as reader:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            slow = await self._until_gone(self._pump(reader, send), receive)
            last = await reader.farewell(SLOW_READER) if slow else b""
        # The source is left: a reader that is dropped holds nothing but its connection.
        if slow is not None:
            await self._until_gone(self._sent(last, False, send, self._options.linger), receive)

    async def _until_gone(self, work: Coroutine[Any, Any, bool], receive: Receive) -> bool | None:
        """What `work` says in the end, or None when the client left first."""
        doing = asyncio.create_task(work)
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
            return doing.result() if doing.done() else None
        finally:
            doing.cancel()
            gone.cancel()
            await asyncio.gather(doing, gone, return_exceptions=True)

    async def _pump(self, reader: Reader, send: Send) -> bool:
        """Whether the reader is too slow; else it has come to its end."""
        async with aclosing(reader.chunks()) as chunks:
            async for chunk in chunks:
                if not await self._sent(chunk, True, send, self._options.stall):
                    return True
        return False

    async def _sent(self, body: bytes, more: bool, send: Send, seconds: float) -> bool:
        """Whether the connection took it in time. A chunk that it did not take is not sent at all."""
        try:
            async with asyncio.timeout(seconds):
                await send({"type": "http.response.body", "body": body, "more_body": more})
        except TimeoutError:
            return False
        return True


async def _disconnected(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
