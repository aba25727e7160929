"""Every call is answered: unknown tools, arguments that do not fit, tools that fail."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.tools import ASKING_TOOLS, CHILD_TOOLS, FILE_TOOLS, ToolContext, ToolOutcome
from actors.tools.guard import GuardPool
from actors.tools.limits import ToolLimits
from actors.tools.registry import PodToolbox, ToolSetup, UnknownTools, build_toolbox
from actors.tools.typed import Arguments, typed_tool
from session_store.items import ToolCall
from tests.support.fake_children import FakeChildren
from tests.support.tool_calls import Bench, told


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path, FakeChildren())
    yield bench
    await bench.toolbox.close()


@dataclass
class Case:
    name: str
    arguments: Any
    says: tuple[str, ...]


CASES = [
    Case("read", {"path": "a"}, ("no tool `read`", "Did you mean Read?", "Write", "Shell")),
    Case("Read", {"path": "a", "lines": 3, "x": 1}, ("unknown argument `lines`", "unknown argument `x`", "offset?")),
    Case("Read", {}, ("argument `path` is missing", "Read takes {path, offset?, limit?}")),
    Case("Read", {"path": 7}, ("`path`", "string", "not the number 7")),
    Case("Read", {"path": "a", "offset": "5"}, ("`offset`", "integer", "the string '5'")),
    Case("Read", {"path": "a", "offset": True}, ("`offset`", "integer", "not true")),
    Case("Read", {"path": "a", "offset": 0}, ("`offset`", "greater than or equal to 1")),
    Case("Edit", {"path": "a", "old": "x", "new": "y", "replace_all": "yes"}, ("`replace_all`", "boolean")),
    Case("Shell", {"command": "true", "timeout": float("inf")}, ("`timeout`", "finite")),
    Case("SpawnPod", {"task": "t", "limits": {"Requests": 2}}, ("unknown argument `limits.Requests`",)),
    Case("SpawnPod", {"task": "t", "scope": {"write": "src"}}, ("`scope.write`", "list", "the string 'src'")),
    Case("WaitForPods", {"mode": "some"}, ("`mode`", "'all' or 'any'")),
    Case("ListPods", {"all": True}, ("unknown argument `all`", "ListPods takes {}")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}-{case.says[0]}")
async def test_M02_arguments_that_do_not_fit_are_named(bench: Bench, case: Case) -> None:
    outcome = await bench.call(case.name, **case.arguments)
    assert outcome.status == "error"
    for words in case.says:
        assert words in told(outcome)


@pytest.mark.parametrize("arguments", [None, {"path": "a", "content": "guessed"}])
async def test_M02_a_call_with_a_problem_is_never_run(bench: Bench, arguments: dict[str, Any] | None) -> None:
    call = ToolCall("c", "Write", arguments, raw='{"path":"/a', problem="it ends early")
    outcome = await bench.answer(call)
    assert outcome.status == "error"
    assert "not a JSON object (it ends early)" in told(outcome)
    assert list(bench.workspace.iterdir()) == []
    assert bench.toolbox.resource(call, bench.context) is None


class Boom(Arguments):
    says = "Fails."


async def test_a_tool_that_fails_is_an_error_result_without_traceback_or_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-1234")

    async def boom(arguments: Boom, context: ToolContext) -> ToolOutcome:
        raise KeyError("refused with key sk-very-secret-1234")

    bench = Bench(tmp_path)
    toolbox = build_toolbox(["Boom"], None, bench.guard, ToolSetup(more=(typed_tool(Boom, boom),)))
    outcome = await toolbox.run(ToolCall("c", "Boom", {}), bench.context)
    assert outcome.status == "error"
    assert told(outcome) == "Boom failed: KeyError: 'refused with key [redacted]'"


async def test_M07_no_result_is_larger_than_the_limit_whoever_made_it(tmp_path: Path) -> None:
    whole = "あ𠮷" * 1_000_000

    async def boom(arguments: Boom, context: ToolContext) -> ToolOutcome:
        return ToolOutcome("ok", "x\ny" * 500, whole)

    bench = Bench(tmp_path)
    toolbox = PodToolbox({"Boom": typed_tool(Boom, boom)}, bench.guard, ToolSetup(limits=ToolLimits(result=1_000)))
    outcome = await toolbox.run(ToolCall("c", "Boom", {}), bench.context)
    assert len(told(outcome)) < 1_500
    assert "1,999,000 characters are left out" in told(outcome)
    assert "\n" not in outcome.summary
    assert len(outcome.summary) <= 200
    (kept,) = (tmp_path / "spill").iterdir()
    assert kept.read_text() == whole
    assert str(kept) in told(outcome)


async def test_half_characters_in_a_result_are_made_storable(tmp_path: Path) -> None:
    async def boom(arguments: Boom, context: ToolContext) -> ToolOutcome:
        return ToolOutcome("ok", "a\ud83d", "b\ud83d")

    bench = Bench(tmp_path)
    toolbox = PodToolbox({"Boom": typed_tool(Boom, boom)}, bench.guard, ToolSetup())
    outcome = await toolbox.run(ToolCall("c", "Boom", {}), bench.context)
    assert (outcome.summary, outcome.content) == ("a?", "b?")


def test_asking_for_tools_that_are_not_there_names_them_and_the_known(tmp_path: Path) -> None:
    with pytest.raises(UnknownTools, match=r"unknown tools: Fetch, SpawnPod \(known: Read, "):
        build_toolbox(["Read", "Fetch", "SpawnPod"], None, GuardPool())


def test_only_what_reads_and_what_is_keyed_runs_again_after_a_crash_S05(bench: Bench) -> None:
    again = {name for name in (*FILE_TOOLS, *CHILD_TOOLS, *ASKING_TOOLS, "Nope") if bench.toolbox.idempotent(name)}
    assert again == {"Read", "Glob", "Grep", *CHILD_TOOLS, *ASKING_TOOLS}


def test_schemas_are_compact_closed_and_the_same_every_time(bench: Bench) -> None:
    specs = bench.toolbox.specs
    assert [spec.name for spec in specs] == [*FILE_TOOLS, *CHILD_TOOLS, *ASKING_TOOLS]
    shapes = {
        spec.name: [
            name if name in spec.parameters.get("required", ()) else f"{name}?"
            for name in spec.parameters["properties"]
        ]
        for spec in specs
    }
    assert shapes == {
        "Read": ["path", "offset?", "limit?"],
        "Write": ["path", "content"],
        "Edit": ["path", "old", "new", "replace_all?"],
        "Glob": ["pattern", "path?"],
        "Grep": ["pattern", "path?", "glob?", "ignore_case?", "context?", "max_results?"],
        "Shell": ["command", "timeout?"],
        "SpawnPod": ["task", "name?", "profile?", "scope?", "limits?", "detached?"],
        "SendToPod": ["pod", "message"],
        "ReadPodOutput": ["pod", "after?"],
        "WaitForPods": ["pods?", "mode?"],
        "StopPod": ["pod"],
        "ListPods": [],
        "clarify": ["question", "choices?"],
    }
    # A choice of clarify is a text or an object: the one place where two types are right.
    text = json.dumps([spec.parameters for spec in specs if spec.name != "clarify"])
    for word in ('"title"', "$ref", "$defs", "anyOf", "null"):
        assert word not in text
    assert all(spec.parameters["additionalProperties"] is False for spec in specs)
    other = build_toolbox([*FILE_TOOLS, *CHILD_TOOLS, *ASKING_TOOLS], FakeChildren(), GuardPool())
    assert json.dumps([s.parameters for s in other.specs]) == json.dumps([s.parameters for s in specs])
