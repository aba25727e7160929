"""The store's second entrance: a Unix socket for processes of the same machine and user.

A call here costs a fifth of one through Ray. A frame is four bytes of length and a msgpack list of requests; the answer
is a frame with the list of replies. A connection says with its first byte which lane it is, has a thread of its own
here, and one frame under way. Whoever waits meanwhile sends all that has gathered in one frame, so that what arrives
together is committed together.

The name is an abstract one (Linux): no file is left by a killed process, and no path can be too long. Both ends check
that the other is the same user's.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping

WRITES, READS = b"w", b"r"
LENGTH = struct.Struct(">I")
MOST_BYTES = 1 << 30
ACCEPT_PAUSE = 0.2
"""Seconds before the next try to take a process in after one that failed."""
_CREDENTIALS = struct.Struct("3i")

log = logging.getLogger(__name__)

Answer = Callable[[bytes], bytes]
"""From the list of requests in one frame to the list of replies."""


class LocalServer:
    """`lanes` by the first byte of a connection. Threads are daemons: they end with the process."""

    def __init__(self, lanes: Mapping[bytes, Answer]) -> None:
        self._lanes = lanes
        self._listener: socket.socket | None = None

    def start(self) -> str:
        """The address for `local_client`; empty where there are no such sockets."""
        if not sys.platform.startswith("linux"):
            return ""
        name = f"polypod-{uuid.uuid4().hex}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f"\0{name}")
        self._listener.listen(1024)
        threading.Thread(target=self._accept, args=(self._listener,), name="store-local", daemon=True).start()
        return name

    def _accept(self, listener: socket.socket) -> None:
        """For ever: whoever connected to a listener that nobody answers would wait instead of asking through Ray."""
        while True:
            try:
                connection, _ = listener.accept()
            except OSError as error:  # no more descriptors, as a rule: some come back when peers go
                log.warning("the store's local entrance takes nobody in for now: %s", error)
                time.sleep(ACCEPT_PAUSE)
                continue
            try:
                if not same_user(connection):
                    connection.close()
                    continue
                threading.Thread(target=self._serve, args=(connection,), name="store-peer", daemon=True).start()
            except (OSError, RuntimeError) as error:  # the peer has gone, or there can be no more threads
                log.warning("the store's local entrance turned a process away: %s", error)
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        """Until the peer goes. An answer that fails closes the connection: the peer asks through Ray then."""
        with connection:
            try:
                answer = self._lanes.get(connection.recv(1))
                while answer is not None and (frame := _receive(connection)) is not None:
                    reply = answer(frame)
                    connection.sendall(LENGTH.pack(len(reply)) + reply)
            except ConnectionError:
                return  # the peer has died


def same_user(connection: socket.socket) -> bool:
    """Whether the process at the other end is of the same user."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _pid, uid, _gid = _CREDENTIALS.unpack(found)
    return int(uid) == os.geteuid()


def _receive(connection: socket.socket) -> bytes | None:
    """One frame's content; None at the end."""
    data = connection.recv(1 << 16)
    while len(data) < LENGTH.size:
        more = connection.recv(1 << 16)
        if not more:
            return None
        data += more
    (length,) = LENGTH.unpack_from(data)
    if length > MOST_BYTES:
        return None
    content = bytearray(data[LENGTH.size :])
    while len(content) < length:
        more = connection.recv(min(length - len(content), 1 << 20))
        if not more:
            return None
        content += more
    return bytes(content)
