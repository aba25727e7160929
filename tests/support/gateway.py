"""A gateway for tests: over ASGI for plain calls, on a real socket for streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx

from orchestrator.gateway.app import build_app
from orchestrator.gateway.context import Gateway
from orchestrator.gateway.door import EmptyDoor
from orchestrator.gateway.options import GatewayOptions
from orchestrator.gateway.server import GatewayServer, serve
from orchestrator.ports import PromptDoor
from tests.support.control_plane import FakePlane

QUICK = GatewayOptions(keepalive=0.3, cancel_wait=1.0, live_pause=0.005, follow_wait=1.0, watch_wait=1.0)


PROBLEM = "application/problem+json"


def check_problem(response: httpx.Response, status: int, kind: str | None) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM
    document: dict[str, Any] = response.json()
    assert document["type"] == ("about:blank" if kind is None else f"urn:polypod:{kind}")
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    return document


async def new_pod(http: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    response = await http.post("/v1/pods", json=body)
    assert response.status_code == 201, response.text
    return response.json()  # type: ignore[no-any-return]


@asynccontextmanager
async def client_of(plane: FakePlane, options: GatewayOptions = QUICK, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Plain calls without a socket; `door` is the `PromptDoor`."""
    gateway = Gateway(plane, options, more.pop("door", EmptyDoor()))
    transport = httpx.ASGITransport(build_app(gateway))
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7420", **more) as client:
            yield client
    finally:
        await gateway.close()


@dataclass
class Served:
    """A gateway on a socket."""

    gateway: Gateway
    server: GatewayServer
    http: httpx.AsyncClient


@asynccontextmanager
async def served(
    plane: FakePlane, options: GatewayOptions = QUICK, door: PromptDoor | None = None
) -> AsyncIterator[Served]:
    gateway = Gateway(plane, options, door or EmptyDoor())
    server = await serve(gateway, "127.0.0.1", 0)
    try:
        async with httpx.AsyncClient(base_url=server.address, timeout=10) as http:
            yield Served(gateway, server, http)
    finally:
        await server.close()


@dataclass(frozen=True)
class Event:
    name: str
    data: Any
    id: str | None = None


class Stream:
    """A client's side of one event stream, read by the standard's own rules. Comments count as `comments`."""

    def __init__(self, response: httpx.Response) -> None:
        self.comments = 0
        self.raw = ""
        self._chunks = response.aiter_bytes()
        self._events: list[Event] = []

    async def next(self, limit: float = 5.0) -> Event | None:
        """The next event; None at the end of the stream."""
        async with asyncio.timeout(limit):
            while not self._events:
                try:
                    chunk = await anext(self._chunks)
                except StopAsyncIteration:
                    return None
                self._take(chunk.decode())
        return self._events.pop(0)

    async def take(self, count: int) -> list[Event]:
        events = [await self.next() for _ in range(count)]
        assert None not in events
        return events  # type: ignore[return-value]

    async def until(self, name: str, **fields: Any) -> list[Event]:
        """Events up to the first of this name with these data."""
        events: list[Event] = []
        while True:
            event = await self.next()
            assert event is not None, f"the stream ended before {name} {fields}: {events}"
            events.append(event)
            if event.name == name and all(event.data.get(k) == v for k, v in fields.items()):
                return events

    async def quiet(self, seconds: float = 0.15) -> list[Event]:
        """What comes within a while."""
        events: list[Event] = []
        with suppress(TimeoutError):
            while (event := await self.next(seconds)) is not None:
                events.append(event)
        return events

    def _take(self, text: str) -> None:
        self.raw += text
        *frames, self.raw = self.raw.split("\n\n")
        for frame in frames:
            name, ident, data = "message", None, []
            for line in frame.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
                key, _, value = line.partition(":")
                value = value.removeprefix(" ")
                match key:
                    case "":
                        self.comments += 1
                    case "event":
                        name = value
                    case "id":
                        ident = value
                    case "data":
                        data.append(value)
            if data:
                self._events.append(Event(name, json.loads("\n".join(data)), ident))


@asynccontextmanager
async def stream(http: httpx.AsyncClient, path: str, **more: Any) -> AsyncIterator[Stream]:
    async with http.stream("GET", path, **more) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Stream(response)


def entries(events: list[Event]) -> list[int]:
    """The seqs of the committed entries among events."""
    return [int(e.id) for e in events if e.id is not None]


def texts(events: list[Event]) -> dict[str, str]:
    """The live text by block, as a client puts it together: checks offsets, forgets what is discarded."""
    blocks: dict[str, tuple[str, str]] = {}
    for event in events:
        if event.name == "delta":
            request_id, text = blocks.get(event.data["block"], (event.data["request_id"], ""))
            assert event.data["offset"] == len(text), event
            blocks[event.data["block"]] = (request_id, text + event.data["text"])
        elif event.name == "discard":
            blocks = {b: v for b, v in blocks.items() if v[0] != event.data["request_id"]}
    return {block: text for block, (_, text) in blocks.items()}


async def until(holds: Callable[[], bool], limit: float = 5.0) -> None:
    """Look until it holds."""
    async with asyncio.timeout(limit):
        while not holds():  # nothing tells of it
            await asyncio.sleep(0.01)
