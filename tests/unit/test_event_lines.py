"""Server-sent events from bytes, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from orchestrator import event_lines
from orchestrator.event_lines import PLACE, EventLines, EventTooLong
from orchestrator.events import EntryEvent, Wire, wire_form
from orchestrator.gateway.sse import KEEPALIVE, OPENING, frame


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ('id: 3\nevent: entry\ndata: {"a":\ndata: 1}\n\n', [Wire("entry", "3", {"a": 1})]),
        (": keepalive\n\nevent: delta\ndata: 1\n\n", [Wire("delta", None, 1)]),
        ("data: 1\n\ndata: 2\r\n\r\n", [Wire("message", None, 1), Wire("message", None, 2)]),
        ("event: cut\ndata: 1\n", []),
        ("retry: 5\nunknown: x\ndata:1\n\n", [Wire("message", None, 1)]),
        ("event: empty\n\n", []),
        ("id: 7\n\ndata: 1\n\n", [Wire(PLACE, "7", None), Wire("message", None, 1)]),
        ("data: no JSON\n\n", [Wire("message", None, "no JSON")]),
    ],
)
def test_server_sent_events(text: str, events: list[Wire]) -> None:
    assert list(EventLines().feed(text.encode())) == events


TEXTS = some.text(some.characters(exclude_categories=["Cs"]) | some.sampled_from('\n\r\u2028\u2029\x85"日🙂'))


@given(some.lists(TEXTS, max_size=5), some.lists(some.integers(0, 400), max_size=20))
def test_V07_what_the_gateway_frames_comes_back_however_the_bytes_are_cut(texts: list[str], cuts: list[int]) -> None:
    events = [
        EntryEvent(seq, {"seq": seq, "type": "x", "text": f"{text}\n\ndata: x\n\n"}) for seq, text in enumerate(texts)
    ]
    raw = OPENING + KEEPALIVE.join(map(frame, events)) + KEEPALIVE
    lines, seen, start = EventLines(), [], 0
    for cut in [*sorted(cuts), len(raw)]:
        seen += lines.feed(raw[start:cut])
        start = max(start, cut)
    assert seen == [wire_form(event) for event in events]


def test_what_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_lines, "LONGEST", 1000)
    lines = EventLines()
    with pytest.raises(EventTooLong):
        list(lines.feed(b"data: " + b"x" * 1000))
