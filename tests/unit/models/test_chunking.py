"""Case M11: however the network cuts a stream, the reply and its live text are the same."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.models.wire.shape import Wire
from tests.support.model_requests import Live
from tests.support.wire_streams import ANTHROPIC, OPENAI, block, call_piece, chunk, message, part, run, sse, words

OPENAI_STREAM = sse(
    chunk(reasoning_content="考える 🎈"),
    chunk(content="日本語 ÷ "),
    '{"choices":[{"delta":{"content":"\\ud83c"}}]}',
    '{"choices":[{"delta":{"content":"\\udf88"}}]}',
    chunk(tool_calls=[call_piece(0, '{"path":"/ü', "Read", "c1"), call_piece(1, "{", "Read", "c1")]),
    chunk(tool_calls=[call_piece(1, '"path":"b"}'), call_piece(0, '/é"}')]),
    chunk("tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
    "[DONE]",
).replace(b"\n\n", b"\r\n\r\n")
ANTHROPIC_STREAM = sse(
    *message(
        block(0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "考"}),
        block(1, {"type": "text", "text": ""}, words("日本語 "), words("🎈")),
        block(2, {"type": "tool_use", "id": "t", "name": "Read", "input": {}}, part('{"path":"'), part('ü"}')),
        stop="tool_use",
        usage={"input_tokens": 4},
    )
)


@pytest.mark.parametrize(("wire", "stream"), [(OPENAI, OPENAI_STREAM), (ANTHROPIC, ANTHROPIC_STREAM)])
@given(data=st.data())
def test_M11_any_chunking_gives_the_same_reply(wire: Wire, stream: bytes, data: st.DataObject) -> None:
    whole = Live()
    expect = run(wire, [stream], whole)
    assert len(expect.items) >= 3
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=30)))
    edges = [0, *cuts, len(stream)]
    live = Live()
    assert run(wire, [stream[a:b] for a, b in pairwise(edges)], live) == expect
    assert live.texts == whole.texts


@pytest.mark.parametrize(("wire", "stream"), [(OPENAI, OPENAI_STREAM), (ANTHROPIC, ANTHROPIC_STREAM)])
def test_M11_one_byte_at_a_time(wire: Wire, stream: bytes) -> None:
    assert run(wire, [stream[i : i + 1] for i in range(len(stream))]) == run(wire, [stream])
