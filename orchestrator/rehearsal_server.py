"""The model server of a rehearsal: on loopback, in the same process, with the same few replies for whoever asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from actors.protocol.config import Provider
from session_store.items import Json

NOTE = "note.txt"
"""The file that is read in every step."""

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_ARGUMENTS = json.dumps({"path": NOTE})


@asynccontextmanager
async def answering(provider: Provider, steps: int) -> AsyncIterator[str]:
    """The base URL of a server that calls `Read` `steps` times and then says something. Raises `OSError`."""
    replies = _anthropic if provider == "anthropic" else _openai
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        with suppress(OSError, asyncio.IncompleteReadError):  # the client has gone
            while True:
                await _request(reader)
                events = replies(asked if asked < steps else None)
                asked += 1
                writer.write(_HEAD + b"".join(_chunk(name, event) for name, event in events) + b"0\r\n\r\n")
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


async def _request(reader: asyncio.StreamReader) -> None:
    """Read one request to its end. Raises `IncompleteReadError` when there is none any more."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    _, _, rest = head.partition(b"content-length:")
    await reader.readexactly(int(rest.split(b"\r\n", 1)[0]))


def _chunk(name: str, event: Json) -> bytes:
    data = event if isinstance(event, str) else json.dumps(event)
    frame = (f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(frame), frame)


def _openai(step: int | None) -> list[tuple[str, Json]]:
    """The events of one Chat Completions reply; `step` None: the last one, without a call."""
    deltas: list[tuple[dict[str, Json], str | None]] = [({"role": "assistant", "content": "Reading the note."}, None)]
    if step is not None:
        function = {"name": "Read", "arguments": _ARGUMENTS}
        deltas.append(
            ({"tool_calls": [{"index": 0, "id": f"c{step}", "type": "function", "function": function}]}, None)
        )
    deltas.append(({}, "stop" if step is None else "tool_calls"))
    base = {"id": "-", "object": "chat.completion.chunk", "created": 1, "model": "-"}
    events: list[Json] = [{**base, "choices": [{"index": 0, "delta": d, "finish_reason": end}]} for d, end in deltas]
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return [("", event) for event in (*events, {**base, "choices": [], "usage": usage}, "[DONE]")]


def _anthropic(step: int | None) -> list[tuple[str, Json]]:
    """The events of one Messages reply; `step` as above."""
    usage = {"input_tokens": 100, "output_tokens": 1}
    message = {"id": "-", "type": "message", "role": "assistant", "model": "-", "content": [], "usage": usage}
    blocks: list[tuple[dict[str, Json], dict[str, Json]]] = [
        ({"type": "text", "text": ""}, {"type": "text_delta", "text": "Reading the note."})
    ]
    if step is not None:
        call = {"type": "tool_use", "id": f"c{step}", "name": "Read", "input": {}}
        blocks.append((call, {"type": "input_json_delta", "partial_json": _ARGUMENTS}))
    events: list[dict[str, Json]] = [{"type": "message_start", "message": message}]
    for index, (block, delta) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    reason = "end_turn" if step is None else "tool_use"
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 10}})
    events.append({"type": "message_stop"})
    return [(str(event["type"]), event) for event in events]
