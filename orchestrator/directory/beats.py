"""The Directory's end of `actors.pod.beat_line`: heartbeats of processes of the same machine and user.

They are answered on the Directory's event loop like those that come through Ray: a Directory that stands still answers
none.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import uuid
from collections.abc import Callable
from typing import cast

from session_store.codec import pack, unpack
from session_store.items import Json
from session_store.local_server import LENGTH, same_user

log = logging.getLogger("polypod.directory")

MOST_BYTES = 16 << 20
"""Of one beat; a Pod in it takes about 100."""

Answer = Callable[[str, list[dict[str, Json]]], list[str]]
"""(actor id, held) to the sessions it must drop; raises `LookupError` for an actor that gets no lease."""


class BeatServer:
    """To be kept as long as beats are to be answered: an event loop does not hold it."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen on this event loop; the address, empty where it cannot be: Ray carries all beats then."""
        if not sys.platform.startswith("linux"):
            return ""
        name = f"polypod-beats-{uuid.uuid4().hex}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(f"\0{name}")
            listener.listen(1024)
            listener.setblocking(False)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(lambda: BeatPeer(self._answer), sock=listener)
        except OSError as error:
            log.warning("heartbeats have no short road: %s", error)
            listener.close()
            return ""
        return name


class BeatPeer(asyncio.Protocol):
    """One Pod process. A frame that cannot be read ends the connection: the process beats through Ray then."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._transport: asyncio.Transport | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not same_user(transport.get_extra_info("socket")):
            transport.close()
            return
        self._transport = cast(asyncio.Transport, transport)  # other event loops' transports are not its subclasses

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self._transport is not None and len(self._buffer) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._buffer)
            end = LENGTH.size + length
            if length > MOST_BYTES:
                self._transport.abort()
                return
            if len(self._buffer) < end:
                return
            frame, self._buffer = self._buffer[LENGTH.size : end], self._buffer[end:]
            self._reply(self._transport, frame)

    def _reply(self, transport: asyncio.Transport, frame: bytes) -> None:
        try:
            actor_id, held = unpack(frame)
            reply = pack({"drop": self._answer(actor_id, held)})
        except LookupError as error:
            reply = pack({"error": str(error)})
        except Exception:
            transport.abort()
            raise
        transport.write(LENGTH.pack(len(reply)) + reply)
