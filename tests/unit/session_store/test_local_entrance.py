"""The store's local entrance: it goes on taking processes in, whatever one of them or the system does."""

from __future__ import annotations

import errno
import socket
import threading

import pytest

from session_store.local_client import connect
from session_store.local_server import LocalServer
from session_store.wire_codec import decode_many, encode_many


def backwards(frame: bytes) -> bytes:
    return encode_many([request[::-1] for request in decode_many(frame)])


async def test_what_is_asked_in_one_turn_is_answered_each() -> None:
    server = LocalServer({b"w": backwards})
    line = await connect(server.start(), b"w")
    assert line is not None
    asked = [line.ask(b"ab"), line.ask(b"cd")]
    assert [await answer for answer in asked] == [b"ba", b"dc"]
    line.close()


async def test_who_asks_for_a_lane_that_is_not_there_is_turned_away_and_others_are_served() -> None:
    server = LocalServer({b"w": backwards})
    address = server.start()
    bad, good = await connect(address, b"?"), await connect(address, b"w")
    assert bad is not None
    assert good is not None
    with pytest.raises(ConnectionError):
        await bad.ask(b"ab")
    assert await good.ask(b"ab") == b"ba"
    good.close()


class ShortOfDescriptors:
    """A listener that fails at first, as one does in a process that has no descriptors left."""

    def __init__(self, name: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f"\0{name}")
        self._listener.listen()
        self.failures = 2

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()


async def test_a_process_that_could_not_be_taken_in_is_taken_in_later() -> None:
    name = "polypod-test-short-of-descriptors"
    listener = ShortOfDescriptors(name)
    server = LocalServer({b"w": backwards})
    threading.Thread(target=server._accept, args=(listener,), daemon=True).start()
    line = await connect(name, b"w")
    assert line is not None
    assert (await line.ask(b"ab"), listener.failures) == (b"ba", 0)
    line.close()
