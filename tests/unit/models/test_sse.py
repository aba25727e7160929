"""Server-sent events: any chunking, any line end, nothing unbounded."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.models.wire.sse import SseDecoder, SseEvent, StreamTooLarge


def decode(*chunks: bytes, **limits: int) -> list[SseEvent]:
    decoder = SseDecoder(**limits)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.end()


@pytest.mark.parametrize(
    ("stream", "expect"),
    [
        (b"data: a\n\n", [SseEvent("message", "a")]),
        (b"event: ping\ndata: {}\n\n", [SseEvent("ping", "{}")]),
        (b"data: a\ndata: b\n\ndata:c\n\n", [SseEvent("message", "a\nb"), SseEvent("message", "c")]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [SseEvent("message", x) for x in "abc"]),
        (b": a comment\n\nid: 7\nretry: 3\nunknown: x\ndata: a\n\n", [SseEvent("message", "a")]),
        (b"event: lonely\n\ndata: a\n\n", [SseEvent("message", "a")]),
        (b"\xef\xbb\xbfdata: bom\n\n", [SseEvent("message", "bom")]),
        (b"data: \xff\xfe\n\n", [SseEvent("message", "\ufffd\ufffd")]),
        (b"data\n\n", [SseEvent("message", "")]),
        (b"data: no empty line\n", [SseEvent("message", "no empty line")]),
        (b"data: no line end", [SseEvent("message", "no line end")]),
        (b"", []),
    ],
)
def test_what_a_stream_says(stream: bytes, expect: list[SseEvent]) -> None:
    assert decode(stream) == expect
    assert decode(*(stream[i : i + 1] for i in range(len(stream)))) == expect


_LINES = st.sampled_from(
    ['data: {"a":1}', "data: 日本語 ÷ 🎈", "event: x", ": ping", "", "", "data:", "id: 3", "dataset: no"]
)


@given(st.lists(st.tuples(_LINES, st.sampled_from(["\n", "\r\n", "\r"]))), st.data())
def test_M11_any_chunking_gives_the_same_events(lines: list[tuple[str, str]], data: st.DataObject) -> None:
    stream = "".join(line + end for line, end in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *cuts, len(stream)]
    assert decode(*(stream[a:b] for a, b in pairwise(edges))) == decode(stream)


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(StreamTooLarge, match="longer than 100 bytes"):
        decode(*[b"data: " + b"x" * 20] * 10, max_line=100)
    with pytest.raises(StreamTooLarge, match="longer than 100 bytes"):
        decode(b"data: " + b"x" * 200 + b"\n\n", max_line=100)


def test_an_event_of_too_many_lines_is_refused() -> None:
    with pytest.raises(StreamTooLarge, match="larger than 100 bytes"):
        decode(b"data: 0123456789\n" * 20, max_event=100)


def test_a_long_line_in_small_chunks_costs_no_more_than_its_length() -> None:
    decoder = SseDecoder()
    for _ in range(200_000):
        decoder.feed(b"data:xxxxx")
    assert len(decoder.feed(b"\n\n")[0].data) == 200_000 * 10 - 5
