"""Streams for tests of the wires: made by hand, and the recorded ones where they are to be had."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from actors.models.wire.anthropic import AnthropicWire
from actors.models.wire.blocks import Decoded
from actors.models.wire.openai_chat import OpenAIChatWire
from actors.models.wire.shape import Decoder, Wire
from actors.models.wire.sse import SseDecoder
from actors.protocol.model import ModelError
from session_store.items import Json
from tests.support.model_requests import Live

OPENAI = OpenAIChatWire("m")
ANTHROPIC = AnthropicWire("m")


def recorded(name: str) -> bytes:
    """A recorded stream, `<provider>/<file>`; skips the test where the recordings are not to be had."""
    given = os.environ.get("POLYPOD_SHARED")
    root = Path(given) if given else Path(__file__).resolve().parents[3] / "shared"
    path = root / "streams" / name
    if not path.is_file():
        pytest.skip(f"no recorded streams here ({name}); set POLYPOD_SHARED to the folder above `streams`")
    data = path.read_bytes()
    return data if name.endswith(".sse") else sse(*(line for line in data.decode().split("\n") if line.strip()))


def sse(*events: Json, end: bytes = b"") -> bytes:
    """Events as a stream; plain values become JSON, strings stay."""
    texts = (e if isinstance(e, str) else json.dumps(e, ensure_ascii=False) for e in events)
    return "".join(f"data: {text}\n\n" for text in texts).encode() + end


def chunk(finish: str | None = None, usage: Json = None, **delta: Json) -> Json:
    """A Chat Completions chunk."""
    return {"model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": usage}


def call_piece(index: int | None, arguments: str = "", name: str | None = None, call_id: str | None = None) -> Json:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"function": function} | ({"id": call_id} if call_id else {}) | ({} if index is None else {"index": index})


def block(index: int, start: Json, *deltas: Json, stop: bool = True) -> list[Json]:
    """An Anthropic content block as events."""
    events: list[Json] = [{"type": "content_block_start", "index": index, "content_block": start}]
    events += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
    return [*events, {"type": "content_block_stop", "index": index}] if stop else events


def message(*blocks: list[Json], stop: str | None = "end_turn", usage: Json = None) -> list[Json]:
    """An Anthropic message as events."""
    start = {"type": "message_start", "message": {"model": "c-1", "role": "assistant", "usage": usage or {}}}
    ending = [{"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {}}, {"type": "message_stop"}]
    return [start, *(e for b in blocks for e in b), *(ending if stop else [])]


def words(text: str) -> Json:
    return {"type": "text_delta", "text": text}


def part(text: str) -> Json:
    return {"type": "input_json_delta", "partial_json": text}


def run(wire: Wire, chunks: Iterable[bytes], live: Live | None = None) -> Decoded:
    """The reply of a stream that ends after `chunks`; raises the `ModelError` that it comes to."""
    events, decoder, live = SseDecoder(), wire.decoder("q.1"), live or Live()
    try:
        for piece in chunks:
            for event in events.feed(piece):
                show(decoder, event, live)
        for event in events.end():
            show(decoder, event, live)
        decoded, rest = decoder.end()
    except ModelError as error:
        raise decoder.fail(error) from None
    for text in rest:
        live.text("q", text.block, text.text)
    return decoded


def show(decoder: Decoder, event: object, live: Live) -> None:
    for text in decoder.feed(event):  # type: ignore[arg-type]
        live.text("q", text.block, text.text)
