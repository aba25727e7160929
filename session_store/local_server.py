"""The store's second entrance: a Unix socket for processes of the same machine and user.

A call here costs a fifth of one through Ray. A frame is four bytes of length and a msgpack list of requests; the answer
is a frame with the list of replies. A connection says with its first byte which lane it is, has a thread of its own
here, and one frame under way. Whoever waits meanwhile sends all that has gathered in one frame, so that what arrives
together is committed together.

A connection of the third lane carries hints the other way: its process names the sessions it runs (`+id`, `-id`), and
is told of each that has got a message, straight from the commit. Such a hint may be lost like any other.

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
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

WRITES, READS, HINTS = b"w", b"r", b"h"
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
        self._hearers: dict[bytes, socket.socket] = {}
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

    def hint(self, sessions: Iterable[str]) -> None:
        """Tell whoever runs them here; never waits."""
        for name in (session.encode() for session in sessions):
            hearer = self._hearers.get(name)
            if hearer is not None:
                frame = LENGTH.pack(len(name)) + name
                with suppress(OSError):  # it has died, or does not read
                    if hearer.send(frame, socket.MSG_DONTWAIT) < len(frame):
                        hearer.shutdown(socket.SHUT_RDWR)  # half a frame would garble all that follow

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
                lane = connection.recv(1)
                if lane == HINTS:
                    self._hear(connection)
                    return
                answer = self._lanes.get(lane)
                while answer is not None and (frame := _receive(connection)) is not None:
                    reply = answer(frame)
                    connection.sendall(LENGTH.pack(len(reply)) + reply)
            except ConnectionError:
                return  # the peer has died

    def _hear(self, connection: socket.socket) -> None:
        """Learn which sessions the peer runs, until it goes."""
        try:
            rest = b""
            while data := connection.recv(1 << 16):
                *told, rest = (rest + data).split(b"\n")
                for line in told:
                    session = line[1:]
                    if line[:1] == b"+":
                        self._hearers[session] = connection
                    elif self._hearers.get(session) is connection:
                        del self._hearers[session]
        finally:
            for session in [s for s, c in list(self._hearers.items()) if c is connection]:
                self._hearers.pop(session, None)


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
