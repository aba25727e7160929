"""Which HTTP client the model wires stand on: aiohttp, httpx and bare asyncio streams beside each other.

Each client sends requests of 50, 200 and 800 steps (kept bytes, joined) to one local server in another process and
reads the streamed reply: wall time, and the client's own CPU time. The polypod endpoint does the same over aiohttp, and
decodes.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from actors.models.registry import build_model
from actors.protocol.config import ModelSpec
from actors.protocol.model import ModelRequest
from benchmarks.bare_loops import history
from benchmarks.model_server import ModelServer
from benchmarks.report import Cell, Report, Table

STEPS = (50, 200, 800)
ROUNDS, WARM = 80, 5
Send = Callable[[str, bytes], Awaitable[int]]
"""(URL, body) -> bytes of the reply."""


class Silent:
    """A live sink that shows nothing."""

    def text(self, request_id: str, block: str, text: str) -> None: ...

    def retry(self, request_id: str, attempt: int, wait: float, reason: str) -> None: ...

    def discard(self, request_id: str) -> None: ...


async def by_aiohttp(measure: Callable[[Send], Awaitable[None]]) -> None:
    import aiohttp  # lazy: a contender

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def send(url: str, body: bytes) -> int:
            async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as reply:
                return sum([len(chunk) async for chunk in reply.content.iter_any()])

        await measure(send)


async def by_httpx(measure: Callable[[Send], Awaitable[None]]) -> None:
    import httpx  # lazy: a contender

    async with httpx.AsyncClient(timeout=60) as client:

        async def send(url: str, body: bytes) -> int:
            async with client.stream("POST", url, content=body, headers={"Content-Type": "application/json"}) as reply:
                return sum([len(chunk) async for chunk in reply.aiter_bytes()])

        await measure(send)


async def by_bare_streams(measure: Callable[[Send], Awaitable[None]]) -> None:
    """No client at all: the least that Python can do. Chunked replies only, no TLS, no errors."""
    streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(url: str, body: bytes) -> int:
        parts = urlsplit(url)
        if not streams:
            streams.append(await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 24))
        reader, writer = streams[0]
        head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        await reader.readuntil(b"\r\n\r\n")
        total = 0
        while size := int(await reader.readline(), 16):
            total += len((await reader.readexactly(size + 2))[:-2])
        await reader.readexactly(2)
        return total

    await measure(send)
    streams[0][1].close()


async def measured(once: Callable[[int], Awaitable[object]]) -> tuple[float, float]:
    """(wall, own CPU) milliseconds of one request, p50, after a few that do not count."""
    walls, own = [], []
    for number in range(1, ROUNDS + WARM + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        await once(number)
        walls.append((time.perf_counter() - wall) * 1000)
        own.append((time.process_time() - cpu) * 1000)
    return statistics.median(walls[WARM:]), statistics.median(own[WARM:])


def kept(steps: int) -> list[bytes]:
    return [json.dumps(m, separators=(",", ":")).encode() for m in history(steps)]


async def by_send(server: ModelServer, steps: int, send: Send) -> tuple[float, float]:
    plain = kept(steps)
    url = f"{server.url('x', 10**6)}/chat/completions"
    return await measured(lambda _: send(url, b'{"model":"m","messages":[' + b",".join(plain) + b"]}"))


async def by_polypod(server: ModelServer, steps: int) -> tuple[float, float]:
    """The whole way: assemble, send, decode the stream into a reply."""
    model = build_model(ModelSpec("m", "openai", "m", base_url=server.url("x", 10**6)), {})
    plain = kept(steps)
    found = await measured(
        lambda n: model.reply(ModelRequest(f"r{n}", "s", "p", n, "Be careful.", (), plain), Silent())
    )
    await model.close()
    return found


def imported(module: str) -> tuple[float, float]:
    """Milliseconds and MB (private) that importing a module costs in a fresh process that has asyncio."""
    code = (
        "import asyncio, json, time\n"
        "def mb():\n"
        "    rows = open('/proc/self/smaps_rollup')\n"
        "    return sum(int(row.split()[1]) for row in rows if row.startswith('Private')) / 1024\n"
        "before, started = mb(), time.perf_counter()\n"
        f"import {module}\n"
        "print(json.dumps([(time.perf_counter() - started) * 1000, mb() - before]))"
    )
    runs = [json.loads(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3)]
    return min(r[0] for r in runs), min(r[1] for r in runs)


async def compare(server: ModelServer) -> list[tuple[str, list[tuple[float, float]]]]:
    """By client: (wall, own CPU) at each length."""
    found: list[tuple[str, list[tuple[float, float]]]] = []
    ways = {"bare asyncio streams": by_bare_streams, "aiohttp": by_aiohttp, "httpx": by_httpx}
    for name, way in ways.items():
        row: list[tuple[float, float]] = []

        async def measure(send: Send, row: list[tuple[float, float]] = row) -> None:
            for steps in STEPS:
                row.append(await by_send(server, steps, send))

        await way(measure)
        found.append((name, row))
    found.append(("polypod endpoint, with decoding", [await by_polypod(server, steps) for steps in STEPS]))
    return found


def run(quick: bool) -> Report:
    del quick  # it takes seconds
    with ModelServer() as server:
        found = asyncio.run(compare(server))
    least = found[0][1]
    rows: list[tuple[Cell, ...]] = [
        (name, *(wall for wall, _ in row), *(own for _, own in row), row[-1][1] / least[-1][1]) for name, row in found
    ]
    columns = (*(f"wall {s}" for s in STEPS), *(f"CPU {s}" for s in STEPS), "CPU / bare")
    ours = ("session_store.codec", "actors.protocol.model", "actors.models.registry", "actors.models.http")
    imports = tuple((module, *imported(module)) for module in ("aiohttp", "httpx", *ours))
    return Report(
        "HTTP client: what one streamed request costs its sender",
        (
            Table("ms per request, p50, by steps of history", ("", *columns), tuple(rows)),
            Table("import", ("", "ms", "MiB private"), imports),
        ),
    )
