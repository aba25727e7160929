"""Pause, resume, cancel and stop: honoured from acceptance, aimed at one run, and told once."""

from __future__ import annotations

import pytest

from actors.pod.transitions import Phase
from actors.protocol.config import RunLimits
from session_store.entries import Invoke, RunEnd, Served, UserInput
from session_store.items import Segment
from session_store.messages import Message
from tests.unit.pod.bench import PARENT, Bench, call, prompt


def test_T01_a_prompt_cancelled_before_anything_came_is_withdrawn() -> None:
    bench = Bench().working("first")
    bench.control("cancel")
    bench.abort_request()
    assert bench.story == ["invoke prompt", "user first", "end withdrawn"]
    bench.say("second")
    assert [i.text for i in bench.machine.state.history.items] == ["second"]  # type: ignore[union-attr]


def test_T01_if_anything_was_produced_both_stay() -> None:
    bench = Bench().working("first")
    bench.control("cancel")
    bench.abort_request("Well,")
    assert bench.story == ["invoke prompt", "user first", "assistant Well,", "end cancelled"]
    bench.say("second")
    assert len(bench.machine.state.history.items) == 3


def test_a_withdrawn_run_leaves_its_notices_to_the_next_one() -> None:
    bench = Bench()
    bench.notify("news", wake=False)
    bench.working("first").control("cancel")
    bench.abort_request()
    bench.say("second")
    assert [type(i).__name__ for i in bench.machine.state.history.items] == ["SystemMessage", "UserMessage"]


def test_T02_cancel_before_the_first_request_sends_none() -> None:
    bench = Bench()
    bench.deliver(prompt("go"))
    bench.deliver(Message("c", "cancel", "user"))
    bench.hint()
    assert bench.request is None
    assert (bench.story, bench.queue) == (["invoke prompt", "user go", "end withdrawn"], [])


def test_T02_cancel_while_the_invoke_is_being_committed_sends_none() -> None:
    bench = Bench()
    bench.hold = True
    bench.say("go")
    bench.control("cancel")
    bench.hold = False
    bench.commit()
    assert bench.request is None
    assert bench.story[-1] == "end withdrawn"


@pytest.mark.parametrize("orders", [("pause", "cancel"), ("cancel", "pause")])
def test_T03_cancel_wins_over_pause_in_both_orders(orders: tuple[str, str]) -> None:
    bench = Bench().working()
    for kind in orders:
        bench.control(kind)
    bench.abort_request("Hm")
    assert [s for s in bench.story if s.startswith("end")] == ["end cancelled"]
    assert (bench.row.status, bench.queue) == ("idle", [])


def test_T03_a_paused_run_is_cancelled_with_one_terminal_outcome() -> None:
    bench = Bench().working()
    bench.control("pause")
    bench.abort_request()
    assert bench.row.status == "paused"
    bench.control("cancel")
    assert bench.story[2:] == ["end paused", "end cancelled"]
    assert bench.row.status == "idle"


def test_T05_cancel_aborts_the_request_at_once_and_none_follows() -> None:
    bench = Bench().working()
    assert [type(i).__name__ for i in bench.control("cancel")] == ["AbortRequest"]
    bench.fail_request("timeout")
    assert (bench.phase, bench.story[-1]) == (Phase.RESTING, "end withdrawn")


def test_T07_only_the_running_turn_is_cancelled() -> None:
    bench = Bench().working("one")
    bench.say("two")
    bench.say("three")
    bench.control("cancel")
    bench.abort_request("x")
    bench.reply("to two")
    bench.reply("to three")
    assert [s for s in bench.story if s.startswith(("user", "end"))] == [
        *("user one", "end cancelled", "user two", "end finished", "user three", "end finished"),
    ]


def test_T07_a_cancel_that_clears_the_queue_withdraws_what_was_sent_before_it() -> None:
    bench = Bench().working("one")
    bench.say("two")
    bench.control("cancel", clear_queue=True)
    bench.say("after")
    bench.abort_request("x")
    assert bench.story[3:] == ["end cancelled", "withdrawn two", "invoke prompt", "user after"]


def test_pause_lets_running_tools_finish_and_resume_goes_on_with_the_same_run() -> None:
    bench = Bench().calling(call("Act"))
    run = bench.row.run_id
    assert bench.control("pause") == []
    bench.finish(0)
    assert (bench.story[-2:], bench.row.status) == (["results Act=ok", "end paused"], "paused")
    bench.control("resume")
    assert (bench.phase, bench.row.status) == (Phase.REQUESTING, "running")
    bench.reply("On I go.")
    assert bench.story[-2:] == ["assistant On I go.", "end finished"]
    assert [e.run_id for e in bench.entries if isinstance(e, (Invoke, RunEnd))] == [run] * 3


def test_a_paused_run_stays_paused_over_a_restart_and_queues_what_comes() -> None:
    bench = Bench().working()
    bench.control("pause")
    bench.abort_request()
    bench.reopen()
    bench.say("more")
    bench.notify("news")
    assert (bench.phase, bench.row.status, bench.queue) == (Phase.RESTING, "paused", ["more", "news"])


def test_a_resume_is_consumed_only_by_what_makes_the_run_go_on() -> None:
    bench = Bench().working()
    bench.control("pause")
    bench.abort_request()
    bench.control("resume")
    bench.reply()  # nothing: only its usage is committed
    assert (bench.phase, bench.row.status) == (Phase.REQUESTING, "running")
    bench.reopen()
    assert bench.phase is Phase.REQUESTING
    bench.reply("Now.")
    assert bench.story[2:] == ["end paused", "assistant Now.", "end finished"]


def test_a_steering_prompt_is_the_first_thing_of_a_resumed_run() -> None:
    bench = Bench().working()
    bench.control("pause")
    bench.abort_request()
    bench.say("look left", when_busy="steer")
    bench.control("resume")
    assert bench.story[2:] == ["end paused", "user look left"]
    assert (bench.phase, bench.row.status) == (Phase.REQUESTING, "running")


def test_pause_and_resume_before_the_request_ended_ask_again() -> None:
    bench = Bench().working()
    bench.control("pause")
    bench.control("resume")
    bench.abort_request()
    assert bench.phase is Phase.REQUESTING
    bench.reply("Fine.")
    assert (bench.story[2:], bench.queue) == (["assistant Fine.", "end finished"], [])


@pytest.mark.parametrize("kind", ["pause", "cancel", "resume"])
def test_an_order_for_no_run_changes_nothing_ever(kind: str) -> None:
    bench = Bench()
    bench.deliver(Message("void", kind, "user"))  # type: ignore[arg-type]
    bench.deliver(prompt("go"))
    bench.hint()
    assert (bench.phase, bench.queue) == (Phase.REQUESTING, [])
    bench.reply("Done.")
    assert bench.story == ["invoke prompt", "user go", "assistant Done.", "end finished"]


def test_an_order_aimed_at_a_run_that_is_over_does_not_touch_the_next() -> None:
    bench = Bench().working("one")
    bench.hold = True
    bench.reply("Done.")
    bench.say("two")
    bench.control("cancel")  # still aimed at the first run
    bench.hold = False
    bench.commit()
    bench.reply("Done too.")
    assert [s for s in bench.story if s.startswith("end")] == ["end finished", "end finished"]
    assert bench.queue == []


def test_a_cancel_is_not_lost_to_the_event_that_ends_the_wait() -> None:
    bench = Bench().waiting("c1")
    bench.deliver(Message("stop it", "cancel", "user"))
    bench.event("c1", 9)
    bench.hint()
    assert bench.story[5:7] == ["results WaitForPods=ok", "end waiting_on_children"]
    assert bench.story[7] == "end cancelled"


@pytest.mark.parametrize("make", ["working", "calling", "waiting", "paused", "idle"])
def test_stop_ends_the_pod_wherever_it_is(make: str) -> None:
    bench = Bench(parent=True)
    match make:
        case "working":
            bench.working()
        case "calling":
            bench.calling(call("Act"), call("Look"))
        case "waiting":
            bench.waiting("c1")
        case "paused":
            bench.working()
            bench.control("pause")
            bench.abort_request()
        case _:
            pass
    bench.control("stop", reason="enough")
    if bench.phase is Phase.REQUESTING:
        bench.abort_request("Half")
    for index in bench.running if bench.phase is Phase.CALLING else ():
        bench.finish(index)
    assert bench.phase is Phase.GONE
    assert bench.story[-1] == "pod_end"
    assert (bench.row.status, bench.row.open, bench.queue) == ("ended", False, [])
    assert bench.told == [("shut_down", "stopped")]
    assert bench.machine.state.history.open_message is None
    ends = [s for s in bench.story if s.startswith("end")]
    assert ends[-1:] == ([] if make == "idle" else ["end stopped"])


def test_stop_gives_the_queue_back() -> None:
    bench = Bench().working()
    bench.say("queued")
    bench.control("stop")
    bench.abort_request()
    assert bench.story[2:] == ["end stopped", "withdrawn queued", "pod_end"]


def test_a_pod_that_was_stopped_while_nobody_owned_it_ends_when_it_is_opened() -> None:
    bench = Bench().working()
    bench.deliver(Message("s", "stop", "user"))
    bench.reopen()
    assert bench.story[-2:] == ["end stopped", "pod_end"]
    assert (bench.phase, bench.request) == (Phase.GONE, None)


@pytest.mark.parametrize(
    ("sender", "body", "wake"),
    [(PARENT, {}, False), ("user", {}, True), ("user", {"cascade": True}, False)],
)
def test_a_shut_down_that_the_parent_ordered_wakes_nobody(sender: str, body: dict[str, bool], wake: bool) -> None:
    bench = Bench(parent=True)
    bench.control("stop", sender, **body)
    assert [m.wake for m in bench.told_messages] == [wake]


def test_L03_a_cancel_from_above_ends_a_finished_run_whose_children_are_at_work() -> None:
    bench = Bench(parent=True).spawned("g1", sender=PARENT)
    bench.reply("The rest comes.")
    assert bench.row.open
    bench.reopen()
    bench.control("cancel", PARENT, cascade=True)
    assert bench.story[-2:] == ["end finished", "end cancelled"]
    assert (bench.row.open, bench.queue) == (False, [])
    assert [(e["outcome"], e["open_children"]) for e in bench.told_events] == [("finished", 1), ("cancelled", 0)]
    assert [m.wake for m in bench.told_messages] == [True, False]


def test_L03_a_cancel_from_above_withdraws_what_the_parent_had_queued() -> None:
    bench = Bench(parent=True).working(sender=PARENT)
    bench.say("then this", PARENT)
    bench.say("mine")
    bench.control("cancel", PARENT, cascade=True)
    bench.abort_request("x")
    assert bench.story[3:] == ["end cancelled", "withdrawn then this", "invoke prompt", "user mine"]
    assert bench.told == [("turn_ended", "cancelled"), ("turn_ended", "withdrawn")]


def test_the_clock_of_a_run_stands_still_while_it_is_paused() -> None:
    bench = Bench(limits=RunLimits(seconds=10))
    bench.working()
    bench.now += 4_000
    bench.control("pause")
    bench.abort_request()
    assert "ClearDeadline" in bench.said
    bench.now += 3_600_000
    bench.control("resume")
    bench.reply(call("Act"), stop="tool_calls")
    deadline = next(i for i in bench.out if type(i).__name__ == "SetDeadline")
    assert deadline.at_ms == bench.now + 6_000  # type: ignore[union-attr]


def test_Q09_T03_a_run_made_elsewhere_can_be_cancelled_while_paused() -> None:
    log = (
        Invoke("r", "prompt", (Served("m", "user"),)),
        UserInput((Segment("text", "go"),), "m", "user"),
        RunEnd("r", "paused"),
    )
    bench = Bench(log=log)
    bench.control("cancel")
    assert bench.story[-1] == "end cancelled"
