"""The heartbeats' short road: what both ends promise each other, without Ray and without a Directory."""

from __future__ import annotations

import asyncio
import socket
import threading
import uuid
from collections.abc import AsyncIterator

import pytest

from actors.pod.beat_line import BeatLine, reach
from orchestrator.directory.beats import BeatServer
from session_store.items import Json
from session_store.local_server import LENGTH

HELD: list[dict[str, Json]] = [
    {"session": "s1", "epoch": 3, "resting": 1.5},
    {"session": "s2", "epoch": 1, "resting": None},
]


def answer(actor_id: str, held: list[dict[str, Json]]) -> list[str]:
    if actor_id == "stranger":
        raise LookupError("actor stranger is not one of this Directory's")
    assert held == HELD
    return [str(h["session"]) for h in held if h["resting"] is None]


@pytest.fixture
async def address() -> AsyncIterator[str]:
    server = BeatServer(answer)
    yield await server.start()
    del server  # it listens as long as it is kept


async def reached(address: str) -> BeatLine:
    line = await asyncio.to_thread(reach, address)
    assert line is not None
    return line


async def test_a_beat_is_answered_with_what_is_to_be_dropped(address: str) -> None:
    line = await reached(address)
    for _ in range(3):
        assert await asyncio.to_thread(line.beat, "a1", HELD, 5.0) == {"drop": ["s2"]}
    line.close()


async def test_law3_a_stranger_is_told_so_and_beats_through_ray_from_then_on(address: str) -> None:
    line = await reached(address)
    with pytest.raises(LookupError, match="not one of this Directory's"):
        await asyncio.to_thread(line.beat, "stranger", HELD, 5.0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        line.beat("stranger", HELD, 5.0)


async def test_an_address_that_nobody_listens_on_leaves_the_beats_to_ray() -> None:
    assert await asyncio.to_thread(reach, f"polypod-{uuid.uuid4().hex}") is None
    assert reach("") is None


def listening() -> tuple[socket.socket, str]:
    name = f"polypod-{uuid.uuid4().hex}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0{name}")
    listener.listen(1)
    return listener, name


def test_law3_a_beat_without_an_answer_ends_and_its_late_reply_cannot_pass_for_the_next_ones() -> None:
    listener, name = listening()
    line = reach(name)
    assert line is not None
    with pytest.raises(TimeoutError):
        line.beat("a1", HELD, 0.02)
    with pytest.raises(OSError, match="Bad file descriptor"):
        line.beat("a1", HELD, 5.0)
    listener.close()


def test_a_directory_that_goes_away_in_the_middle_of_an_answer_is_an_error() -> None:
    listener, name = listening()
    line = reach(name)
    assert line is not None

    def half() -> None:
        peer, _ = listener.accept()
        peer.recv(1 << 16)
        peer.sendall(LENGTH.pack(100) + b"half")
        peer.close()

    other = threading.Thread(target=half)
    other.start()
    with pytest.raises(ConnectionError):
        line.beat("a1", HELD, 5.0)
    other.join()
    listener.close()


async def test_a_frame_that_is_too_long_or_garbled_ends_the_connection(address: str) -> None:
    for frame in (b"\xff\xff\xff\xff", LENGTH.pack(1) + b"\x01"):
        reader, writer = await asyncio.open_unix_connection(f"\0{address}")
        writer.write(frame)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asyncio.wait_for(reader.readexactly(1), 5)
        writer.close()
