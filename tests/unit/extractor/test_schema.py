"""The worker's answer: what is taken and what is not (X10), and that the JSON schema says the same."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from actors.extractor.ranges import Range
from actors.extractor.schema import NOTHING, PARAMETERS, TOOL, NoExtraction, cleaned, read_reply
from actors.extractor.staging import is_staged, staged
from session_store.items import AssistantItem, Reasoning, Text, ToolCall

EMPTY: dict[str, Any] = {"decisions": [], "discussions": [], "attempts": [], "requests": []}
FULL: dict[str, Any] = {
    "decisions": [{"options": ["a", "b"], "chosen": "a", "rationale": "It is there."}],
    "discussions": [{"topic": "names", "points": ["short", "clear"]}],
    "attempts": [{"action": "ran the tests", "result": "two failed", "succeeded": False}],
    "requests": [
        {"intent": "a release", "target": "CHANGELOG", "summary": "Write it."},
        {"intent": "i", "summary": "s"},
    ],
}
WRONG: list[Any] = [
    [],
    "prose",
    {},
    {**EMPTY, "notes": "All went well."},
    {k: v for k, v in EMPTY.items() if k != "requests"},
    {**EMPTY, "decisions": None},
    {**EMPTY, "attempts": [{"action": "a", "result": "r", "succeeded": "yes"}]},
    {**EMPTY, "attempts": [{"action": "a", "result": "r"}]},
    {**EMPTY, "discussions": [{"topic": "t", "points": ["p"], "comment": "c"}]},
    {**EMPTY, "requests": [{"intent": "i", "summary": "s", "source": {"session_id": "x"}}]},
    {**EMPTY, "source": {"session_id": "x", "range": [1, 2]}},
]  # fmt: skip


def call(arguments: Any, name: str = TOOL) -> ToolCall:
    return ToolCall("c", name, arguments)


@pytest.mark.parametrize("value", [EMPTY, FULL])
@pytest.mark.parametrize("form", ["call", "text", "fenced"])
def test_an_answer_may_be_a_call_or_the_object_itself(value: dict[str, Any], form: str) -> None:
    text = json.dumps(value)
    items: dict[str, tuple[AssistantItem, ...]] = {
        "call": (Reasoning("Hm."), call(value)),
        "text": (Text(text),),
        "fenced": (Text(f"```json\n{text}\n```"),),
    }
    assert read_reply(items[form]).plain() == value


@pytest.mark.parametrize("value", WRONG)
def test_X10_whatever_does_not_fit_is_refused_by_the_schema_and_by_the_check(value: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, PARAMETERS)
    with pytest.raises(NoExtraction):
        read_reply((Text(json.dumps(value)),))


@pytest.mark.parametrize("value", [EMPTY, FULL])
def test_what_the_check_takes_fits_the_schema(value: Any) -> None:
    jsonschema.validate(value, PARAMETERS)


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ((), "There was no call"),
        ((Text("I found two decisions."),), "prose"),
        ((Text('{"decisions": ['),), "prose"),
        ((call(EMPTY), call(EMPTY)), "2 calls"),
        ((call(EMPTY, "write_file"),), "no tool `write_file`"),
        ((ToolCall("c", TOOL, None, "{", "it is not whole JSON"),), "not whole JSON"),
        ((call({**EMPTY, "notes": "x"}),), "`notes`"),
    ],
)
def test_X10_the_refusal_says_what_is_wrong(items: tuple[AssistantItem, ...], why: str) -> None:
    with pytest.raises(NoExtraction, match=why):
        read_reply(items)


def test_X09_every_text_of_an_answer_is_masked() -> None:
    found = cleaned(read_reply((call(FULL),)), lambda text: text.replace("e", "3"))
    assert "e" not in "".join(
        v for d in found.plain().values() for x in d for v in map(str, x.values()) if v != "False"
    )


def test_X08_the_file_says_its_source_and_is_told_from_any_other() -> None:
    data = staged("s", Range(3, 9, 9), read_reply((call(FULL),)))
    assert list(json.loads(data)) == ["source", "decisions", "discussions", "attempts", "requests"]
    assert json.loads(data)["source"] == {"session_id": "s", "range": [3, 9]}
    assert is_staged(data, "s", Range(3, 9, 20))
    assert not is_staged(data, "t", Range(3, 9, 9))
    assert not is_staged(data, "s", Range(3, 8, 9))
    assert not any(is_staged(bad, "s", Range(3, 9, 9)) for bad in (b"", b"{}", b"[]", data[:-9], b"\xff"))


def test_nothing_is_four_empty_arrays_and_odd_characters_survive() -> None:
    assert NOTHING.plain() == EMPTY
    odd = {**EMPTY, "requests": [{"intent": "\u2028😀\ud800", "summary": "日本\n語"}]}
    assert json.loads(staged("s", Range(1, 2, 2), read_reply((call(odd),))))["requests"] == [
        {"intent": "\u2028😀?", "summary": "日本\n語"}
    ]
