"""The calls of one reply: M05, M06, cancelling, the cap."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from actors.protocol.tools import ToolContext, ToolOutcome
from actors.tools.executor import run_calls
from actors.tools.guard import GuardPool
from actors.tools.registry import ToolSetup, build_toolbox
from actors.tools.typed import Arguments, typed_tool
from session_store.items import ToolCall
from tests.support.tool_calls import Bench, told


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("same-id", name, dict(arguments))


async def run(bench: Bench, calls: list[tuple[int, ToolCall]], at_once: int = 8) -> dict[int, ToolOutcome]:
    done: dict[int, ToolOutcome] = {}

    def context(index: int) -> ToolContext:
        return replace(bench.context, key=replace(bench.context.key, index=index))

    def on_done(index: int, outcome: ToolOutcome) -> None:
        assert index not in done
        done[index] = outcome

    await run_calls(calls, bench.toolbox, context, on_done, at_once=at_once)
    return done


async def test_M06_one_file_in_call_order_and_a_failure_blocks_nothing(bench: Bench) -> None:
    calls = [
        call("Write", path="a", content="one\n"),
        call("Edit", path="./a", old="one", new="two"),
        call("Write", path="b", content="B"),
        call("Edit", path="a", old="one", new="never"),
        call("Edit", path=str(bench.workspace / "a"), old="two", new="three"),
        call("Read", path="a"),
        call("Write", path="a", content="four\n"),
    ]
    done = await run(bench, list(enumerate(calls)))
    assert [done[i].status for i in range(7)] == ["ok", "ok", "ok", "error", "ok", "ok", "ok"]
    assert told(done[5]) == "1\tthree"
    assert (bench.workspace / "a").read_text() == "four\n"
    assert (bench.workspace / "b").read_text() == "B"


async def test_M06_writes_of_one_file_through_a_link_are_in_call_order_too(bench: Bench) -> None:
    bench.write("a", "0")
    (bench.workspace / "link").symlink_to("a")
    await bench.call("Read", path="a")
    calls = [call("Write", path="a" if i % 2 else "link", content=str(i)) for i in range(10)]
    done = await run(bench, list(enumerate(calls)))
    assert {outcome.status for outcome in done.values()} == {"ok"}
    assert (bench.workspace / "a").read_text() == "9"


async def test_M05_calls_that_are_not_run_leave_the_others_their_places(bench: Bench) -> None:
    """The first of three is denied elsewhere: the other two are run under their own indexes."""
    done = await run(bench, [(1, call("Write", path="b", content="x")), (2, call("Nope"))])
    assert {index: outcome.status for index, outcome in done.items()} == {1: "ok", 2: "error"}


class Step(Arguments):
    says = "Waits for its turn."
    number: int


class WaitForPods(Arguments):
    says = "Stands for the real one."


def stepping(work: Callable[[Step, ToolContext], Awaitable[ToolOutcome]], tmp_path: Path) -> Bench:
    async def wait(arguments: WaitForPods, context: ToolContext) -> ToolOutcome:
        return await work(Step(number=-1), context)

    bench = Bench(tmp_path)
    more = (typed_tool(Step, work), typed_tool(WaitForPods, wait))
    bench.toolbox = build_toolbox(["Step", "WaitForPods", "Write"], None, GuardPool(), ToolSetup(more=more))
    return bench


async def test_calls_run_side_by_side_up_to_the_cap_and_the_wait_comes_last(tmp_path: Path) -> None:
    running: set[int] = set()
    most, ended = 0, []

    async def work(step: Step, context: ToolContext) -> ToolOutcome:
        nonlocal most
        running.add(step.number)
        most = max(most, len(running))
        await asyncio.sleep(0.01)
        assert step.number != -1 or running == {-1}
        running.discard(step.number)
        ended.append(step.number)
        return ToolOutcome("ok", "done")

    bench = stepping(work, tmp_path)
    calls = [call("WaitForPods"), *(call("Step", number=i) for i in range(9))]
    done = await run(bench, list(enumerate(calls)), at_once=3)
    assert len(done) == 10
    assert most == 3
    assert ended[-1] == -1


async def test_a_cancel_answers_every_call_and_goes_on(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def work(step: Step, context: ToolContext) -> ToolOutcome:
        if step.number == 0:
            return ToolOutcome("ok", "done")
        started.set()
        await asyncio.sleep(60)
        raise AssertionError

    bench = stepping(work, tmp_path)
    done: dict[int, ToolOutcome] = {}
    calls = [*(call("Step", number=i) for i in range(3)), call("WaitForPods")]
    running = asyncio.ensure_future(
        run_calls(list(enumerate(calls)), bench.toolbox, lambda i: bench.context, done.__setitem__, at_once=2)
    )
    await started.wait()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert {i: outcome.status for i, outcome in done.items()} == {
        0: "ok", 1: "interrupted", 2: "interrupted", 3: "not_run",
    }  # fmt: skip


async def test_a_tool_that_cancels_itself_is_interrupted_and_its_siblings_are_not(tmp_path: Path) -> None:
    async def work(step: Step, context: ToolContext) -> ToolOutcome:
        if step.number:
            raise asyncio.CancelledError
        await asyncio.sleep(0.01)
        return ToolOutcome("ok", "done")

    bench = stepping(work, tmp_path)
    done = await run(
        bench, [(0, call("Step", number=0)), (1, call("Step", number=1)), (2, call("Write", path="a", content=""))]
    )
    assert {i: outcome.status for i, outcome in done.items()} == {0: "ok", 1: "interrupted", 2: "ok"}


async def test_cancelled_file_work_has_no_effect_afterwards(bench: Bench) -> None:
    for wait in range(5):
        running = asyncio.ensure_future(bench.call("Write", path=f"f{wait}", content="x" * 1_000_000))
        for _ in range(wait):
            await asyncio.sleep(0.0005)
        running.cancel()
        try:
            await running
        except asyncio.CancelledError:
            there = sorted(p.name for p in bench.workspace.iterdir())
            await asyncio.sleep(0.1)
            assert sorted(p.name for p in bench.workspace.iterdir()) == there
