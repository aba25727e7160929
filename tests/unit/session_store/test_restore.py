"""From a log to a history: only what is valid, in the order of the log."""

from dataclasses import replace
from typing import Any

from session_store.entries import (
    AssistantItems,
    ConfigChanged,
    Extension,
    Invoke,
    LogEntry,
    Origin,
    Rewound,
    RunEnd,
    SegmentEnd,
    SegmentStart,
    SystemItems,
    ToolResults,
    Unknown,
    UserInput,
)
from session_store.items import (
    AssistantMessage,
    Segment,
    SystemItem,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResultGroup,
    UserMessage,
)
from session_store.restore import RestoredState, restore

START = SegmentStart("s", {"a": 1, "b": 2}, "be good", (), 1)


def told(words: str) -> UserInput:
    return UserInput((Segment("text", words),), words, "user")


def calls(*names: str) -> AssistantItems:
    return AssistantItems("r", tuple(ToolCall(n, "Read", {}) for n in names))


def result(call_seq: int, index: int, call_id: str = "x") -> ToolResult:
    return ToolResult(call_seq, index, call_id, "Read", "ok", f"{call_seq}.{index}")


def item(kind: str, body: str) -> SystemItems:
    return SystemItems((SystemItem(kind, body, {}, body),))


def restored(*entries: LogEntry) -> RestoredState:
    return restore([replace(e, seq=seq, ts=seq) for seq, e in enumerate((START, *entries), 1)])


def shown(state: RestoredState) -> list[Any]:
    names: list[Any] = []
    for part in state.history.items:
        match part:
            case UserMessage():
                names.append(part.text)
            case AssistantMessage():
                names.append([c.call_id for c in part.calls] or part.text)
            case ToolResultGroup():
                names.append(tuple(f"{r.index}:{r.status}" for r in part.results))
            case SystemMessage():
                names.append(f"<{part.item.body}>")
    return names


def test_a_log_becomes_its_history() -> None:
    state = restored(
        Invoke("r1", "prompt"),
        told("hi"),
        calls("a", "b"),
        ToolResults((result(4, 1),)),
        ToolResults((result(4, 0),)),
        item("notification", "n"),
        AssistantItems("r", (Text("bye"),)),
        Unknown("later", {}),
        RunEnd("r1", "finished"),
    )
    assert shown(state) == ["hi", ["a", "b"], ("0:ok", "1:ok"), "<n>", "bye"]
    assert (state.head, state.status.resting, state.history.open_calls) == (10, "idle", ())


def test_M04_a_call_without_result_gets_one_before_what_follows() -> None:
    state = restored(told("hi"), calls("a", "b"), ToolResults((result(3, 1),)), told("next"))
    assert shown(state) == ["hi", ["a", "b"], ("0:interrupted", "1:ok"), "next"]


def test_M04_open_calls_at_the_end_are_known_and_closed_on_request() -> None:
    state = restored(told("hi"), calls("a", "b"), ToolResults((result(3, 1),)))
    assert (shown(state), state.history.open_calls) == (["hi", ["a", "b"]], (0,))
    state.history.close()
    assert shown(state)[-1] == ("0:interrupted", "1:ok")


def test_M04_a_result_without_a_call_is_left_out() -> None:
    stray = ToolResults((result(99, 0, "nobody"), result(2, 7)))
    state = restored(stray, told("hi"), calls("a"), ToolResults((result(4, 0), result(4, 0))), stray, told("on"))
    assert shown(state) == ["hi", ["a"], ("0:ok",), "on"]


def test_M03_results_of_equal_call_ids_find_their_own_call() -> None:
    state = restored(calls("same", "same"), ToolResults((result(0, 0, "same"), result(0, 0, "same"))))
    assert shown(state) == [["same", "same"], ("0:ok", "1:ok")]


def test_T01_a_withdrawn_run_leaves_its_input_out_and_keeps_its_notices() -> None:
    state = restored(
        Invoke("r1", "prompt"),
        told("gone"),
        item("file_attachment", "gone too"),
        item("notification", "stays"),
        RunEnd("r1", "withdrawn"),
        Invoke("r2", "prompt"),
        told("second"),
    )
    assert (shown(state), state.history.removals) == (["<stays>", "second"], 1)


def test_a_rewind_leaves_out_what_follows_its_target_also_over_segments() -> None:
    history = (UserMessage((Segment("text", "summary"),), "m", "user"),)
    segment = SegmentStart("s", {}, "new", (), 1, history, Origin("s", 4))
    state = restored(told("a"), told("b"), SegmentEnd(), segment, told("c"), Rewound(3), told("d"))
    assert shown(state) == ["a", "d"]
    assert (state.head, state.history.system_prompt) == (8, "be good")
    assert shown(restored(told("a"), segment, told("c"))) == ["summary", "c"]


def test_config_changes_and_extensions() -> None:
    change = ConfigChanged({"b": 3}, "be better")
    state = restored(change, Extension("d", {"x": 1}), Extension("e", {}))
    assert (state.history.config, state.history.system_prompt) == ({"a": 1, "b": 3}, "be better")
    assert state.extensions == [("d", {"x": 1}), ("e", {})]
