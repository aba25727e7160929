"""One run from its message to its rest, and what may come in while it goes on."""

from __future__ import annotations

import pytest

from actors.pod import stimuli as st
from actors.pod.transitions import Phase
from session_store.codec import pack, to_plain
from session_store.errors import ConditionFailed
from session_store.messages import Message
from session_store.requests import Deliver, Expect
from tests.unit.pod.bench import POD, Bench, call, prompt


def test_a_run_is_invoke_input_reply_end() -> None:
    bench = Bench()
    assert bench.said == ["Rest"]
    assert bench.say("hello")[-1].number == 1  # type: ignore[union-attr]
    bench.reply("Hi.")
    assert bench.story == ["invoke prompt", "user hello", "assistant Hi.", "end finished"]
    assert (bench.phase, bench.row.status, bench.queue) == (Phase.RESTING, "idle", [])


def test_notices_come_before_pod_events_each_in_order_of_arrival() -> None:
    bench = Bench()
    bench.working()
    bench.event("c1", 5)
    bench.notify("n1", wake=False)
    bench.event("c2", 3)
    bench.notify("n2")
    bench.reply(call("Look"), stop="tool_calls")
    bench.finish(0)
    assert bench.story[-5:] == [
        "results Look=ok",
        "notification n1",
        "notification n2",
        "pod_event c1:5",
        "pod_event c2:3",
    ]
    assert bench.phase is Phase.REQUESTING


def test_E11_a_notice_between_two_requests_is_committed_at_the_end_of_history() -> None:
    bench = Bench().working()
    before = [pack(to_plain(i)) for i in bench.machine.state.history.items]
    bench.notify("news")
    bench.reply(call("Look"), stop="tool_calls")
    bench.finish(0)
    after = [pack(to_plain(i)) for i in bench.machine.state.history.items]
    assert after[: len(before)] == before
    assert bench.machine.state.history.items[-1].item.body == "<notification>\nnews\n</notification>"  # type: ignore[union-attr]


def test_a_notice_that_no_request_follows_starts_the_next_run() -> None:
    bench = Bench().working()
    bench.notify("late")
    bench.reply("Done.")
    assert bench.story[3:] == ["end finished", "invoke notify", "notification late"]
    assert bench.phase is Phase.REQUESTING


def test_T06_each_of_many_prompts_is_answered_in_its_own_turn() -> None:
    bench = Bench()
    for n in range(20):
        bench.deliver(prompt(f"p{n}"))
    bench.hint()
    for n in range(20):
        bench.reply(f"r{n}")
    told = [s for s in bench.story if s.startswith(("user", "assistant"))]
    assert told == [s for n in range(20) for s in (f"user p{n}", f"assistant r{n}")]


@pytest.mark.parametrize(
    ("when_busy", "after_reply"),
    [
        ("queue", ["assistant A", "end finished", "invoke prompt", "user more"]),
        ("steer", ["assistant A", "user more"]),
    ],
)
def test_a_prompt_meets_a_running_run(when_busy: str, after_reply: list[str]) -> None:
    bench = Bench().working()
    bench.say("more", when_busy=when_busy)
    assert bench.phase is Phase.REQUESTING
    bench.reply("A")
    assert bench.story[2:] == after_reply
    assert bench.phase is Phase.REQUESTING


def test_a_steering_prompt_goes_in_after_the_tool_results() -> None:
    bench = Bench().calling(call("Look"))
    bench.say("more", when_busy="steer")
    bench.finish(0)
    assert bench.story[-2:] == ["results Look=ok", "user more"]


def test_an_interrupting_prompt_ends_the_run_and_goes_before_the_queue() -> None:
    bench = Bench().working()
    bench.say("queued")
    assert [type(i).__name__ for i in bench.say("now", when_busy="interrupt")] == ["AbortRequest"]
    bench.abort_request("Half a sen")
    assert bench.story[2:] == ["assistant Half a sen", "end cancelled", "invoke prompt", "user now"]
    bench.reply("Yes?")
    assert bench.story[-2:] == ["invoke prompt", "user queued"]


def test_an_interrupt_never_withdraws() -> None:
    bench = Bench().working()
    bench.say("now", when_busy="interrupt")
    bench.abort_request()
    assert bench.story[:3] == ["invoke prompt", "user go", "end cancelled"]
    assert len(bench.machine.state.history.items) == 2


def test_reject_is_refused_by_the_store_and_leaves_no_trace() -> None:
    bench = Bench().working()
    before = bench.row
    with pytest.raises(ConditionFailed) as refused:
        bench.store.execute(Deliver(POD, prompt("busy?"), Expect("not_busy")))
    assert (refused.value.reason, bench.row, bench.queue) == ("busy", before, [])


def test_E06_a_message_seen_twice_is_committed_once() -> None:
    bench = Bench().working()
    bench.event("c1", 5)
    for _ in range(3):
        bench.event("c1", 5)
        bench.hint()
    bench.reply("Done.")
    bench.reply("Thanks.")
    assert bench.story.count("pod_event c1:5") == 1
    assert bench.phase is Phase.RESTING


def test_E02_an_event_that_lands_while_the_pod_goes_to_rest_wakes_it() -> None:
    bench = Bench().working()
    bench.hold = True
    bench.reply("Done.")
    bench.event("c1", 5)  # no hint: only the reply to the append tells of it
    bench.commit()
    assert bench.flight is not None
    bench.hold = False
    bench.commit()
    assert bench.story[3:] == ["end finished", "invoke pod_event", "pod_event c1:5"]


def test_E03_killed_before_the_commit_the_event_is_still_there() -> None:
    bench = Bench()
    bench.hold = True
    bench.event("c1", 5)
    bench.hint()
    assert bench.flight is not None
    bench.reopen()
    assert bench.queue == ["c1:5"]
    bench.hold = False
    bench.commit()
    assert bench.story.count("pod_event c1:5") == 1


def test_E05_a_late_event_of_a_stopped_child_is_stale_and_wakes_nobody() -> None:
    bench = Bench()
    bench.event("c1", 9, kind="shut_down", outcome="stopped")
    bench.hint()
    bench.reply("I see.")
    bench.event("c1", 5)
    bench.hint()
    assert bench.phase is Phase.RESTING
    assert bench.queue == ["c1:5"]
    bench.say("and?")
    assert "pod_event c1:5 stale" in bench.story


def test_E01_twenty_events_at_random_moments_are_all_there_once() -> None:
    bench = Bench().working()
    for n in range(20):
        bench.event(f"c{n}", 3)
        if n % 3 == 0:
            bench.hint()
        if n % 5 == 0:
            bench.reply(call("Look"), stop="tool_calls")
            bench.finish(0)
    bench.reply("Done.")
    while bench.phase is Phase.REQUESTING:
        bench.reply("Read.")
    events = [s for s in bench.story if s.startswith("pod_event")]
    assert len(events) == len(set(events)) == 20
    assert bench.queue == []


def test_an_errored_run_goes_on_by_resume_with_what_it_served() -> None:
    bench = Bench(parent=True).working(sender="parent-1")
    bench.fail_request()
    assert bench.row.status == "errored"
    bench.control("resume")
    assert bench.story[-1] == "invoke resume"
    bench.reply("Now it went well.")
    assert bench.told == [("errored", "errored"), ("turn_ended", "finished")]


def test_L09_a_finished_run_is_not_run_again_after_a_restart() -> None:
    bench = Bench().working()
    bench.reply("Done.")
    bench.reopen()
    assert bench.said == ["Rest"]
    assert bench.story[-1] == "end finished"


def test_a_revived_run_goes_on_without_a_new_invoke() -> None:
    bench = Bench().working()
    bench.reopen()
    assert bench.phase is Phase.REQUESTING
    bench.reply("Here.")
    assert bench.story == ["invoke prompt", "user go", "assistant Here.", "end finished"]


def test_parking_gives_the_lease_up_and_a_message_in_time_takes_it_back() -> None:
    bench = Bench()
    assert [type(i).__name__ for i in bench.feed(st.ParkingAsked())] == ["Release"]
    bench.deliver(prompt("wait!"))
    bench.release()
    assert bench.phase is Phase.REQUESTING
    bench.reply("Yes.")
    bench.feed(st.ParkingAsked())
    assert bench.release()[-1].reason == "parked"  # type: ignore[union-attr]
    assert (bench.phase, bench.row.owned) == (Phase.GONE, False)


def test_E13_a_thousand_notices_in_one_turn_are_all_kept_and_no_event_is_lost_among_them() -> None:
    bench = Bench().working()
    for n in range(1000):
        bench.deliver(Message(f"n{n}", "notify", "user", {"message": f"news {n}"}))
        if n % 100 == 0:
            bench.event(f"c{n}", 1)
    bench.hint()
    bench.reply(call("Look"), stop="tool_calls")
    bench.checked = False  # comparing memory and log after each stimulus would take most of the time
    bench.finish(0)
    items = [text for text in bench.story if text.startswith(("notification", "pod_event"))]
    assert items == [*(f"notification n{n}" for n in range(1000)), *(f"pod_event c{n}:1" for n in range(0, 1000, 100))]
    assert (bench.phase, bench.queue) == (Phase.REQUESTING, [])
    bench.checked = True
    bench.reply("All read.")
    assert bench.story[-1] == "end finished"
