"""A model server that costs next to nothing and measures itself: OpenAI Chat Completions, streamed.

It runs in a process of its own. `POST /<key>/<steps>/v1/chat/completions` answers with a tool call until the history in
the request holds `<steps>` replies, then with text; `<steps>+<ms>` makes it wait so long before each reply.
`GET /<key>` gives the recorded moments of that key as JSON: `[[arrival of the request line, end of the reply], …]` in
nanoseconds of one monotonic clock. What a client spends between the end of one reply and the arrival of its next
request is the client's own time.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import socket
import time
import urllib.request
from collections import defaultdict
from itertools import pairwise
from multiprocessing.connection import Connection

TOOL = "Read"
ARGUMENTS = {"path": "note.txt"}
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _event(data: object) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    frame = f"data: {text}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(frame), frame)


def _chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


def _usage(size: int) -> bytes:
    usage = {"prompt_tokens": size // 4, "completion_tokens": 12, "total_tokens": size // 4 + 12}
    return _event(
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage}
    )


def _tool_reply(step: int, size: int) -> bytes:
    function = {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}
    call = {"index": 0, "id": f"call_{step}", "type": "function", "function": function}
    parts = [_chunk({"role": "assistant", "content": "Reading on."}), _chunk({"tool_calls": [call]})]
    return b"".join([*parts, _chunk({}, "tool_calls"), _usage(size), _event("[DONE]"), b"0\r\n\r\n"])


def _text_reply(size: int) -> bytes:
    parts = [_chunk({"role": "assistant", "content": "All steps are done."}), _chunk({}, "stop")]
    return b"".join([*parts, _usage(size), _event("[DONE]"), b"0\r\n\r\n"])


class _Server:
    def __init__(self) -> None:
        self.moments: dict[str, list[tuple[int, int]]] = defaultdict(list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        line = await reader.readline()
        arrived = time.monotonic_ns()
        if not line:
            return False
        method, path, _ = line.decode().split(" ", 2)
        length = 0
        while (header := await reader.readline()) not in (b"\r\n", b""):
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        body = await reader.readexactly(length)
        key, *rest = path.strip("/").split("/")
        if method == "GET":
            data = json.dumps(self.moments.get(key, [])).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data))
            await writer.drain()
            return True
        step = body.count(b'"assistant"')
        steps, _, delay = rest[0].partition("+")
        if delay:
            await asyncio.sleep(int(delay) / 1000)
        writer.write(_HEAD + (_text_reply(length) if step >= int(steps) else _tool_reply(step, length)))
        await writer.drain()
        self.moments[key].append((arrived, time.monotonic_ns()))
        return True


def _main(port_to: Connection) -> None:
    async def run() -> None:
        server = await asyncio.start_server(_Server().serve, "127.0.0.1", 0, limit=1 << 26)
        port_to.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


class ModelServer:
    """Starts the server; `with ModelServer() as server: server.url("key", steps=50)`."""

    def __enter__(self) -> ModelServer:
        ours, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(target=_main, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()  # so that a server that does not start is an error here, not a wait
        self._port = ours.recv()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join(5)

    def url(self, key: str, steps: int, delay_ms: int = 0) -> str:
        """The base URL for one measured run: its key, how many tool steps it takes, how long each reply takes."""
        wait = f"+{delay_ms}" if delay_ms else ""
        return f"http://127.0.0.1:{self._port}/{key}/{steps}{wait}/v1"

    def moments(self, key: str) -> list[tuple[int, int]]:
        """(arrival, end) of each request that was answered, in nanoseconds of `time.monotonic_ns`."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/{key}") as reply:
            found: list[tuple[int, int]] = [(a, b) for a, b in json.load(reply)]
        return found

    def own_times(self, key: str) -> list[float]:
        """Milliseconds the client spent before each request after its first."""
        moments = self.moments(key)
        return [(after[0] - before[1]) / 1e6 for before, after in pairwise(moments)]
