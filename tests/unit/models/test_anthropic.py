"""The Anthropic Messages wire: what is sent, and what each stream comes to."""

from __future__ import annotations

import json

import pytest

from actors.models.wire.anthropic import AnthropicWire
from actors.protocol.model import ModelError, Usage
from session_store.items import Json, Reasoning, Text, ToolCall, ToolResult, ToolResultGroup
from tests.support.model_requests import READ, Live, assistant, request, results, system, user
from tests.support.wire_streams import ANTHROPIC, block, message, part, recorded, run, sse, words

TEXT = {"type": "text", "text": ""}
THINKING = {"type": "thinking", "thinking": "", "signature": ""}
CACHE = {"cache_control": {"type": "ephemeral"}}


def tool(call_id: str = "t1", name: str = "Read") -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def messages(*items: Json) -> list[Json]:
    return json.loads(b"[" + b",".join(filter(None, (ANTHROPIC.encode(i) for i in items))) + b"]")


def reply(*events: Json, live: Live | None = None) -> tuple[Json, ...]:
    return run(ANTHROPIC, [sse(*events)], live).items


def test_history_as_messages() -> None:
    calls = [ToolCall("t1", "Read", {"path": "/a"}), ToolCall("t2", "no.such", None, "[1]", "a list")]
    group = ToolResultGroup(
        (
            ToolResult(2, 0, "t1", "Read", "ok", "read it", "content"),
            ToolResult(2, 1, "t2", "no.such", "error", "unknown tool"),
        )
    )
    thinking = Reasoning("hm", {"signature": "sig=="})
    items = [thinking, Reasoning("", {"data": "ENC"}), Reasoning("unsigned"), Text("I look."), Text(" \n"), *calls]
    assert messages(user("hi"), assistant(2, *items), group, system("<n>exact</n>")) == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig=="},
                {"type": "redacted_thinking", "data": "ENC"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "/a"}},
                {"type": "tool_use", "id": "t2", "name": "no_such", "input": {"unparsed_arguments": "[1]"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "content"},
                {"type": "tool_result", "tool_use_id": "t2", "content": "unknown tool", "is_error": True},
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "<n>exact</n>"}]},
    ]


def test_a_message_with_nothing_to_send_is_left_out() -> None:
    history = [user("a"), assistant(2, Reasoning("only")), user(" ")]
    body = json.loads(ANTHROPIC.assemble(request(ANTHROPIC, history)))  # type: ignore[arg-type]
    assert [m["role"] for m in body["messages"]] == ["user", "user"]
    assert body["messages"][1]["content"][0]["text"] == "(no text)"


def test_the_body_marks_the_cache_in_kept_bytes() -> None:
    call = ToolCall("t1", "Read", {"path": "a"})
    history = [user("one"), assistant(2, call), results(2, call), assistant(4, Text("so")), user("two")]
    asked = request(ANTHROPIC, history)  # type: ignore[arg-type]
    body = json.loads(ANTHROPIC.assemble(asked))
    assert (body["model"], body["max_tokens"], body["stream"]) == ("m", 8192, True)
    assert body["system"] == [{"type": "text", "text": "You work.", **CACHE}]
    assert body["tools"] == [{"name": "Read", "description": "Read a file.", "input_schema": READ.parameters, **CACHE}]
    marked = [i for i, m in enumerate(body["messages"]) if "cache_control" in m["content"][-1]]
    assert marked == [2, 4]
    plain = json.loads(AnthropicWire("m", cache=False).assemble(asked))
    assert "cache_control" not in json.dumps(plain)
    for m in body["messages"]:
        m["content"][-1].pop("cache_control", None)
    assert body["messages"] == plain["messages"]


def test_M03_repeated_ids_are_unique_on_the_wire() -> None:
    calls = [ToolCall("t", "Read", {"id": "t"}), ToolCall("t", "Read", {"id": "t"})]
    history = [user("go"), assistant(2, *calls), results(2, *calls), assistant(4, calls[0]), results(4, calls[0])]
    sent = json.loads(ANTHROPIC.assemble(request(ANTHROPIC, history)))["messages"]  # type: ignore[arg-type]
    blocks = [b for m in sent for b in m["content"]]
    uses = [b["id"] for b in blocks if b["type"] == "tool_use"]
    assert uses == [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
    assert len(set(uses)) == 3
    assert [b["input"] for b in blocks if b["type"] == "tool_use"] == [{"id": "t"}] * 3


def test_M12_thinking_text_and_calls_keep_their_order() -> None:
    live = Live()
    thought = [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "s1"}]
    items = reply(
        *message(
            block(0, THINKING, *thought, {"type": "signature_delta", "signature": "s2"}),
            block(1, {"type": "redacted_thinking", "data": "ENC"}),
            block(2, TEXT, words("Hel"), words("lo")),
            block(3, tool(), part('{"path":'), part('"a"}')),
            block(4, tool("t2", "List"), part("")),
            stop="tool_use",
        ),
        live=live,
    )
    assert items == (
        Reasoning("hm", {"signature": "s1s2"}, "q.1.0"),
        Reasoning("", {"data": "ENC"}),
        Text("Hello", "q.1.2"),
        ToolCall("t1", "Read", {"path": "a"}),
        ToolCall("t2", "List", {}),
    )
    assert live.blocks() == {"q.1.0": "hm", "q.1.2": "Hello"}


def test_thinking_whose_text_is_withheld_goes_back_with_its_signature() -> None:
    signed = block(0, THINKING, {"type": "signature_delta", "signature": "s"})
    items = reply(*message(signed, block(1, TEXT, words("x"))))
    assert items[0] == Reasoning("", {"signature": "s"})
    (sent,) = messages(assistant(1, *items))
    assert sent["content"][0] == {"type": "thinking", "thinking": "", "signature": "s"}


def test_X01_tokens_beside_the_cache_are_not_the_input() -> None:
    counts = {"input_tokens": 10_000, "cache_read_input_tokens": 80_000, "cache_creation_input_tokens": 10_000}
    events = message(block(0, TEXT, words("x")), usage={**counts, "output_tokens": 1})
    assert run(ANTHROPIC, [sse(*events)]).usage == Usage(100_000, 80_000, 10_000, 1)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("pause_turn", "pause"),
        ("refusal", "refusal"),
        ("something new", "end"),
    ],
)
def test_stop_reasons(reason: str, stop: str) -> None:
    assert run(ANTHROPIC, [sse(*message(block(0, TEXT, words("x")), stop=reason))]).stop == stop


TALK = block(0, TEXT, words("Let me see. "))
SEEN = (Text("Let me see. ", "q.1.0"),)
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
HALF = block(1, tool(), part('{"pa'), stop=False)


@pytest.mark.parametrize(
    ("events", "kind", "is_broken", "kept"),
    [
        ([], "broken_stream", False, ()),
        (message(stop=None), "broken_stream", False, ()),
        (message(TALK, stop=None), "broken_stream", True, SEEN),
        (message(TALK[:-1], stop=None), "broken_stream", True, ()),
        (message(TALK, HALF, stop=None), "broken_stream", True, SEEN),
        (
            [*message(TALK, stop=None), {"type": "message_stop"}],
            "broken_stream",
            True,
            SEEN,
        ),
        (
            [
                *message(HALF, stop=None),
                {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            ],
            "overloaded",
            True,
            (),
        ),
        ([{"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}], "rate_limited", False, ()),
        ([{"type": "content_block_delta", "index": 0, "delta": words("x")}], "broken_stream", False, ()),
        (message(), "empty_reply", False, ()),
        (message(stop="refusal"), "refused", False, ()),
    ],
)
def test_M01_M10_what_each_broken_stream_comes_to(
    events: list[Json], kind: str, is_broken: bool, kept: tuple[Json, ...]
) -> None:
    with pytest.raises(ModelError) as caught:
        reply(*events)
    assert (caught.value.type, caught.value.broken, caught.value.kept) == (kind, is_broken, kept)


def test_M02_a_call_that_the_output_limit_cut_has_no_arguments() -> None:
    for pieces in ([part('{"path":"/a')], [part("")], []):
        (call,) = reply(*message(block(0, tool(), *pieces, stop=False), stop="max_tokens"))
        assert call.arguments is None
        assert call.problem


def test_unknown_events_and_blocks_are_skipped() -> None:
    new = block(0, {"type": "hologram"}, {"type": "hologram_delta", "x": 1})
    odd = block(1, TEXT, {"type": "citations_delta", "citation": {}}, words("yes"))
    items = reply({"type": "ping"}, {"type": "new"}, *message(new, odd))
    assert [i.text for i in items] == ["yes"]


def test_a_whole_message_instead_of_a_stream() -> None:
    content = [{"type": "text", "text": "hi"}, {**tool(), "input": {"path": "a"}}]
    whole = {"type": "message", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 3}}
    assert reply(whole) == (Text("hi", "q.1.0"), ToolCall("t1", "Read", {"path": "a"}))


@pytest.mark.parametrize(
    ("name", "kinds", "usage", "stop"),
    [
        ("text.jsonl", "T", Usage(12, 0, 0, 30), "end"),
        ("json-tool.1.jsonl", "C", Usage(849, 0, 0, 47), "tool_calls"),
        ("tool-no-args.jsonl", "TC", Usage(565, 0, 0, 48), "tool_calls"),
        ("tool_use_response.sse", "TC", Usage(377, 0, 0, 65), "tool_calls"),
        ("basic_response.sse", "T", Usage(11, 0, 0, 6), "end"),
        ("clear-thinking.1.jsonl", "RT", Usage(69, 0, 0, 53), "end"),
        ("duplicate-message-start.jsonl", "T", Usage(17, 0, 0, 227), "end"),
        ("fallback.jsonl", "T", Usage(412, 0, 0, 264), "end"),
        ("mcp.1.jsonl", "T", Usage(1250, 0, 0, 83), "end"),
        ("message-delta-input-tokens.jsonl", "T", Usage(61, 0, 0, 2), "end"),
        ("incomplete_partial_json_response.sse", "TC", Usage(450, 0, 0, 124), "length"),
    ],
)
def test_recorded_streams(name: str, kinds: str, usage: Usage, stop: str) -> None:
    live = Live()
    decoded = run(ANTHROPIC, [recorded(f"anthropic/{name}")], live)
    letter = {Text: "T", Reasoning: "R", ToolCall: "C"}
    assert "".join(letter[type(i)] for i in decoded.items) == kinds
    assert (decoded.usage, decoded.stop) == (usage, stop)
    assert live.blocks() == {i.block: i.text for i in decoded.items if isinstance(i, (Text, Reasoning))}
    cut = [i for i in decoded.items if isinstance(i, ToolCall) and i.arguments is None]
    assert len(cut) == (1 if name.startswith("incomplete") else 0)


@pytest.mark.parametrize("name", ["refusal.jsonl", "refusal_response.sse"])
def test_recorded_refusals(name: str) -> None:
    with pytest.raises(ModelError, match=r"(?i)policy") as caught:
        run(ANTHROPIC, [recorded(f"anthropic/{name}")])
    assert caught.value.type == "refused"


def test_a_recorded_reply_of_server_tools_alone_is_empty() -> None:
    with pytest.raises(ModelError) as caught:
        run(ANTHROPIC, [recorded("anthropic/advisor-stop-reasons.jsonl")])
    assert caught.value.type == "empty_reply"
