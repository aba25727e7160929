"""WaitForPods: when the run rests, and what ends the wait."""

from __future__ import annotations

from typing import Any

import pytest

from actors.pod.transitions import Phase
from actors.protocol.tools import ToolOutcome
from session_store.entries import RunEnd
from tests.unit.pod.bench import Bench, call, prompt


def test_a_wait_ends_the_run_in_the_commit_of_its_results() -> None:
    bench = Bench().waiting("c1", "c2")
    assert bench.story[-3:] == ["assistant <WaitForPods>", "results WaitForPods=ok", "end waiting_on_children"]
    end = bench.entries[-1]
    assert isinstance(end, RunEnd)
    assert (end.waits_for, end.mode) == (("c1", "c2"), "all")
    assert (bench.row.status, bench.row.open) == ("waiting_on_children", True)


@pytest.mark.parametrize("data", [{"listed": ["c1"]}, {"awaiting": []}, None])
def test_a_wait_with_nothing_open_goes_on(data: dict[str, Any] | None) -> None:
    bench = Bench().calling(call("WaitForPods"))
    bench.finish(0, outcome=ToolOutcome("ok", "All have concluded.", None, data))
    assert bench.phase is Phase.REQUESTING


def test_a_failed_wait_does_not_end_the_run() -> None:
    bench = Bench().calling(call("WaitForPods"))
    bench.finish(0, outcome=ToolOutcome("error", "No such Pod.", None, {"awaiting": ["c1"]}))
    assert bench.phase is Phase.REQUESTING


Event = tuple[str, dict[str, Any]]
FINISHED: dict[str, Any] = {}
STILL_OPEN = {"open_children": 1}
PAUSED = {"outcome": "paused"}
ASKS = {"kind": "waiting_on_user"}
ERRORED = {"kind": "errored"}
SHUT = {"kind": "shut_down"}


@pytest.mark.parametrize(
    ("mode", "events", "over"),
    [
        ("all", [("c1", FINISHED)], False),
        ("all", [("c1", FINISHED), ("c2", FINISHED)], True),
        ("all", [("c1", FINISHED), ("c2", SHUT)], True),
        ("all", [("c1", FINISHED), ("c2", STILL_OPEN)], False),
        ("all", [("c1", FINISHED), ("c2", PAUSED)], False),
        ("all", [("c1", ASKS)], True),
        ("all", [("c1", ERRORED)], True),
        ("all", [("other", FINISHED), ("other2", FINISHED)], False),
        ("any", [("c2", FINISHED)], True),
        ("any", [("c2", SHUT)], True),
        ("any", [("c2", STILL_OPEN)], False),
        ("any", [("c2", PAUSED)], False),
        ("any", [("other", FINISHED)], False),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_what_ends_a_wait(mode: str, events: list[Event], over: bool, restarted: bool) -> None:
    bench = Bench().waiting("c1", "c2", mode=mode)
    for pod, more in events:
        bench.event(pod, 20, wake=False, **more)
        bench.hint()
    if restarted:
        bench.reopen()
    assert bench.row.status == ("running" if over else "waiting_on_children")
    assert (bench.phase is Phase.REQUESTING) == over
    told = [s for s in bench.story if s.startswith("pod_event")]
    assert told == ([f"pod_event {pod}:20" for pod, _ in events] if over else [])


@pytest.mark.parametrize("mode", ["all", "any"])
def test_an_event_already_in_the_history_ends_no_wait(mode: str) -> None:
    bench = Bench().spawned("c1", "c2")
    bench.event("c1", 20)
    bench.reply(call("WaitForPods"), stop="tool_calls")
    bench.finish(0, outcome=ToolOutcome("ok", "", None, {"listed": []}))  # takes the event in
    bench.reply(call("WaitForPods"), stop="tool_calls")
    bench.finish(0, outcome=ToolOutcome("ok", "", None, {"awaiting": ["c2"], "mode": mode}))
    bench.event("c1", 20)
    bench.hint()
    assert bench.row.status == "waiting_on_children"


def test_a_notice_does_not_end_a_wait_and_a_prompt_does() -> None:
    bench = Bench().waiting("c1")
    bench.notify("news")
    assert bench.phase is Phase.RESTING
    bench.say("a person")
    assert bench.story[-3:] == ["invoke prompt", "user a person", "notification news"]


def test_an_event_that_comes_with_the_commit_of_the_wait_ends_it() -> None:
    bench = Bench().spawned("c1")
    bench.reply(call("WaitForPods"), stop="tool_calls")
    bench.event("c1", 9)  # no hint
    bench.finish(0, outcome=ToolOutcome("ok", "", None, {"awaiting": ["c1"], "mode": "all"}))
    assert bench.story[-3:] == ["end waiting_on_children", "invoke pod_event", "pod_event c1:9"]


def test_a_cancel_of_a_wait_is_terminal_and_reaches_the_children() -> None:
    bench = Bench().waiting("c1")
    bench.control("cancel")
    assert bench.story[-2:] == ["end waiting_on_children", "end cancelled"]
    assert bench.row.status == "idle"


def test_a_wait_that_meets_a_cancel_does_not_rest() -> None:
    bench = Bench().spawned("c1")
    bench.reply(call("WaitForPods"), stop="tool_calls")
    bench.control("cancel")
    bench.finish(0, outcome=ToolOutcome("ok", "", None, {"awaiting": ["c1"], "mode": "all"}))
    assert bench.story[-1] == "end cancelled"


def test_children_heard_of_by_a_wait_are_remembered() -> None:
    bench = Bench().waiting("c1", "c2", mode="any")
    bench.event("c1", 9)
    bench.hint()
    assert bench.machine.state.facts.heard.keys() == {"c1"}
    bench.reopen()
    assert bench.machine.state.facts.heard.keys() == {"c1"}


def test_a_message_to_a_concluded_child_opens_it_again() -> None:
    bench = Bench().spawned("c1")
    bench.event("c1", 9)
    bench.reply(call("SendToPod"), stop="tool_calls")
    bench.finish(0, outcome=ToolOutcome("ok", "Sent.", None, {"pod_id": "c1", "after": 9}))
    child = bench.machine.state.facts.children["c1"]
    assert not child.concluded  # the event was about what came before the message
    bench.event("c1", 14)
    bench.reply("Done.")
    assert child.concluded


def test_prompts_and_events_of_one_moment_make_one_run() -> None:
    bench = Bench().waiting("c1")
    bench.event("c1", 9)
    bench.deliver(prompt("and me"))
    bench.hint()
    assert bench.story[-3:] == ["invoke prompt", "user and me", "pod_event c1:9"]
