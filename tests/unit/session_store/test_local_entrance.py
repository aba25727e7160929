"""The store's local entrance: what both ends promise each other, without Ray and without a store."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
import uuid

import pytest

from session_store.local_client import LocalLine, connect, connect_hints
from session_store.local_server import READS, WRITES, Answer, LocalServer
from session_store.wire_codec import decode_many, encode_many


def shout(frame: bytes) -> bytes:
    return encode_many([part.upper() for part in decode_many(frame)])


async def opened(write: Answer = shout, read: Answer = shout, lane: bytes = WRITES) -> LocalLine:
    line = await connect(LocalServer({WRITES: write, READS: read}).start(), lane)
    assert line is not None
    return line


async def test_each_request_gets_its_own_reply_also_when_they_are_large() -> None:
    line = await opened()
    asked = [b"%d:" % n + b"x" * n for n in (0, 1, 70_000, 3_000_000)]
    assert await asyncio.gather(*(line.ask(a) for a in asked)) == [a.upper() for a in asked]
    line.close()


async def test_what_is_asked_while_a_frame_is_under_way_goes_in_one_frame() -> None:
    frames: list[int] = []
    go = threading.Event()

    def count(frame: bytes) -> bytes:
        frames.append(len(decode_many(frame)))
        assert go.wait(5)
        return frame

    line = await opened(count)
    first = line.ask(b"first")
    while not frames:
        await asyncio.sleep(0.001)
    rest = [line.ask(b"more") for _ in range(5)]
    go.set()
    await asyncio.gather(first, *rest)
    assert frames == [1, 5]
    line.close()


async def test_a_waiting_write_holds_no_read_up() -> None:
    go = threading.Event()
    server = LocalServer({WRITES: lambda frame: frame if go.wait(5) else b"", READS: shout})
    address = server.start()
    writes, reads = await connect(address, WRITES), await connect(address, READS)
    assert writes is not None
    assert reads is not None
    stuck = writes.ask(b"w")
    assert await asyncio.wait_for(reads.ask(b"r"), 2) == b"R"
    assert not stuck.done()
    go.set()
    await stuck


async def test_a_cancelled_request_does_not_mix_replies_up() -> None:
    line = await opened()
    cancelled = line.ask(b"gone")
    await asyncio.sleep(0)
    cancelled.cancel()
    assert await line.ask(b"next") == b"NEXT"
    line.close()


async def test_an_answer_that_fails_closes_the_connection_and_tells_all_who_wait() -> None:
    def fail(frame: bytes) -> bytes:
        raise ConnectionResetError("the store's process ended")

    line = await opened(fail)
    told = await asyncio.gather(line.ask(b"a"), line.ask(b"b"), return_exceptions=True)
    assert [type(t) for t in told] == [ConnectionResetError, ConnectionResetError]
    with pytest.raises(ConnectionResetError):
        await line.ask(b"later")


async def test_an_address_of_another_machine_is_no_connection() -> None:
    assert await connect(f"polypod-{uuid.uuid4().hex}", WRITES) is None


async def test_a_lane_that_is_none_is_closed() -> None:
    line = await opened(lane=b"?")
    with pytest.raises(ConnectionResetError):
        await line.ask(b"a")


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
    name = f"polypod-{uuid.uuid4().hex}"  # the names are those of the whole machine
    listener = ShortOfDescriptors(name)
    server = LocalServer({WRITES: shout})
    threading.Thread(target=server._accept, args=(listener,), daemon=True).start()
    line = await connect(name, WRITES)
    assert line is not None
    assert (await line.ask(b"ab"), listener.failures) == (b"AB", 0)
    line.close()


async def test_a_process_is_told_of_messages_for_the_sessions_it_runs_and_of_no_others() -> None:
    server = LocalServer({})
    heard: asyncio.Queue[str] = asyncio.Queue()
    line = await connect_hints(server.start(), heard.put_nowait)
    assert line is not None
    line.runs("mine")
    line.runs("left")
    line.runs("left", still=False)
    line.runs("last")
    for _ in range(500):
        server.hint(["last"])
        if not heard.empty():
            break
        await asyncio.sleep(0.01)
    while not heard.empty():
        heard.get_nowait()
    server.hint(["another", "left", "mine", "last"])
    assert [await asyncio.wait_for(heard.get(), 2) for _ in range(2)] in (["mine", "last"], ["last", "mine"])
    line.close()


async def test_hints_for_a_process_that_has_gone_are_lost_quietly() -> None:
    server = LocalServer({})
    line = await connect_hints(server.start(), lambda session: None)
    assert line is not None
    line.runs("mine")
    line.close()
    for _ in range(20):
        server.hint(["mine"])
        await asyncio.sleep(0.005)
