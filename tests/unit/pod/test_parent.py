"""What reaches the parent (DESIGN §4): the table, and that it is told once, with the entry it tells of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.pod.endings import EVENT_TEXT_LIMIT
from actors.protocol.config import RunLimits
from actors.protocol.tools import ToolOutcome
from session_store.entries import RunEnd
from tests.unit.pod.bench import PARENT, POD, Bench, call

Told = list[tuple[str, str | None]]


def finish(bench: Bench) -> None:
    bench.reply("The answer.")


def limit(bench: Bench) -> None:
    for _ in range(2):
        bench.reply(call("Look"), stop="tool_calls")
        bench.finish(0)


def cancel(bench: Bench) -> None:
    bench.control("cancel")
    bench.abort_request("Half")


def withdraw(bench: Bench) -> None:
    bench.control("cancel")
    bench.abort_request()


def pause(bench: Bench) -> None:
    bench.control("pause")
    bench.abort_request()


def stop(bench: Bench) -> None:
    bench.control("stop")
    bench.abort_request()


def fail(bench: Bench) -> None:
    bench.fail_request()


def wait(bench: Bench) -> None:
    bench.reply(call("WaitForPods"), stop="tool_calls")
    bench.finish(0, outcome=ToolOutcome("ok", "", None, {"awaiting": ["g1"], "mode": "all"}))


ENDS: list[tuple[Callable[[Bench], None], Told, bool]] = [
    (finish, [("turn_ended", "finished")], False),
    (limit, [("turn_ended", "limit_reached")], False),
    (cancel, [("turn_ended", "cancelled")], False),
    (withdraw, [("turn_ended", "withdrawn")], False),
    (pause, [("turn_ended", "paused")], True),
    (stop, [("shut_down", "stopped")], False),
    (fail, [("errored", "errored")], False),
    (wait, [], True),
]


@pytest.mark.parametrize(("end", "told", "still_open"), ENDS, ids=lambda v: getattr(v, "__name__", ""))
def test_E09_the_end_of_the_parents_work_is_told_once_by_its_kind(
    end: Callable[[Bench], None], told: Told, still_open: bool
) -> None:
    bench = Bench(parent=True, limits=RunLimits(requests=2)).working(sender=PARENT)
    end(bench)
    assert bench.told == told
    assert bench.row.open is still_open
    bench.reopen()
    assert bench.told == told


@pytest.mark.parametrize(("end", "told", "still_open"), ENDS, ids=lambda v: getattr(v, "__name__", ""))
def test_E07_the_end_of_other_work_is_not_told_but_a_stop_is(
    end: Callable[[Bench], None], told: Told, still_open: bool
) -> None:
    bench = Bench(parent=True, limits=RunLimits(requests=2)).working(sender="user")
    end(bench)
    assert bench.told == [e for e in told if e[0] == "shut_down"]


def test_an_event_tells_of_the_entry_it_was_committed_with() -> None:
    bench = Bench(parent=True).working(sender=PARENT)
    finish(bench)
    end = bench.entries[-1]
    assert isinstance(end, RunEnd)
    assert bench.told_events == [
        {
            "kind": "turn_ended",
            "event_id": f"{POD}:{end.seq}",
            "pod_id": POD,
            "pod_name": "worker",
            "generation": 1,
            "outcome": "finished",
            "text": "The answer.",
            "open_children": 0,
        }
    ]


def test_a_very_long_answer_is_told_in_part() -> None:
    bench = Bench(parent=True).working(sender=PARENT)
    bench.reply("x" * (EVENT_TEXT_LIMIT + 7))
    text = bench.told_events[0]["text"]
    assert text.startswith("x" * EVENT_TEXT_LIMIT + "\n[… 7 more characters")


def test_a_cancelled_run_tells_its_last_words() -> None:
    bench = Bench(parent=True).working(sender=PARENT)
    cancel(bench)
    assert bench.told_events[0]["text"] == "Half"


def test_a_cancel_from_above_is_told_without_waking() -> None:
    bench = Bench(parent=True).working(sender=PARENT)
    bench.control("cancel", PARENT, cascade=True)
    bench.abort_request("Half")
    assert [m.wake for m in bench.told_messages] == [False]


def test_a_steering_message_of_the_parent_makes_the_run_its_work() -> None:
    bench = Bench(parent=True).working()
    bench.say("faster", PARENT, when_busy="steer")
    bench.reply(call("Look"), stop="tool_calls")
    bench.finish(0)
    finish(bench)
    assert bench.told == [("turn_ended", "finished")]


def test_children_spawned_before_the_parents_steering_message_are_its_work_too() -> None:
    bench = Bench(parent=True).spawned("g1")
    bench.say("faster", PARENT, when_busy="steer")
    bench.reply(call("Look"), stop="tool_calls")
    bench.finish(0)
    finish(bench)
    assert bench.told_events[0]["open_children"] == 1


def test_E08_an_end_with_children_at_work_says_so_and_the_conclusion_is_told_too() -> None:
    bench = Bench(parent=True).spawned("g1", sender=PARENT)
    finish(bench)
    assert bench.row.open
    bench.event("g1", 9)
    bench.hint()
    bench.reply("All done.")
    assert [(e["outcome"], e["open_children"]) for e in bench.told_events] == [("finished", 1), ("finished", 0)]
    assert not bench.row.open


@pytest.mark.parametrize(("detached", "still_open"), [(True, 0), (False, 1)])
def test_detached_children_do_not_keep_their_parent_open(detached: bool, still_open: int) -> None:
    bench = Bench(parent=True).spawned("g1", sender=PARENT, detached=detached)
    finish(bench)
    assert bench.told_events[0]["open_children"] == still_open


def test_the_child_of_other_work_does_not_make_its_event_the_parents_work() -> None:
    bench = Bench(parent=True).spawned("g1")
    finish(bench)
    bench.event("g1", 9)
    bench.hint()
    finish(bench)
    assert bench.told == []


@pytest.mark.parametrize("by", ["event", "person"])
def test_the_run_after_a_wait_goes_on_with_the_parents_work(by: str) -> None:
    """Also when the awaited child was spawned for somebody else: nobody else would tell the parent."""
    bench = Bench(parent=True).spawned("g1")
    finish(bench)
    bench.working("wait for it", PARENT)
    wait(bench)
    if by == "event":
        bench.event("g1", 9)
        bench.hint()
    else:
        bench.say("never mind them")
    finish(bench)
    assert bench.told == [("turn_ended", "finished")]


def test_a_resumed_run_is_the_parents_work_if_the_one_before_was() -> None:
    bench = Bench(parent=True).spawned("g1", sender=PARENT)
    finish(bench)
    bench.event("g1", 9)
    bench.hint()
    fail(bench)  # this run served an event, not a message of the parent
    bench.control("resume")
    finish(bench)
    assert bench.told == [("turn_ended", "finished"), ("errored", "errored"), ("turn_ended", "finished")]


def test_somebody_elses_run_does_not_give_the_place_back_while_the_parents_children_work() -> None:
    bench = Bench(parent=True).spawned("g1", sender=PARENT)
    finish(bench)
    bench.working("mine", "user")
    fail(bench)
    assert (bench.told, bench.row.open) == ([("turn_ended", "finished")], True)


def test_cancelling_somebody_elses_run_ends_the_parents_children_and_is_told() -> None:
    bench = Bench(parent=True).spawned("g1", sender=PARENT)
    finish(bench)
    bench.working("mine", "user")
    cancel(bench)
    assert bench.told == [("turn_ended", "finished"), ("turn_ended", "cancelled")]
    assert (bench.row.open, bench.machine.state.facts.open_children) == (False, 0)


def test_a_child_cancelled_with_its_parent_does_not_keep_the_next_run_open() -> None:
    bench = Bench(parent=True).spawned("g1", sender=PARENT)
    cancel(bench)
    bench.working("next", PARENT)  # before g1, cancelled with wake=false, has told its end
    finish(bench)
    assert [e["open_children"] for e in bench.told_events] == [0, 0]


def test_a_queued_message_of_the_parent_that_is_withdrawn_is_told() -> None:
    bench = Bench(parent=True).working()
    bench.say("later", PARENT)
    bench.control("cancel", clear_queue=True)
    bench.abort_request("x")
    assert bench.told == [("turn_ended", "withdrawn")]


def test_a_place_is_kept_while_a_prompt_waits() -> None:
    bench = Bench(parent=True).working(sender=PARENT)
    bench.say("then this", PARENT)
    bench.hold = True
    finish(bench)
    bench.commit()
    assert bench.row.open
    bench.hold = False
    bench.commit()
    finish(bench)
    assert not bench.row.open
    assert bench.told == [("turn_ended", "finished")] * 2


def test_a_root_tells_nobody() -> None:
    bench = Bench().working()
    bench.hold = True
    bench.reply("Done.")
    assert bench.flight is not None
    assert bench.flight.deliveries == ()


def test_once_the_parents_work_has_failed_another_run_gives_the_place_back_whatever_the_children_do() -> None:
    bench = Bench(parent=True).spawned("g1", sender=PARENT)
    fail(bench)
    assert not bench.row.open
    bench.working("mine", "user")  # takes the place again
    finish(bench)
    assert (bench.told, bench.row.open) == ([("errored", "errored")], False)


def test_a_child_that_is_heard_after_the_parents_work_has_failed_opens_that_work_no_more() -> None:
    """Its run is told on, but another child, whose end wakes nobody, must not keep the place for ever."""
    bench = Bench(parent=True).spawned("g1", "g2", sender=PARENT)
    fail(bench)
    bench.event("g1", 9)
    bench.working("mine", "user")  # takes the place again
    finish(bench)
    assert (bench.told, bench.row.open) == ([("errored", "errored"), ("turn_ended", "finished")], False)


def test_the_cancel_of_a_run_that_hears_a_child_of_failed_work_is_told() -> None:
    bench = Bench(parent=True).spawned("g1", sender=PARENT)
    fail(bench)
    bench.event("g1", 9)
    bench.hint()
    cancel(bench)
    assert bench.told == [("errored", "errored"), ("turn_ended", "cancelled")]
