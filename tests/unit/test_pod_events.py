"""The Python consumer over real sockets: it goes on by itself, tells everything once, and gives up in bounded time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from actors.protocol.live import Delta
from orchestrator.events import AlertEvent, EntryEvent, EntryHeader, Resync, StatusEvent, UnknownEvent, wire_form
from orchestrator.gateway.sse import frame
from orchestrator.pod_events import Patience, PodEvents, Server, StoreEvents, StreamLost, StreamRefused
from orchestrator.transcript import Transcript
from session_store.entries import AssistantItems
from session_store.items import Text
from tests.support import store as words
from tests.support.control_plane import FakePlane
from tests.support.gateway import QUICK, served

IMPATIENT = Patience(first=0.01, longest=0.02, limit=0.1, silence=5.0)
PATIENT = Patience(first=0.01, longest=0.05, limit=30.0)
TS = "2026-11-30T12:00:00.000Z"


@dataclass
class ScriptedServer:
    """Answers its n-th connection with the n-th bytes and closes it, `after` s later; notes the cursor of each. None:
    says nothing."""

    answers: Sequence[bytes | None]
    after: float = 0.0
    port: int = 0
    places: list[str | None] = field(default_factory=list)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.lower().split(": ", 1) for line in request.split("\r\n")[1:] if line)
        self.places.append(headers.get("last-event-id"))
        answer = self.answers[min(len(self.places), len(self.answers)) - 1]
        if answer is None:
            await reader.read()  # until the client leaves
        else:
            writer.write(answer)
            await asyncio.sleep(self.after)
        writer.close()

    @property
    def server(self) -> Server:
        return Server(f"http://127.0.0.1:{self.port}")


@asynccontextmanager
async def scripted(*answers: bytes | None) -> AsyncIterator[ScriptedServer]:
    made = ScriptedServer(answers)
    listener = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.port = listener.sockets[0].getsockname()[1]
    async with listener:
        yield made


def ok(*events: object) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    return head + b"".join(frame(event) for event in events)  # type: ignore[arg-type]


def problem(status: int, detail: str) -> bytes:
    body = f'{{"type": "urn:polypod:x", "detail": "{detail}"}}'.encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def entry(seq: int) -> EntryEvent:
    return EntryEvent(seq, {"seq": seq, "ts": TS, "type": "extension"})


END = Resync("store-damaged", 9, None, "damaged at entry 9")


async def all_of(events: PodEvents) -> list[object]:
    async with events, asyncio.timeout(20):
        return [event async for event in events]


async def test_V01_a_lost_connection_is_taken_up_at_its_cursor() -> None:
    status = StatusEvent("running", 1, 4)
    answers = (
        ok(entry(4), status)[:-3],  # cut inside the second event
        ok(status, Delta("r", "b", 0, "日本", 4)),
        problem(503, "the store is away"),
        ok(status, Delta("r", "b", 0, "日本語", 4), entry(5), Resync("slow-reader", 9, {})),
        ok(entry(6), END),
    )
    async with scripted(*answers) as on:
        events = PodEvents(on.server, "p", after=3, patience=PATIENT)
        assert await all_of(events) == [
            entry(4),
            status,
            Delta("r", "b", 0, "日本", 4),
            Delta("r", "b", 2, "語", 4),
            entry(5),
            Resync("slow-reader", 9, {}),
            entry(6),
            END,
        ]
    assert on.places == ["3", "4", "4", "4", "5"]
    assert events.connections == 4


@pytest.mark.parametrize(("status", "detail"), [(404, "There is no such Pod."), (401, "No token."), (422, "Bad.")])
async def test_what_the_gateway_refuses_is_not_asked_again(status: int, detail: str) -> None:
    async with scripted(problem(status, detail)) as on:
        with pytest.raises(StreamRefused, match=detail) as caught:
            await all_of(PodEvents(on.server, "p", patience=PATIENT))
    assert (caught.value.status, len(on.places)) == (status, 1)


@pytest.mark.parametrize("answer", [problem(503, "away"), b"no http at all\r\n\r\n", None, ok()])
async def test_a_gateway_that_brings_nothing_is_given_up_in_bounded_time(answer: bytes | None) -> None:
    impatient = Patience(first=0.01, longest=0.02, limit=0.1, silence=0.02)
    async with scripted(answer) as on:
        with pytest.raises(StreamLost, match="go on after 7") as caught:
            await all_of(PodEvents(on.server, "p", after=7, patience=impatient))
        assert caught.value.place == "7"
        assert len(on.places) > 2


async def test_V01_a_quiet_stream_that_is_cut_now_and_then_is_never_lost() -> None:
    impatient = Patience(first=0.01, longest=0.02, limit=0.03)  # two cuts would be too many
    async with scripted(*[ok()] * 4, ok(entry(8), END)) as on:
        on.after = 0.2
        assert await all_of(PodEvents(on.server, "p", after=7, patience=impatient)) == [entry(8), END]
        assert len(on.places) == 5


async def test_nobody_there_is_told_with_the_place_to_go_on() -> None:
    async with scripted() as on:
        pass
    with pytest.raises(StreamLost):
        await all_of(PodEvents(on.server, "p", patience=IMPATIENT))


async def test_V09_unknown_events_are_handed_over_and_nothing_breaks() -> None:
    raw = ok() + b'id: 4\nevent: hologram\ndata: {"x": "\xf0\x9f\x99\x82"}\n\nevent: delta\ndata: oops\n\n'
    async with scripted(raw, ok(entry(5), END)) as on:
        seen = await all_of(PodEvents(on.server, "p", after=3, patience=PATIENT))
    assert [type(e) for e in seen] == [UnknownEvent, UnknownEvent, EntryEvent, Resync]
    assert on.places == ["3", "4"]


class Cutter:
    """Between clients and the gateway: breaks every connection after a random number of bytes."""

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._chance = random.Random(seed)
        self.cuts = 0
        self.steady = False

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self._chance.randint(1500, 4000)
        there, out = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            out.write(await reader.readuntil(b"\r\n\r\n"))
            while chunk := await there.read(1 << 16):
                writer.write(chunk if self.steady else chunk[:left])
                await writer.drain()
                left -= len(chunk)
                if left <= 0 and not self.steady:
                    self.cuts += 1
                    break
        except ConnectionError:
            pass  # the client left
        finally:
            writer.close()
            out.close()


@asynccontextmanager
async def cutting(port: int, seed: int) -> AsyncIterator[tuple[Cutter, Server]]:
    cutter = Cutter(port, seed)
    listener = await asyncio.start_server(cutter.carry, "127.0.0.1", 0)
    async with listener:
        yield cutter, Server(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")


async def test_V01_a_run_over_a_line_that_breaks_all_the_time() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    live = plane.live(owner)
    total = 60

    async def work() -> None:
        for number in range(total):
            request_id, text = f"r{number}", f"{number}:日本🙂\u2028" * 20
            for at in range(0, len(text), 17):
                live.text(request_id, f"{request_id}.1.0", text[at : at + 17])
                await asyncio.sleep(0.001)
            owner.append(AssistantItems(request_id, (Text(text, f"{request_id}.1.0"),)))
            live.committed(request_id)
        owner.end()

    async with served(plane) as on, cutting(on.server.port, 11) as (cutter, server), asyncio.timeout(60):
        working = asyncio.create_task(work())
        transcript, seen = Transcript(), []
        async with PodEvents(server, "p", after=3, patience=PATIENT) as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, Delta):
                    block = transcript.live.get(event.block)
                    assert event.offset == (0 if block is None else len(block.text))
                transcript.take(event)
                if isinstance(event, EntryEvent) and event.entry["type"] == "run_end":
                    break
        await working
    assert [e.seq for e in transcript.committed] == list(range(4, 4 + total + 1))
    assert transcript.live == {}
    assert cutter.cuts > 10  # how often depends on how text was joined on its way
    assert events.connections > 10


async def test_the_stream_of_many_pods_goes_on_too() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    plane.alert("a0", "p")
    total = 200
    async with served(plane) as on, cutting(on.server.port, 5) as (cutter, server), asyncio.timeout(60):
        headers, alerts = [], []
        async with StoreEvents(server, patience=PATIENT) as events:
            async for event in events:
                match event:
                    case AlertEvent():
                        alerts.append(event.alert_id)
                    case EntryHeader():
                        headers.append((event.pod_id, event.seq))
                    case _:
                        raise AssertionError(wire_form(event))
                if len(headers) == total:
                    break
                if len(headers) % 5 == 0:  # it has all there is: more than one header goes out together
                    for number in range(5):
                        owner.append(words.text("x", f"r{number}"))
    assert headers == [("p", seq) for seq in range(4, 4 + total)]
    assert alerts == ["a0"]
    assert cutter.cuts > 5


async def test_a_gateway_that_restarts_is_found_again() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    async with served(plane) as first, cutting(first.server.port, 1) as (cutter, server):
        cutter.steady = True
        seen: list[int] = []
        async with PodEvents(server, "p", after=3, patience=PATIENT) as events, asyncio.timeout(20):
            stream = aiter(events)
            owner.append(words.text("one"))
            while not seen:
                seen += [e.seq for e in [await anext(stream)] if isinstance(e, EntryEvent)]
            await first.server.close()
            async with served(plane, QUICK) as second:
                cutter._port = second.server.port
                owner.append(words.text("two"))
                while len(seen) < 2:
                    seen += [e.seq for e in [await anext(stream)] if isinstance(e, EntryEvent)]
    assert seen == [4, 5]


async def test_a_stream_is_iterated_inside_its_block_only() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await anext(aiter(PodEvents(Server("http://127.0.0.1:1"), "p")))
