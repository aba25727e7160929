"""The stored and the JSON form of every entry kind."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_store.codec import (
    CODEC_VERSION,
    body_from_plain,
    decode_entry,
    encode_entry,
    entry_from_plain,
    entry_json,
    pack,
    stored_plain,
    time_ms,
    time_text,
)
from session_store.entries import (
    ENTRY_TYPES,
    AssistantItems,
    CallRef,
    Choice,
    ConfigChanged,
    Extension,
    Invoke,
    LlmUsage,
    LogEntry,
    Origin,
    PodEnd,
    Question,
    QuestionClosed,
    Rewound,
    RunEnd,
    SegmentEnd,
    SegmentStart,
    Served,
    SystemItems,
    ToolResults,
    ToolSpec,
    ToolStarted,
    Unknown,
    UserInput,
    Withdrawn,
)
from session_store.errors import UnreadableEntry
from session_store.items import (
    AssistantMessage,
    Problem,
    Reasoning,
    Segment,
    SystemItem,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResultGroup,
    UserMessage,
)

CALL = ToolCall("c1", "Read", {"path": "日本\u2028"})
BROKEN = ToolCall("c1", "Read", None, '{"path":', "not JSON")
RESULT = ToolResult(3, 0, "c1", "Read", "ok", "read", "text", {"digest": "d"})
REPLY = AssistantMessage(3, "r", (Reasoning("hm", {"signature": "x"}, "b1"), Text("hi", "b2"), CALL, BROKEN))
SPEC = ToolSpec("Read", "reads", {"type": "object"})
INPUT = UserMessage((Segment("text", "go"), Segment("file_ref", data={"path": "a"})), "m", "user")
ITEM = SystemItem("pod_event", "c:4", {"event": {"kind": "turn_ended", "pod_id": "c"}}, "it ended")
HISTORY = (INPUT, REPLY, ToolResultGroup((RESULT,)), SystemMessage(ITEM))

ENTRIES: tuple[LogEntry, ...] = (
    SegmentStart("s", {"model": {"name": "m"}}, "be good", (SPEC,), 1),
    SegmentStart("s", {}, "", (), 1, HISTORY, Origin("o", 4)),
    Invoke("run", "prompt", (Served("m", "user"),)),
    UserInput(INPUT.segments, "m", "user", "q1"),
    AssistantItems("r", REPLY.items),
    ToolStarted(CallRef(3, 0, CALL)),
    ToolResults((RESULT, ToolResult(3, 1, "c1", "Read", "not_run", "no"))),
    SystemItems((ITEM,)),
    Question("q1", "permission", "may I?", (Choice("deny", "say no"), Choice("allow")), CallRef(3, 0, CALL)),
    QuestionClosed("q1", "answered", "user", "deny", "because", "m"),
    LlmUsage("r", 4, 100, 90, 5, 7, 250, "gpt", True),
    RunEnd("run", "waiting_on_children", Problem("t", "m"), ("a", "b"), "any"),
    Withdrawn("m", INPUT.segments),
    ConfigChanged({"a": 1}, "new", (SPEC,)),
    ConfigChanged(),
    Rewound(5),
    Extension("memory.extract", {"start": 1}),
    SegmentEnd(),
    PodEnd("stop"),
    Unknown("later", {"deep": [{"x": None}]}),
)


def test_every_kind_is_tried_here() -> None:
    assert {e.type for e in ENTRIES} == {*ENTRY_TYPES, "later"}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.type)
def test_an_entry_comes_back_as_it_was(entry: Any) -> None:
    got = decode_entry(encode_entry(entry), 9, 7)
    assert type(got) is type(entry)
    assert (got.seq, got.ts) == (9, 7)
    assert encode_entry(got) == encode_entry(entry)
    assert entry_from_plain(json.loads(json.dumps(entry_json(got))), 9, 7) == got


def test_the_json_form_is_flat_and_says_from_and_rfc_3339() -> None:
    entry = decode_entry(encode_entry(UserInput((Segment("text", "go"),), "m", "user")), 4, 1_790_000_000_123)
    assert entry_json(entry) == {
        "seq": 4,
        "ts": "2026-09-21T14:13:20.123Z",
        "type": "user_input",
        "segments": [{"type": "text", "text": "go"}],
        "message_id": "m",
        "from": "user",
    }


@given(st.integers(0, 4_000_000_000_000))
def test_times_come_back(ms: int) -> None:
    assert time_ms(time_text(ms)) == ms


def test_S13_the_old_tag_reads_as_legacy_items_and_stays_in_the_file() -> None:
    plain = {"type": "hook_injected_items", "items": ["plain", {"text": "t"}, {"content": [{"text": "a"}, "b"]}, {}]}
    body = body_from_plain(plain, 5)
    entry = decode_entry(body, 5, 1)
    assert isinstance(entry, SystemItems)
    assert [(i.kind, i.body, i.payload) for i in entry.items] == [("legacy", b, {}) for b in ("plain", "t", "ab", "")]
    assert len({i.item_id for i in entry.items}) == 4
    assert stored_plain(body, 5) == plain


@pytest.mark.parametrize(
    "body",
    [
        b"",
        bytes([CODEC_VERSION + 1]) + pack({"type": "pod_end", "reason": "x"}),
        bytes([CODEC_VERSION]) + b"\xc1",
        bytes([CODEC_VERSION]) + pack({"type": "pod_end"}),
        bytes([CODEC_VERSION]) + pack({"reason": "no type"}),
        bytes([CODEC_VERSION]) + encode_entry(PodEnd("x"))[1:-1],
    ],
)
def test_S02_what_cannot_be_read_says_where_and_why(body: bytes) -> None:
    with pytest.raises(UnreadableEntry) as unreadable:
        decode_entry(body, 12, 0)
    assert unreadable.value.seq == 12
    assert unreadable.value.reason


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4), st.text())
def test_S03_any_text_and_any_json_comes_back(arguments: dict[str, Any], words: str) -> None:
    entry = AssistantItems("r", (Text(words), ToolCall("c", "T", arguments)))
    got = decode_entry(encode_entry(entry), 0, 0)
    assert got == entry
    line = json.dumps(entry_json(got), ensure_ascii=True)
    assert len(line.splitlines()) == 1
    assert entry_from_plain(json.loads(line), 0, 0) == entry
