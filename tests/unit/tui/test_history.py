"""The fold from events to blocks: live text once, everything in its place, whatever page comes first."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from actors.protocol.live import Delta, Discard, Retry
from orchestrator.events import AlertEvent, EntryEvent, PodStreamEvent, Resync, StatusEvent, parse_event
from orchestrator.following import PodFollowing
from orchestrator.tui.blocks import (
    AssistantText,
    Live,
    Mark,
    Question,
    SystemNote,
    ToolCall,
    Unknown,
    UserPrompt,
)
from orchestrator.tui.history import OUTPUT_KEPT, History, cost_of
from session_store.entries import ENTRY_TYPES

TS = "2026-11-30T12:00:00.000Z"
CALL = {"type": "tool_call", "call_id": "c", "name": "Shell", "arguments": {"command": "ls"}}
RESULT = {
    "call_seq": 4,
    "index": 0,
    "call_id": "c",
    "name": "Shell",
    "status": "ok",
    "summary": "2 lines",
    "content": "a",
}
CHOICES = [{"label": "red"}, {"label": "青", "description": "sky"}]

ENTRIES: list[dict[str, Any]] = [
    {
        "type": "segment_start",
        "session": "s",
        "config": {"model": {"name": "m", "prices": {"input": 3.0}}},
        "tools": [],
    },
    {"type": "invoke", "run_id": "r1", "trigger": "prompt"},
    {"type": "user_input", "segments": [{"type": "text", "text": "数えて"}], "message_id": "m1", "from": "user"},
    {
        "type": "assistant_items",
        "request_id": "q1",
        "items": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "見ます", "block": "q1.1.0"}, CALL],
    },
    {"type": "llm_usage", "input": 1200, "cache_read": 0, "output": 34, "latency": 450},
    {"type": "tool_results", "results": [RESULT]},
    {
        "type": "system_items",
        "items": [{"kind": "notification", "item_id": "n", "payload": {"message": "hi"}, "body": "<n>hi</n>"}],
    },
    {"type": "question", "question_id": "q", "kind": "clarify", "question": "Which 色?", "choices": CHOICES},
    {"type": "run_end", "run_id": "r1", "outcome": "waiting_on_user"},
    {"type": "question_closed", "question_id": "q", "how": "answered", "by": "user", "choice": "青"},
    {"type": "invoke", "run_id": "r2", "trigger": "answer"},
    {
        "type": "user_input",
        "segments": [{"type": "text", "text": "青"}],
        "message_id": "m2",
        "from": "user",
        "answers": "q",
    },
    {"type": "run_end", "run_id": "r2", "outcome": "withdrawn"},
    {"type": "rewound", "to": 12},
    {"type": "from_the_future", "x": 1},
    {"type": "tool_results", "results": [{"name": "no more than that"}]},
    {"type": "segment_end"},
    {"type": "pod_end", "reason": "stop"},
]
LOG = [{"seq": seq, "ts": TS, **entry} for seq, entry in enumerate(ENTRIES, 1)]


def folded(*entries: dict[str, Any]) -> History:
    transcript = History()
    transcript.takes(EntryEvent(entry["seq"], entry) for entry in entries or LOG)
    return transcript


def shape(transcript: History) -> list[tuple[str, str, str]]:
    """Kind, key and words of every block."""
    told = []
    for block in transcript.blocks():
        words = getattr(block, "text", None) or getattr(block, "words", None) or getattr(block, "question", "")
        told.append((("-" if block.left else "") + type(block).__name__, block.key, str(words)))
    return told


def test_one_block_per_kind() -> None:
    assert shape(folded()) == snapshot(
        [
            ("Mark", "1:0", "segment  model m · workspace ?"),
            ("Mark", "2:0", "run r1 starts (prompt)"),
            ("UserPrompt", "3:0", "数えて"),
            ("Reasoning", "4:0", "hm"),
            ("AssistantText", "4:1", "見ます"),
            ("ToolCall", "call:4.0", "Shell ls"),
            ("Usage", "5:0", "request: 1.2k tokens in, 34 out, 0.5s"),
            ("SystemNote", "7:0", "<n>hi</n>"),
            ("Question", "8:0", "Which 色?"),
            ("RunEnd", "9:0", "waiting on user"),
            ("Mark", "11:0", "run r2 starts (answer)"),
            ("-UserPrompt", "12:0", "青"),
            ("-RunEnd", "13:0", "withdrawn"),
            ("Mark", "14:0", "rewound to before entry 12"),
            ("Unknown", "15:0", 'from_the_future (a kind this version does not know): {"x":1}'),
            ("Unknown", "16:0", 'tool_results: {"results":[{"name":"no more than that"}]}'),
            ("Mark", "18:0", "the Pod has ended: stop"),
        ]
    )


def test_C06_a_compaction_is_one_mark_and_all_before_it_stays() -> None:
    record = {"trigger": "rest", "before": 9_000, "after": 800, "summarised": 5, "retained": 2}
    origin = {"session": "s", "seq": 16}
    more: list[dict[str, Any]] = [
        {"type": "segment_end"},
        {"type": "segment_start", "session": "s", "config": {"model": {"name": "m"}}, "history": [], "origin": origin},
        {"type": "extension", "domain": "compaction", "payload": record},
    ]
    before = shape(folded(*LOG[:16]))
    log = LOG[:16] + [{"seq": seq, "ts": TS, **entry} for seq, entry in enumerate(more, 17)]
    words = "compacted from about 9.0k to 800 tokens (5 items summarised, 2 kept)"
    assert shape(folded(*log)) == [*before, ("Mark", "19:0", words)]


def test_every_kind_of_entry_has_a_block() -> None:
    for kind in ENTRY_TYPES.keys() - {"segment_end"}:  # what begins the next segment says why
        entry = next((e for e in LOG if e["type"] == kind), {"seq": 1, "ts": TS, "type": kind})
        assert folded(entry).blocks(), kind


def test_a_result_goes_into_its_call_and_an_answer_into_its_question() -> None:
    blocks = folded().blocks()
    call = next(b for b in blocks if isinstance(b, ToolCall))
    question = next(b for b in blocks if isinstance(b, Question))
    assert (call.status, call.summary, call.content) == ("ok", "2 lines", "a")
    assert question.closed == "answered by user: 青"
    assert folded().question is None


def test_a_call_that_needs_permission_says_so_until_it_runs() -> None:
    ref = {"call_seq": 4, "index": 0, "call": CALL}
    asked = {"type": "question", "question_id": "p", "kind": "permission", "question": "May it?", "call": ref}
    history = folded(*LOG[:5], {**asked, "seq": 6, "ts": TS})
    call = next(b for b in history.blocks() if isinstance(b, ToolCall))
    assert (call.status, call.summary) == (None, "waits for permission")
    history.take(EntryEvent(7, {"seq": 7, "ts": TS, "type": "tool_started", "call": ref}))
    call = next(b for b in history.blocks() if isinstance(b, ToolCall))
    assert (call.status, call.summary) == (None, "allowed, runs")


@pytest.mark.parametrize("cut", range(len(LOG) + 1))
def test_a_page_put_before_gives_what_the_whole_log_gives(cut: int) -> None:
    transcript = History()
    transcript.open_with({"head_seq": len(LOG)}, LOG[cut:])
    transcript.prepend(LOG[:cut])
    assert shape(transcript) == shape(folded())
    assert transcript.model == "m"


def test_V03_the_committed_item_replaces_its_deltas() -> None:
    transcript = folded(*LOG[:3])
    transcript.take(Delta("q1", "q1.1.0", 0, "見ま", 3))
    transcript.take(Delta("q1", "q1.1.0", 1, "ます", 3))  # overlaps
    transcript.take(Delta("q1", "q1.1.0", 9, "lost", 3))  # text is missing before it
    assert texts(transcript) == [("見ます", True)]
    transcript.take(EntryEvent(4, LOG[3]))
    assert texts(transcript) == [("見ます", False)]


def test_V03_a_prompt_of_this_client_is_shown_once() -> None:
    transcript = folded(*LOG[:2])
    transcript.pending["m1"] = "waits its turn", "数えて"
    assert [type(b) for b in transcript.blocks() if "数えて" in str(b)] == [Live]
    transcript.take(EntryEvent(3, LOG[2]))
    assert [type(b) for b in transcript.blocks() if "数えて" in str(b)] == [UserPrompt]


def recorded() -> list[PodStreamEvent]:
    """A run as a stream tells it."""
    deltas = [Delta("q1", "q1.1.0", at, char, 3) for at, char in enumerate("見ます")]
    prints = [Delta("x", "tool:4.0", at, char, 4) for at, char in enumerate("a\nb")]
    items = [
        parse_event("system_item", ident, {"seq": 7, "ts": TS, "kind": "notification", "payload": {}, "body": body})
        for ident, body in ((None, "one"), ("7", "two"))
    ]
    entries = {entry["seq"]: EntryEvent(entry["seq"], entry) for entry in LOG}
    early = [entries[n] for n in (1, 2, 3)]
    return [*early, *deltas, entries[4], entries[5], *prints, entries[6], *items, *(entries[n] for n in range(8, 19))]


@pytest.mark.parametrize("cut", range(len(recorded()) + 1))
def test_V01_a_reconnect_at_any_event_shows_everything_once(cut: int) -> None:
    """A new connection brings the entries after the cursor, and what is in the making from its start."""
    events = recorded()
    following, history, whole = PodFollowing(), History(), History()
    for event in events[:cut]:
        history.takes(following.take_event(event))
    cursor = following.cursor
    following.connected()
    for event in events:
        seq = getattr(event, "seq", None)
        if (seq is None and event.after >= cursor) or (seq is not None and seq > cursor):  # type: ignore[union-attr]
            history.takes(following.take_event(event))
    whole.takes(events)
    assert shape(history) == shape(whole)


def test_a_live_notification_is_one_block() -> None:
    transcript = folded(*LOG[:6])
    fields = {"seq": 7, "ts": TS, "kind": "notification", "payload": {"message": "hi"}, "body": "<n>hi</n>"}
    for _ in range(2):  # the second time after a reconnect
        transcript.take(parse_event("system_item", "7", fields))
    assert [b.kind for b in transcript.blocks() if isinstance(b, SystemNote)] == ["notification"]


def test_text_that_is_not_committed_goes_and_a_retry_is_told() -> None:
    transcript = folded(*LOG[:3])
    transcript.take(Delta("q1", "q1.1.0", 0, "half", 3))
    transcript.take(Discard("q1"))
    assert texts(transcript) == []
    assert words(transcript, Live) == ["this reply broke off"]
    transcript.take(Retry("q1", 2, 1.5, "overloaded"))
    assert words(transcript, Live) == ["asks the model again in 1.5s: overloaded"]
    transcript.take(Delta("q1", "q1.2.0", 0, "whole", 3))
    assert words(transcript, Live) == []


def test_a_running_tool_shows_the_end_of_its_output() -> None:
    transcript = folded(*LOG[:4])
    for at in range(0, 3 * OUTPUT_KEPT, 1000):
        transcript.take(Delta("x", "tool:4.0", at, "x" * 999 + "\n", 4))
    call = next(b for b in transcript.blocks() if isinstance(b, ToolCall))
    assert len(call.output) == OUTPUT_KEPT
    transcript.take(EntryEvent(6, LOG[5]))
    call = next(b for b in transcript.blocks() if isinstance(b, ToolCall))
    assert (call.output, call.content) == ("", "a")


def test_memory_is_bounded_and_old_pages_come_back() -> None:
    entries = [{**LOG[2], "seq": seq} for seq in range(1, 5001)]
    transcript = folded(*entries)
    transcript.trim(1000)
    assert (transcript.first, len(transcript.blocks())) == (4001, 1000)
    transcript.prepend(entries[3800:4000])
    assert (transcript.first, len(transcript.blocks())) == (3801, 1200)


def test_an_open_question_is_known_though_its_entry_is_not_loaded() -> None:
    transcript = History()
    asked = {"question_id": "q", "kind": "clarify", "question": "Which?", "choices": CHOICES}
    transcript.open_with({"head_seq": 9, "status": "waiting_on_user", "question": asked}, [])
    assert transcript.question is not None
    assert transcript.question.choices == (("red", ""), ("青", "sky"))
    transcript.take(EntryEvent(10, LOG[9]))
    assert transcript.question is None


def test_a_gap_is_told() -> None:
    transcript = folded(LOG[0], LOG[4])
    assert words(transcript, Mark)[-1] == "entries 2 to 4 are not shown here"


def test_V09_unknown_events_are_shown() -> None:
    transcript = folded(LOG[0])
    transcript.take(parse_event("hologram", None, {"x": "日本"}))
    transcript.take(parse_event("delta", None, {"block": 7}))
    assert words(transcript, Unknown) == snapshot(
        [
            'event hologram: a kind this version does not know: {"x": "日本"}',
            'event delta: `delta` lacks a good `request_id`: {"block": 7}',
        ]
    )


def test_status_alerts_and_resync() -> None:
    transcript = History()
    transcript.take(StatusEvent("running", 2, 0))
    for _ in range(2):
        transcript.take(AlertEvent("a1", "warning", "ref", "no such file", TS))
    transcript.take(Delta("q", "q.1.0", 0, "x", 0))
    transcript.take(Resync("beyond-head", 0, None))
    assert (transcript.status, transcript.generation, len(transcript.alerts)) == ("running", 2, 1)
    assert texts(transcript) == []


def test_cost_counts_cached_tokens_by_their_own_price() -> None:
    usage = {"input": 1_000_000, "cache_read": 600_000, "cache_write": 100_000, "output": 10_000}
    assert cost_of(usage, {}) is None
    assert cost_of(usage, {"input": 3.0, "cache_read": 0.3, "cache_write": 3.75, "output": 15.0}) == pytest.approx(
        0.9 + 0.18 + 0.375 + 0.15
    )


def texts(transcript: History) -> list[tuple[str, bool]]:
    return [(b.text, b.live) for b in transcript.blocks() if isinstance(b, AssistantText)]


def words(transcript: History, kind: type[Any]) -> list[str]:
    return [b.words for b in transcript.blocks() if isinstance(b, kind)]
