"""Every kind of log entry is told, raw and in words; unknown kinds too."""

from __future__ import annotations

import io

import pytest
from inline_snapshot import snapshot

from orchestrator.cli.logs import print_told
from orchestrator.cli.paint import Screen
from orchestrator.cli.story import call_words, raw_line, tell
from session_store.entries import ENTRY_TYPES

ERROR = {"type": "auth", "message": "bad key"}
EVENT = {"kind": "turn_ended", "pod_id": "c", "pod_name": "子", "outcome": "finished", "text": "12 files"}
ENTRIES = [
    {
        "type": "segment_start",
        "session": "s",
        "config": {"model": {"name": "m"}, "workspace": "/w"},
        "tools": [{"name": "Read"}],
    },
    {"type": "invoke", "run_id": "r1", "trigger": "prompt"},
    {"type": "user_input", "segments": [{"type": "text", "text": "数えて"}], "from": "user"},
    {"type": "assistant_items", "items": [{"type": "text", "text": "a\nb"}, {"type": "reasoning", "text": "hm"}]},
    {"type": "assistant_items", "items": [{"type": "tool_call", "name": "Shell", "arguments": {"command": "ls"}}]},
    {"type": "tool_started", "call": {"call": {"name": "Write", "arguments": {"path": "x"}}}},
    {"type": "tool_results", "results": [{"name": "Shell", "status": "ok", "summary": "2 lines", "content": "a\nb"}]},
    {"type": "system_items", "items": [{"kind": "pod_event", "payload": {"event": EVENT}, "body": "..."}]},
    {"type": "system_items", "items": [{"kind": "notification", "payload": {}, "body": "deploy done"}]},
    {"type": "question", "kind": "clarify", "question": "Which?", "choices": [{"label": "a", "description": "first"}]},
    {"type": "question_closed", "how": "answered", "by": "user", "choice": "a"},
    {"type": "llm_usage", "input": 1200, "cache_read": 1000, "output": 34, "latency": 450},
    {"type": "run_end", "run_id": "r1", "outcome": "errored", "error": ERROR},
    {"type": "run_end", "run_id": "r1", "outcome": "waiting_on_children", "waits_for": ["c"], "mode": "any"},
    {"type": "withdrawn", "segments": [{"type": "file_ref", "data": {"path": "gone.txt"}}]},
    {"type": "config_changed", "system_prompt": "x"},
    {"type": "rewound", "to": 4},
    {"type": "extension", "domain": "memory.extract", "payload": {"n": 1}},
    {"type": "segment_end"},
    {"type": "pod_end", "reason": "stop"},
    {"type": "from_the_future", "data": 1},
    {"type": "run_end"},
]


def test_every_kind_is_told() -> None:
    out = Screen(io.StringIO(), {})
    for seq, entry in enumerate(ENTRIES, 1):
        print_told({"seq": seq, **entry}, out)
    assert out.out.getvalue() == snapshot("""\
    1 = segment  model m · workspace /w · tools Read
    2 > run r1 starts (prompt)
    3 user 数えて
    4 a
      b
      thinks hm
    5 -> Shell ls
    6 -> allowed, starts: Write x
    7 <- Shell ok: 2 lines
        a
        b
    8 child 子: finished
      12 files
    9 notification deploy done
   10 asks Which?
        - a: first
   11 question answered by user: a
   12 request: 1.2k tokens in (1.0k cached), 34 out, 0.5s
   13 < run r1 ends: errored: bad key (auth)
   14 < run r1 ends: waiting_on_children (any of c)
   15 withdrawn: @gone.txt
   16 = changed: system_prompt
   17 = rewound to before entry 4
   18 = memory.extract {"n":1}
   20 = the Pod has ended: stop
   21 ? from_the_future (a kind this version does not know): {"data":1}
   22 ? run_end: {}
""")  # type: ignore[attr-defined]


def test_C06_a_compaction_is_one_mark() -> None:
    origin = {"session": "s", "seq": 7}
    done = {"trigger": "rest", "before": 120_000, "after": 14_200, "summarised": 310, "retained": 12}
    failed = {"trigger": "rest", "before": 900, "error": {"type": "timeout", "message": "too slow"}}
    entries = (
        {"type": "segment_end"},
        {"type": "segment_start", "session": "s", "config": {}, "history": [{}], "origin": origin},
        {"type": "extension", "domain": "compaction", "payload": done},
        {"type": "extension", "domain": "compaction", "payload": failed},
    )
    assert [told.text for entry in entries for told in tell(entry)] == [
        "compacted from about 120.0k to 14.2k tokens (310 items summarised, 12 kept)",
        "not compacted (about 900 tokens): too slow (timeout)",
    ]


def test_no_kind_is_left_out() -> None:
    assert {e["type"] for e in ENTRIES} >= set(ENTRY_TYPES)


def test_a_raw_line_holds_the_whole_entry() -> None:
    entry = {"seq": 7, "ts": "2026-11-30T12:00:00.000Z", "type": "x", "text": "一\n二"}
    assert raw_line(entry) == '     7 2026-11-30T12:00:00.000Z x {"text":"一\\n二"}'


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"name": "Read", "arguments": {"path": "a.py", "limit": 3}}, "Read a.py"),
        ({"name": "WaitForPods", "arguments": {"pods": ["a", "b"]}}, 'WaitForPods ["a","b"]'),
        ({"name": "ListPods", "arguments": {}}, "ListPods"),
        ({"name": "Odd", "arguments": None, "raw": "{broken"}, "Odd {broken"),
        ({"name": "Shell", "arguments": {"command": "echo \x1b[31m\nls"}}, "Shell echo ls"),
    ],
)
def test_a_call_in_one_line(call: dict[str, object], words: str) -> None:
    assert call_words(call, 80) == words


def test_an_entry_in_a_wrong_shape_is_shown_as_it_is() -> None:
    (told,) = tell({"type": "tool_results", "results": 3})
    assert told.text == 'tool_results: {"results":3}'
