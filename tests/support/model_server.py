"""A model server on loopback: streams scripted replies in the Chat Completions form, with every fault a test asks for.

It measures the time it spends itself (`ModelServer.busy`), so that benchmarks can take it off.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from session_store.items import Json


@dataclass(frozen=True)
class Answer:
    """One answer of the server.

    With `status` other than 200: a JSON error. Otherwise a stream of `events` (see `text_events`), or `stream`, bytes
    sent as they are. `before` seconds pass before the headers, `first` before the first event; `hang_after` events the
    stream stands still, `cut_after` events the connection is cut.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Json = None
    events: Sequence[Json] = ()
    stream: bytes | None = None
    before: float = 0.0
    first: float = 0.0
    hang_after: int | None = None
    cut_after: int | None = None
    end: bool = True


def text_events(text: str = "ok", calls: Sequence[tuple[str, Json]] = (), usage: Json = None) -> list[Json]:
    """A reply of one text and some calls `(name, arguments)`."""

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {"model": "served", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": text[at : at + 8]}) for at in range(0, len(text), 8)]
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        events.append(chunk({"tool_calls": [{"index": index, "id": f"call_{index}", "function": function}]}))
    events.append(chunk({}, "tool_calls" if calls else "stop"))
    events.append({"choices": [], "usage": usage or {"prompt_tokens": 10, "completion_tokens": 2}})
    return events


Answerer = Callable[[int, Json], Answer]
"""(number of the request from 1, its parsed body) -> answer."""


class ModelServer:
    """Answers requests in order from a list (its last answer repeats), or by a function."""

    def __init__(self, answers: Sequence[Answer] | Answerer = ()) -> None:
        self._answers = answers or [Answer(events=text_events())]
        self.bodies: list[Json] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.busy = 0.0
        self.open = 0
        self.closed = asyncio.Event()
        self.connections: set[str] = set()
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        started = time.perf_counter()
        self.times.append(time.monotonic())
        assert request.transport is not None
        self.connections.add(str(request.transport.get_extra_info("peername")))
        body = json.loads(await request.read())
        self.bodies.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        answer = self._answer(len(self.bodies), body)
        self.open += 1
        try:
            return await self._send(request, answer)
        finally:
            self.open -= 1
            self.busy += time.perf_counter() - started
            self.closed.set()

    def _answer(self, number: int, body: Json) -> Answer:
        if callable(self._answers):
            return self._answers(number, body)
        return self._answers[min(number, len(self._answers)) - 1]

    async def _send(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        await asyncio.sleep(answer.before)
        if answer.status != 200:
            return web.json_response(answer.body, status=answer.status, headers=answer.headers)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **answer.headers})
        await response.prepare(request)
        if answer.first:
            await asyncio.sleep(answer.first)
        if answer.stream is not None:
            await response.write(answer.stream)
            return response
        for place, event in enumerate(answer.events):
            if place == answer.hang_after:
                await asyncio.sleep(3600)
            if place == answer.cut_after:
                return self._cut(request, response)
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
        if answer.hang_after == len(answer.events):
            await asyncio.sleep(3600)
        if answer.end:
            await response.write(b"data: [DONE]\n\n")
        return response

    def _cut(self, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return response


@asynccontextmanager
async def serve(answers: Sequence[Answer] | Answerer = ()) -> AsyncIterator[ModelServer]:
    """A running server; `url` is the base URL for `[models.NAME]`."""
    server = ModelServer(answers)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", server.handle)
    app.router.add_post("/v1/messages", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()
