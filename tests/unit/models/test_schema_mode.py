"""Tool calls through `response_format`: what is asked for, and what each reply comes to."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from actors.models.wire.openai_chat import OpenAIChatWire
from actors.models.wire.schema_mode import SchemaWire, reply_schema
from actors.protocol.model import ModelError
from session_store.entries import ToolSpec
from session_store.items import Json, Reasoning, Text, ToolCall
from tests.support.model_requests import READ, Live, assistant, request, results, system, user
from tests.support.wire_streams import chunk, run, sse

WIRE = SchemaWire(OpenAIChatWire("m"))
SHARED = ToolSpec(
    "Tree",
    "",
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
    },
)


def body(*tools: ToolSpec) -> Json:
    return json.loads(WIRE.assemble(request(WIRE, [user("go")], tools=tools)))  # type: ignore[arg-type]


def stream(text: str, finish: str = "stop") -> bytes:
    return sse(*(chunk(content=c) for c in text), chunk(finish))


def test_the_request_describes_the_tools_and_asks_for_their_shapes() -> None:
    asked = body(READ)
    assert "tools" not in asked
    system_prompt = asked["messages"][0]["content"]
    assert system_prompt.startswith("You work.\n")
    assert "- Read: Read a file." in system_prompt
    schema = asked["response_format"]["json_schema"]["schema"]
    for good in ({"tool": "Read", "arguments": {"path": "a"}}, {"answer": "done"}):
        jsonschema.validate(good, schema)
    for bad in ({"tool": "Write", "arguments": {}}, {"tool": "Read", "arguments": {}}, {"answer": 1}, {}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema)


def test_who_must_call_is_offered_no_answer() -> None:
    wanted = replace(request(WIRE, [user("go")], tools=(READ,)), must_call=True)
    asked = json.loads(WIRE.assemble(wanted))
    assert "answer" not in asked["messages"][0]["content"]
    schema = asked["response_format"]["json_schema"]["schema"]
    jsonschema.validate({"tool": "Read", "arguments": {"path": "a"}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"answer": "done"}, schema)


def test_shared_parts_of_a_schema_move_with_it() -> None:
    schema = body(SHARED)["response_format"]["json_schema"]["schema"]
    assert "$ref" not in json.dumps(schema)
    jsonschema.validate({"tool": "Tree", "arguments": {"a": {"next": {}}}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"tool": "Tree", "arguments": {"a": {"next": 1}}}, schema)


def test_without_tools_it_is_a_plain_request() -> None:
    assert "response_format" not in body()


def test_history_is_sent_in_the_same_words() -> None:
    call = ToolCall("c", "Read", {"path": "ä"})
    history = [user("hi"), assistant(2, Text("I look."), call), results(2, call), system("note")]
    sent = json.loads(b"[" + b",".join(map(WIRE.encode, history)) + b"]")
    assert [(m["role"], m["content"]) for m in sent] == [
        ("user", "hi"),
        ("assistant", '{"answer":"I look."}\n{"tool":"Read","arguments":{"path":"ä"}}'),
        ("user", "Result of Read:\ndone"),
        ("user", "note"),
    ]


@pytest.mark.parametrize(
    ("text", "finish", "item", "stop"),
    [
        (
            '{"tool": "Read", "arguments": {"path": "a"}}',
            "stop",
            ToolCall("call_q.1", "Read", {"path": "a"}),
            "tool_calls",
        ),
        ('{"answer": "a \\"b\\" \\ud83c\\udf88\\n世界"}', "stop", Text('a "b" 🎈\n世界', "q.1.answer"), "end"),
        ('{"answer": "cut o', "length", Text("cut o", "q.1.answer"), "length"),
        ('{"answer": "cut \\u00', "length", Text("cut ", "q.1.answer"), "length"),
        ("Only words.", "stop", Text("Only words.", "q.1.answer"), "end"),
        ('{"other": 1}', "stop", Text('{"other": 1}', "q.1.answer"), "end"),
    ],
)
def test_replies(text: str, finish: str, item: Json, stop: str) -> None:
    live = Live()
    decoded = run(WIRE, [stream(text, finish)], live)
    assert decoded.items == (item,)
    assert decoded.stop == stop
    assert live.blocks() == ({item.block: item.text} if isinstance(item, Text) else {})


def test_M02_a_call_that_is_cut_or_odd_has_no_arguments() -> None:
    for text, finish in (
        ('{"tool": "Read", "arguments": {"pa', "length"),
        ('{"tool": "Read", "arguments": [1]}', "stop"),
    ):
        (call,) = run(WIRE, [stream(text, finish)]).items
        assert (call.name, call.arguments, call.raw) == ("Read", None, text)  # type: ignore[union-attr]


def test_the_answer_is_live_as_it_grows_and_reasoning_beside_it() -> None:
    live = Live()
    events = [chunk(reasoning_content="hm"), *(chunk(content=c) for c in '{"answer":"abc"}'), chunk("stop")]
    decoded = run(WIRE, [sse(*events)], live)
    assert decoded.items == (
        Reasoning("hm", {"field": "reasoning_content"}, "q.1.0"),
        Text("abc", "q.1.answer"),
    )
    assert live.texts == [("q.1.0", "hm"), ("q.1.answer", "a"), ("q.1.answer", "b"), ("q.1.answer", "c")]


@pytest.mark.parametrize("text", ["", '{"answer": " "}', '{"answer": ""}'])
def test_T09_an_answer_without_a_word_is_empty(text: str) -> None:
    live = Live()
    with pytest.raises(ModelError) as caught:
        run(WIRE, [stream(text)], live)
    assert caught.value.type == "empty_reply"
    assert live.texts == []


def test_M10_a_broken_object_keeps_nothing() -> None:
    with pytest.raises(ModelError) as caught:
        run(WIRE, [sse(chunk(content='{"answer": "so f'))])
    assert (caught.value.broken, caught.value.kept) == (True, ())


def test_only_the_shape_of_arguments_is_asked_of_the_server() -> None:
    """llama.cpp refuses long repetitions (`maxLength` 2000) and patterns without anchors."""
    parameters = {
        "type": "object",
        "properties": {
            "pattern": {
                "type": "string",
                "maxLength": 2000,
                "pattern": "\\S",
                "description": "Named so.",
            },
            "n": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None},
        },
        "required": ["pattern"],
        "additionalProperties": False,
    }
    asked = reply_schema([ToolSpec("T", "", parameters)])["anyOf"][0]["properties"]["arguments"]
    assert asked == {
        "type": "object",
        "properties": {"pattern": {"type": "string"}, "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "required": ["pattern"],
        "additionalProperties": False,
    }
