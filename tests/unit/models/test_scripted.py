"""The scripted model: which line answers, what it says, what is wrong with a script."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from actors.models.script import line_for, read_script, script_line
from actors.models.scripted import ScriptedModel
from actors.models.timing import Timing
from actors.protocol.model import ModelError
from session_store.items import Json, Text, ToolCall
from tests.support.model_requests import Live, request, user


def lines(*plain: dict[str, Json]) -> list[Json]:
    return [script_line(p, "here") for p in plain]


def answers(script: list[Json], pod: str, count: int) -> list[str | None]:
    found = [line_for(script, pod, n) for n in range(1, count + 1)]
    return [line.text if line else None for line in found]


@pytest.mark.parametrize(
    ("pod", "expect"),
    [
        ("root", ["root first", "second of all", "any a", "root second", None]),
        ("child-1", ["child", "second of all", "any a", "any b", "any b"]),
        ("child-2", ["child", "second of all", "any a", "any b", "any b"]),
        ("x", ["any a", "second of all", "any b", "any b", "any b"]),
    ],
)
def test_which_line_answers_which_request(pod: str, expect: list[str | None]) -> None:
    script = lines(
        {"match": {"pod": "root"}, "text": "root first"},
        {"match": {"pod": "child-*"}, "text": "child"},
        {"match": {"request": 2}, "text": "second of all"},
        {"text": "any a"},
        {"match": {"pod": "root"}, "text": "root second"},
        {"match": {"pod": "[!r]*"}, "text": "any b", "repeat": True},
    )
    assert answers(script, pod, 5) == expect


def test_a_request_number_is_answered_by_the_first_line_that_names_it() -> None:
    script = lines({"match": {"request": 3}, "text": "three"}, {"text": "one"}, {"match": {"request": 3}, "text": "no"})
    assert answers(script, "p", 4) == ["one", None, "three", None]


async def test_a_restarted_pod_goes_on_where_its_script_stood() -> None:
    script = [{"text": f"step {n}"} for n in range(1, 4)]
    for number in (1, 2, 3):
        model = ScriptedModel(script)  # a new process each time
        reply = await model.reply(request(model, number=number), Live())
        assert reply.items == (Text(f"step {number}", f"q{number}.1.0"),)


async def test_an_exhausted_script_says_which_request_had_no_line() -> None:
    with pytest.raises(ModelError, match="request 2 of the Pod 'root'") as caught:
        await ScriptedModel([{"text": "once"}]).reply(request(number=2), Live())
    assert caught.value.type == "script"


async def test_text_goes_live_in_pieces_and_is_the_same_in_the_reply() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    text = "Guten Tag, 世界! " * 20
    model = ScriptedModel([{"text": text, "delay_ms": 200}], timing=Timing(sleep=sleep))
    live = Live()
    reply = await model.reply(request(model), live)
    assert live.blocks() == {"q1.1.0": text}
    assert len(live.texts) > 5
    assert sum(slept) == pytest.approx(0.2)
    assert reply.stop == "end"


async def test_calls_usage_and_raw_arguments() -> None:
    line = {
        "tool_calls": [
            {"name": "Read", "arguments": {"path": "/a"}},
            {"name": "Read", "arguments": '{"path":"/a', "id": "same"},
            {"name": "Read", "arguments": "[1]", "id": "same"},
        ],
        "usage": {"input": 100, "cache_read": 90},
    }
    model = ScriptedModel([line])
    reply = await model.reply(request(model, [user("x" * 330)]), Live())
    first, second, third = reply.items
    assert first == ToolCall("call_1_0", "Read", {"path": "/a"})
    assert isinstance(second, ToolCall)
    assert isinstance(third, ToolCall)
    assert (second.call_id, second.arguments, second.raw) == ("same", None, '{"path":"/a')
    assert third.problem == "the arguments are a list, not an object"
    assert (reply.usage.input, reply.usage.cache_read, reply.usage.estimated) == (100, 90, True)
    assert reply.stop == "tool_calls"


async def test_M08_scripted_failures_are_retried_and_announced() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    model = ScriptedModel(
        [{"text": "at last", "error": {"status": 429, "retry_after": 7, "times": 2}}],
        timing=Timing(sleep=sleep, chance=lambda: 0.0),
    )
    live = Live()
    reply = await model.reply(request(model), live)
    assert (reply.attempts, slept, live.discards) == (3, [7.0, 7.0], 2)
    assert [(a, w) for a, w, _ in live.retries] == [(2, 7.0), (3, 7.0)]
    assert live.blocks() == {"q1.3.0": "at last"}


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ("overloaded", "overloaded", None),
        ("something else", "server", None),
        ({"status": 400}, "bad_request", 400),
        ({"status": 400, "message": "prompt is too long"}, "context_overflow", 400),
        ({"type": "auth", "message": "no"}, "auth", None),
        ({"status": 400, "times": 3}, "bad_request", 400),
    ],
)
async def test_scripted_errors(error: Json, kind: str, status: int | None) -> None:
    with pytest.raises(ModelError) as caught:
        await ScriptedModel([{"error": error}]).reply(request(), Live())
    assert (caught.value.type, caught.value.status, caught.value.broken) == (kind, status, False)


async def test_G06_no_key_stands_in_a_scripted_error() -> None:
    model = ScriptedModel([{"error": {"status": 401, "message": "bad key sk-ABCDEFGHIJKLMNOP"}}])
    with pytest.raises(ModelError) as caught:
        await model.reply(request(model), Live())
    assert caught.value.message == "bad key [hidden]"


async def test_text_with_an_error_is_a_reply_that_breaks_off_after_it() -> None:
    line = {"text": "so far", "tool_calls": [{"name": "Read"}], "error": "broken_stream"}
    with pytest.raises(ModelError) as caught:
        await ScriptedModel([line]).reply(request(), Live())
    assert caught.value.broken
    assert caught.value.kept == (Text("so far", "q1.1.0"),)


async def test_T09_a_line_that_says_nothing_is_an_empty_reply() -> None:
    with pytest.raises(ModelError) as caught:
        await ScriptedModel([{}]).reply(request(), Live())
    assert caught.value.type == "empty_reply"


async def test_T05_a_waiting_reply_can_be_cancelled() -> None:
    for line in ({"text": "x", "delay_ms": 60_000}, {"text": "x", "error": {"status": 503, "times": 4}}):
        live = Live()
        task = asyncio.create_task(ScriptedModel([line]).reply(request(), live))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"text": "ok"}\n{"txt": "no"}', "s.jsonl, line 2 at `txt`"),
        ("# a comment\n\nnot json", "s.jsonl, line 3: not JSON"),
        ("[1]", "s.jsonl, line 1"),
        ('{"match": {"request": 0}}', "line 1 at `match.request`"),
        ('{"error": {"type": "oops"}}', "unknown error type 'oops'"),
        ('{"error": {}}', "needs `type` or `status`"),
        ('{"match": {"request": 1}, "repeat": true}', "cannot `repeat`"),
        ('{"delay_ms": -1}', "line 1 at `delay_ms`"),
    ],
)
def test_a_bad_line_is_named_with_its_number(text: str, says: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_script(text, "s.jsonl")
    assert caught.value.type == "settings"
    assert says in caught.value.message


async def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text(json.dumps({"text": "こんにちは\u2028!"}, ensure_ascii=False) + "\n", encoding="utf-8")
    reply = await ScriptedModel.load(path).reply(request(), Live())
    assert reply.items == (Text("こんにちは\u2028!", "q1.1.0"),)
    with pytest.raises(ModelError, match="cannot read the script"):
        ScriptedModel.load(tmp_path / "none.jsonl")
