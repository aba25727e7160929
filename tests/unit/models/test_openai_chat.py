"""The OpenAI Chat Completions wire: what is sent, and what each stream comes to."""

from __future__ import annotations

import json

import pytest

from actors.models.wire.openai_chat import OpenAIChatWire
from actors.protocol.model import ModelError, Usage
from session_store.items import Json, Reasoning, Text, ToolCall
from tests.support.model_requests import READ, Live, assistant, request, results, system, user
from tests.support.wire_streams import OPENAI, call_piece, chunk, recorded, run, sse

DONE = "[DONE]"


def messages(*items: Json, wire: OpenAIChatWire = OPENAI) -> list[Json]:
    return json.loads(b"[" + b",".join(filter(None, (wire.encode(i) for i in items))) + b"]")


def reply(*events: Json, live: Live | None = None) -> tuple[Json, ...]:
    return run(OPENAI, [sse(*events)], live).items


def test_history_as_messages() -> None:
    call = ToolCall("c1", "Read", {"path": "/ä"})
    history = [
        user("hi"),
        assistant(2, Reasoning("hm", {"field": "reasoning_content"}), Text("I look."), call),
        results(2, call),
        system("<n>exact body</n>"),
        assistant(5, Text("a"), Text("b")),
    ]
    assert messages(*history) == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": '{"path":"/ä"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "user", "content": "<n>exact body</n>"},
        {"role": "assistant", "content": "ab"},
    ]


def test_reasoning_goes_back_under_its_own_field_when_asked() -> None:
    item = assistant(1, Reasoning("why", {"field": "reasoning"}), Reasoning("sig", {"signature": "x"}), Text("so"))
    (sent,) = messages(item, wire=OpenAIChatWire("m", send_reasoning=True))
    assert sent == {"role": "assistant", "content": "so", "reasoning": "why"}


def test_the_body_joins_kept_bytes() -> None:
    wire = OpenAIChatWire("m", 100, "max_completion_tokens", body={"temperature": 0})
    asked = request(wire, [user("a"), assistant(2, Text("b"))], tools=(READ,))  # type: ignore[arg-type]
    body = json.loads(wire.assemble(asked))
    assert body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 100,
        "temperature": 0,
        "messages": [
            {"role": "system", "content": "You work."},
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "Read", "description": "Read a file.", "parameters": READ.parameters},
            }
        ],
    }
    assert b",".join(asked.history) in wire.assemble(asked)


def test_M03_repeated_ids_are_unique_on_the_wire_and_stay_so() -> None:
    first = [ToolCall("same", "Read", {"path": p}) for p in "ab"]
    later = ToolCall("same", "Read", {"path": "c"})
    odd = [ToolCall("", "Read", {}), ToolCall("no good!", "Read", {}), ToolCall("x" * 99, "Read", {})]
    history = [
        *(user("go"), assistant(2, *first), results(2, *first)),
        *(assistant(4, later), results(4, later)),
        *(assistant(6, *odd), results(6, *odd)),
    ]

    def sent(count: int) -> list[Json]:
        return json.loads(OPENAI.assemble(request(OPENAI, history[:count])))["messages"][1:]  # type: ignore[arg-type]

    whole = sent(len(history))
    calls = [c["id"] for m in whole for c in m.get("tool_calls", ())]
    answers = [m["tool_call_id"] for m in whole if m["role"] == "tool"]
    assert calls == answers
    assert len(set(calls)) == len(calls) == 6
    assert calls[0] == "same"
    assert all(c.replace("_", "").replace("-", "").isalnum() for c in calls)
    for count in range(1, len(history)):
        shorter = sent(count)
        assert whole[: len(shorter)] == shorter


def test_M02_what_the_model_got_wrong_is_sent_back_as_valid_json() -> None:
    call = ToolCall("c", "no such.tool", None, '{"path":"/a', "the arguments are not JSON")
    (sent, _) = messages(assistant(1, call), results(1, call))
    function = sent["tool_calls"][0]["function"]
    assert function["name"] == "no_such_tool"
    assert json.loads(function["arguments"]) == {"unparsed_arguments": '{"path":"/a'}


def test_lone_surrogates_do_not_stop_a_request() -> None:
    assert messages(user("a\ud800b")) == [{"role": "user", "content": "a?b"}]


def test_text_and_usage() -> None:
    live = Live()
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 90}}
    events = [
        chunk(role="assistant", content=""),
        chunk(content="Hel"),
        chunk(content="lo"),
        chunk("stop"),
        {"choices": [], "usage": usage},
        DONE,
    ]
    decoded = run(OPENAI, [sse(*events)], live)
    assert decoded.items == (Text("Hello", "q.1.0"),)
    assert (decoded.usage, decoded.stop, decoded.model) == (Usage(100, 90, 0, 5), "end", "m-1")
    assert live.texts == [("q.1.0", "Hel"), ("q.1.0", "lo")]


def test_X01_cached_tokens_are_part_of_the_input() -> None:
    for usage in (
        {"prompt_tokens": 100_000, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 90_000}},
        {"prompt_tokens": 100_000, "completion_tokens": 1, "prompt_cache_hit_tokens": 90_000},
    ):
        assert run(OPENAI, [sse(chunk("stop", usage, content="x"))]).usage == Usage(100_000, 90_000, 0, 1)


def test_M12_reasoning_text_and_calls_keep_their_order_and_the_role_means_nothing() -> None:
    items = reply(
        chunk(role="system", reasoning_content="thin"),
        chunk(reasoning_content="king"),
        chunk(content="\n"),
        chunk(content="saying"),
        chunk(tool_calls=[call_piece(0, "{}", "Read", "c1")]),
        chunk(content="more"),
        chunk("tool_calls"),
    )
    assert items == (
        Reasoning("thinking", {"field": "reasoning_content"}, "q.1.0"),
        Text("\nsaying", "q.1.1"),
        ToolCall("c1", "Read", {}),
        Text("more", "q.1.3"),
    )


def test_M11_parallel_calls_interleaved_by_index() -> None:
    items = reply(
        chunk(tool_calls=[call_piece(0, '{"pa', "Read", "c1")]),
        chunk(tool_calls=[call_piece(1, '{"path"', "Read", "c2")]),
        chunk(tool_calls=[call_piece(0, 'th":"a"}'), call_piece(1, ':"b"}')]),
        chunk("tool_calls"),
    )
    assert items == (ToolCall("c1", "Read", {"path": "a"}), ToolCall("c2", "Read", {"path": "b"}))


@pytest.mark.parametrize(
    "pieces",
    [
        [call_piece(None, "{}", "A", "c1"), call_piece(None, "{}", "B", "c1")],
        [call_piece(0, "{}", "A", "c1"), call_piece(1, "{}", "B", "c1")],
        [call_piece(0, "{", "A", "c1"), call_piece(0, "}", "A", "c1"), call_piece(1, "{}", "B", "c1")],
    ],
)
def test_M03_calls_with_one_id_are_both_kept(pieces: list[Json]) -> None:
    items = reply(*(chunk(tool_calls=[p]) for p in pieces), chunk("tool_calls"))
    assert [(i.call_id, i.name, i.arguments) for i in items] == [("c1", "A", {}), ("c1", "B", {})]


def test_all_calls_at_index_0_are_told_apart_by_their_ids() -> None:
    pieces = [call_piece(0, "{}", "A", "c1"), call_piece(0, "{}", "B", "c2")]
    assert [i.call_id for i in reply(chunk(tool_calls=pieces), chunk("tool_calls"))] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ('{"path":"/a', "not JSON"),
        ('["/a"]', "a list, not an object"),
        ('"{}"', "a string, not an object"),
        ("null", "null, not an object"),
        ("7", "a number, not an object"),
        ("true", "a truth value, not an object"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": 1e999}', "too large"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested too deeply"),
        ('{"a":' + "[" * 700 + "]" * 700 + "}", "nested too deeply"),
    ],
)
def test_M02_arguments_that_are_no_object_are_told_and_never_invented(raw: str, problem: str) -> None:
    good = call_piece(1, '{"path":"b"}', "Read", "c2")
    bad, sibling = reply(chunk(tool_calls=[call_piece(0, raw, "Read", "c1"), good]), chunk("tool_calls"))
    assert (bad.arguments, bad.raw) == (None, raw)
    assert problem in bad.problem
    assert sibling == ToolCall("c2", "Read", {"path": "b"})


def test_arguments_are_as_the_log_gives_them_back() -> None:
    (call,) = reply(chunk(tool_calls=[call_piece(0, '{"n": 99999999999999999999}', "A", "c")]), chunk("stop"))
    assert call.arguments == {"n": "99999999999999999999"}


def test_M02_a_call_cut_off_before_its_arguments_is_not_a_call_without_any() -> None:
    (call,) = reply(chunk(tool_calls=[call_piece(0, "", "Shell", "c")]), chunk("length"))
    assert call.arguments is None
    assert "output limit" in call.problem
    assert reply(chunk(tool_calls=[call_piece(0, "", "Shell", "c")]), chunk("tool_calls"))[0].arguments == {}


def broken(*events: Json, end: bytes = b"") -> ModelError:
    with pytest.raises(ModelError) as caught:
        run(OPENAI, [sse(*events, end=end)])
    return caught.value


TALK = chunk(content="Let me see. ")
HALF_CALL = chunk(tool_calls=[call_piece(0, '{"pa', "Read", "c1")])


@pytest.mark.parametrize(
    ("events", "kind", "is_broken", "kept"),
    [
        ([], "broken_stream", False, ()),
        ([chunk(role="assistant", content="")], "broken_stream", False, ()),
        ([chunk(content=" \n")], "broken_stream", False, ()),
        ([TALK], "broken_stream", True, ()),
        ([TALK, DONE], "broken_stream", True, ()),
        ([TALK, HALF_CALL], "broken_stream", True, (Text("Let me see. ", "q.1.0"),)),
        ([TALK, HALF_CALL, DONE], "broken_stream", True, (Text("Let me see. ", "q.1.0"),)),
        ([TALK, {"error": {"message": "Overloaded", "type": "overloaded_error"}}], "overloaded", True, ()),
        ([{"error": {"message": "slow down", "code": 429}}], "rate_limited", False, ()),
        ([{"error": {"message": "x", "code": "context_length_exceeded"}}], "context_overflow", False, ()),
        ([{"error": "went wrong"}], "server", False, ()),
        ([TALK, "{not json"], "broken_stream", True, ()),
        ([chunk("stop")], "empty_reply", False, ()),
        ([chunk("length")], "empty_reply", False, ()),
        ([chunk("content_filter")], "refused", False, ()),
    ],
)
def test_M01_M10_what_each_broken_stream_comes_to(
    events: list[Json], kind: str, is_broken: bool, kept: tuple[Json, ...]
) -> None:
    error = broken(*events)
    assert (error.type, error.broken, error.kept) == (kind, is_broken, kept)


def test_T09_reasoning_alone_is_an_empty_reply() -> None:
    assert broken(chunk(reasoning_content="hm"), chunk("stop")).type == "empty_reply"


def test_a_cut_after_the_finish_reason_loses_nothing() -> None:
    decoded = run(OPENAI, [sse(TALK, chunk("stop"), end=b'data: {"choices":[],"usa')])
    assert decoded.items == (Text("Let me see. ", "q.1.0"),)
    assert decoded.usage is None


def test_half_a_character_waits_for_its_other_half() -> None:
    live = Live()
    events = ['{"choices":[{"delta":{"content":"a\\ud83c"}}]}', '{"choices":[{"delta":{"content":"\\udf88"}}]}']
    assert reply(*events, chunk("stop"), live=live) == (Text("a🎈", "q.1.0"),)
    assert [t for _, t in live.texts] == ["a", "🎈"]
    assert reply(events[0], chunk("stop")) == (Text("a\ufffd", "q.1.0"),)


def test_unknown_events_and_other_choices_are_skipped() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    assert reply("[1]", "7", {"x": 1}, other, chunk(content="yes"), chunk("stop")) == (Text("yes", "q.1.0"),)


def test_a_whole_reply_instead_of_a_stream() -> None:
    calls = [call_piece(None, '{"path":"a"}', "Read", "c1")]
    whole = {"choices": [{"index": 0, "message": {"content": "hi", "tool_calls": calls}, "finish_reason": "stop"}]}
    assert reply(whole) == (Text("hi", "q.1.0"), ToolCall("c1", "Read", {"path": "a"}))


@pytest.mark.parametrize(
    ("name", "calls", "usage", "stop"),
    [
        ("alibaba-tool-call", [{"location": "San Francisco"}], Usage(295, 0, 0, 22), "tool_calls"),
        ("deepseek-tool-call", [{"location": "San Francisco"}], Usage(339, 320, 0, 83), "tool_calls"),
        ("groq-tool-call", [{}], Usage(210, 0, 0, 15), "tool_calls"),
        ("mistral-tool-call", [{"location": "San Francisco"}], Usage(124, 0, 0, 22), "tool_calls"),
        ("xai-tool-call", [{"location": "San Francisco"}], Usage(307, 306, 0, 253), "tool_calls"),
        ("azure-router", [], Usage(15, 0, 0, 78), "end"),
        ("moonshot", [], Usage(9, 0, 0, 12), "end"),
        ("text", [], Usage(16, 0, 0, 300), "end"),
    ],
)
def test_recorded_streams(name: str, calls: list[Json], usage: Usage, stop: str) -> None:
    live = Live()
    decoded = run(OPENAI, [recorded(f"openai_chat/{name}.jsonl")], live)
    assert [i.arguments for i in decoded.items if isinstance(i, ToolCall)] == calls
    assert (decoded.usage, decoded.stop) == (usage, stop)
    prose = {i.block: i.text for i in decoded.items if isinstance(i, (Text, Reasoning))}
    assert live.blocks() == prose
    assert bool(calls) or any(isinstance(i, Text) for i in decoded.items)
