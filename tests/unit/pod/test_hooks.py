"""Hooks see, deny and stop; they change nothing, and one that fails is contained and told."""

from __future__ import annotations

import threading
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from actors.pod.hooks import HookRunner, HookSet
from actors.pod.transitions import Phase
from actors.protocol.hooks import METHODS, CallView, Deny, RequestView, ResultView, RunEndView, Stop, frozen
from session_store.entries import AssistantItems, RunEnd, ToolResults
from session_store.messages import USER, Message
from tests.support.local_pods import LocalPods
from tests.unit.pod.bench import Bench, call

WRITE = {"name": "Write", "arguments": {"path": "a.txt", "content": "text"}}
LINES: list[dict[str, Any]] = [{"match": {"request": 1}, "tool_calls": [WRITE]}, {"text": "done"}]


class Seeing:
    """Sees everything and answers what it is told to."""

    def __init__(self, **verdicts: Any) -> None:
        self.seen: list[Any] = []
        self.verdicts = verdicts

    def _answer(self, method: str, view: Any) -> Any:
        self.seen.append(view)
        verdict = self.verdicts.get(method)
        if isinstance(verdict, BaseException):
            raise verdict
        return verdict(view) if callable(verdict) else verdict

    def before_request(self, view: RequestView) -> Any:
        return self._answer("before_request", view)

    def before_call(self, view: CallView) -> Any:
        return self._answer("before_call", view)

    def after_call(self, view: ResultView) -> Any:
        return self._answer("after_call", view)

    def after_run(self, view: RunEndView) -> Any:
        return self._answer("after_run", view)


async def ran(folder: Path, *hooks: Any, closed: bool = True, limit: float = 5.0) -> tuple[LocalPods, str]:
    """A Pod that was told to write a file, under these hooks."""
    pods = LocalPods(folder, LINES)
    runners = tuple(HookRunner(f"h{n}", hook, limit) for n, hook in enumerate(hooks))
    pods.parts.hooks = HookSet(runners, closed)
    pod = await pods.create("go")
    await pods.until(pod, "idle")
    await pods.send(pod, Message("stop", "stop", USER, {}))
    await pods.until(pod, "ended")
    await pods.close()
    return pods, pod


async def results(pods: LocalPods, pod: str) -> list[tuple[str, str]]:
    log = await pods.log(pod)
    return [(r.status, r.content or r.summary) for e in log if isinstance(e, ToolResults) for r in e.results]


async def ends(pods: LocalPods, pod: str) -> list[tuple[str, str | None]]:
    log = await pods.log(pod)
    return [(e.outcome, None if e.error is None else e.error.type) for e in log if isinstance(e, RunEnd)]


def told(pods: LocalPods, pod: str) -> list[str]:
    return [alert.message for alert in pods.alerts.since(0, pod)[1] if alert.code == "hook"]


async def test_hooks_see_request_call_result_and_end_in_order(tmp_path: Path) -> None:
    hook = Seeing()
    pods, pod = await ran(tmp_path, hook)
    first, before, after, second, end = hook.seen
    assert [type(v).__name__ for v in hook.seen] == [
        *("RequestView", "CallView", "ResultView", "RequestView", "RunEndView"),
    ]
    assert (first.number, first.history_len, [i["type"] for i in first.new_items]) == (1, 1, ["user_message"])
    assert (second.number, second.history_len) == (2, 3)
    assert [i["type"] for i in second.new_items] == ["assistant_message", "tool_result_group"]
    assert (before.name, before.arguments["path"], before.pod.name) == ("Write", "a.txt", "root")
    assert (after.call, after.status) == (before, "ok")
    assert (end.outcome, end.text, end.error_type) == ("finished", "done", None)
    assert {v.pod.run_id for v in (first, before, second, end)} == {end.pod.run_id}
    assert await results(pods, pod) == [("ok", (await results(pods, pod))[0][1])]
    assert told(pods, pod) == []


def test_views_are_read_only_copies_and_hold_no_keys() -> None:
    arguments = {"list": [{"a": 1}]}
    shown = frozen(arguments)
    with pytest.raises(TypeError):
        shown["list"] = 1
    with pytest.raises(TypeError):
        shown["list"][0]["a"] = 2
    arguments["list"][0]["a"] = 3
    assert shown["list"][0]["a"] == 1
    with pytest.raises(FrozenInstanceError):
        Deny("x").reason = "y"  # type: ignore[misc]


async def test_a_denied_call_has_a_result_that_says_so_and_the_run_goes_on(tmp_path: Path) -> None:
    late = Seeing()
    pods, pod = await ran(tmp_path, Seeing(before_call=Deny("not on a Friday")), late)
    assert await results(pods, pod) == [("denied", "Denied by the hook `h0`: not on a Friday")]
    assert not (tmp_path / "a.txt").exists()
    assert await ends(pods, pod) == [("finished", None)]
    assert not any(isinstance(view, CallView) for view in late.seen)
    assert [view.status for view in late.seen if isinstance(view, ResultView)] == ["denied"]


@pytest.mark.parametrize("method", METHODS[:3])
async def test_a_hook_stops_the_run(tmp_path: Path, method: str) -> None:
    pods, pod = await ran(tmp_path, Seeing(**{method: Stop("over budget")}))
    assert await ends(pods, pod) == [("limit_reached", "hook")]
    log = await pods.log(pod)
    (end,) = [e for e in log if isinstance(e, RunEnd)]
    assert end.error is not None
    assert end.error.message == "The hook `h0` stopped the run: over budget"
    assert len([e for e in log if isinstance(e, AssistantItems)]) == (0 if method == "before_request" else 1)
    assert (tmp_path / "a.txt").exists() == (method == "after_call")


@pytest.mark.parametrize(("closed", "status"), [(True, "denied"), (False, "ok")])
async def test_what_a_failing_judge_means_is_a_setting(tmp_path: Path, closed: bool, status: str) -> None:
    pods, pod = await ran(tmp_path, Seeing(before_call=ValueError("oops")), closed=closed)
    ((got, words),) = await results(pods, pod)
    assert got == status
    assert ("oops" in words) == closed
    assert (tmp_path / "a.txt").exists() is not closed
    assert told(pods, pod) == ["The hook `h0` failed in before_call: ValueError: oops."]
    assert await ends(pods, pod) == [("finished", None)]


@pytest.mark.parametrize("method", [m for m in METHODS if m != "before_call"])
@pytest.mark.parametrize(
    "verdict", [SystemExit(3), Deny("no place for it"), "nonsense"], ids=["raises", "deny", "text"]
)
async def test_a_hook_that_fails_elsewhere_is_told_and_changes_nothing(
    tmp_path: Path, method: str, verdict: Any
) -> None:
    pods, pod = await ran(tmp_path, Seeing(**{method: verdict}))
    assert await ends(pods, pod) == [("finished", None)]
    assert [status for status, _ in await results(pods, pod)] == ["ok"]
    assert len(told(pods, pod)) == 1  # the same failure once


async def test_a_hook_that_hangs_is_left_behind_and_not_asked_again_until_it_is_back(tmp_path: Path) -> None:
    free, asked = threading.Event(), []

    def hang(view: Any) -> None:
        asked.append(view)
        free.wait(30)

    try:
        pods, pod = await ran(tmp_path, Seeing(before_request=hang), limit=0.05)
        assert await ends(pods, pod) == [("finished", None)]
        assert len(asked) == 1
        assert "gave no answer to before_request within 0.05 s" in told(pods, pod)[0]
        assert "is still busy with an earlier call" in told(pods, pod)[1]
        assert [status for status, _ in await results(pods, pod)] == ["denied"]
    finally:
        free.set()


def test_a_halt_ends_a_run_in_any_phase_and_only_the_run_it_is_about() -> None:
    bench = Bench().calling(call("Look"), call("Act"))
    bench.halt("enough")
    assert bench.said == ["AbortCalls"]
    bench.finish(0, 1)
    assert bench.story[-1] == "end limit_reached (hook)"
    bench.halt()  # late: the run is over
    assert bench.phase is Phase.RESTING
    bench.say("again")
    assert bench.phase is Phase.REQUESTING
    bench.halt()
    bench.abort_request("half")
    assert bench.story[-2:] == ["assistant half", "end limit_reached (hook)"]
