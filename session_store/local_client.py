"""The client's end of `local_server`, for an event loop."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import TypeVar, cast

from session_store.local_server import HINTS, LENGTH, same_user
from session_store.wire_codec import decode_many, encode_many

MOST_IN_ONE_FRAME = 64

ProtocolT = TypeVar("ProtocolT", bound=asyncio.Protocol)
_Waiting = tuple[bytes, "asyncio.Future[bytes]"]


class LocalLine(asyncio.Protocol):
    """One connection, one frame under way. What is asked meanwhile goes together in the next."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._queue: deque[_Waiting] = deque()
        self._asked: list[asyncio.Future[bytes]] = []
        self._buffer = bytearray()
        self._due = False

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def ask(self, payload: bytes) -> asyncio.Future[bytes]:
        """The reply to one request; `ConnectionError` when the connection is lost: it may be carried out or not."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        if self.closed:
            answer.set_exception(ConnectionResetError("the connection to the store is closed"))
            return answer
        self._queue.append((payload, answer))
        if not self._asked and not self._due:
            self._due = True
            loop.call_soon(self._send)  # what is asked in this turn of the loop goes in one frame
        return answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # other event loops' transports are not its subclasses

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for answer in (*self._asked, *(a for _, a in self._queue)):
            if not answer.done():
                answer.set_exception(ConnectionResetError("the store has closed the connection"))
        self._asked, self._queue = [], deque()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) < LENGTH.size:
            return
        (length,) = LENGTH.unpack_from(self._buffer)
        if len(self._buffer) < LENGTH.size + length:
            return
        replies = decode_many(bytes(self._buffer[LENGTH.size :]))
        self._buffer.clear()
        asked, self._asked = self._asked, []
        for answer, reply in zip(asked, replies, strict=True):
            if not answer.done():
                answer.set_result(reply)
        if self._queue:
            self._send()

    def _send(self) -> None:
        self._due = False
        if self._transport is None or self._asked:
            return
        taken = [self._queue.popleft() for _ in range(min(len(self._queue), MOST_IN_ONE_FRAME))]
        if taken:
            self._asked = [answer for _, answer in taken]
            frame = encode_many([payload for payload, _ in taken])
            self._transport.write(LENGTH.pack(len(frame)) + frame)


class HintLine(asyncio.Protocol):
    """Says which sessions this process runs, and hears of each that has got a message."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        self._heard = heard
        self._transport: asyncio.Transport | None = None
        self._buffer = b""

    def runs(self, session: str, still: bool = True) -> None:
        if self._transport is not None:
            self._transport.write(f"{'+' if still else '-'}{session}\n".encode())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._buffer)
            end = LENGTH.size + length
            if len(self._buffer) < end:
                return
            session, self._buffer = self._buffer[LENGTH.size : end].decode(), self._buffer[end:]
            self._heard(session)


async def connect(address: str, lane: bytes) -> LocalLine | None:
    """None when the address is not of this machine and user, or its process has gone."""
    return await _connected(address, lane, LocalLine)


async def connect_hints(address: str, heard: Callable[[str], None]) -> HintLine | None:
    """`heard(session)` is called on this event loop. None as for `connect`."""
    return await _connected(address, HINTS, lambda: HintLine(heard))


async def _connected(address: str, lane: bytes, make: Callable[[], ProtocolT]) -> ProtocolT | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    loop = asyncio.get_running_loop()
    try:
        connection.setblocking(False)
        await loop.sock_connect(connection, f"\0{address}")
        if not same_user(connection):
            raise ConnectionRefusedError("another user's process has that name")
        connection.sendall(lane)
    except OSError:
        connection.close()
        return None
    _, line = await loop.create_unix_connection(make, sock=connection)
    return line
