"""The store that cannot commit, the store that refuses, and the log from a bad day."""

from __future__ import annotations

import pytest

from actors.pod import stimuli as st
from actors.pod.transitions import Phase
from actors.pod.turn import MAX_STALLS
from actors.protocol.tools import ToolOutcome
from session_store.entries import AssistantItems, Invoke, RunEnd, Served, ToolResults, UserInput
from session_store.items import Segment, Text, ToolCall, ToolResult, ToolResultGroup
from session_store.messages import Message
from session_store.requests import Open
from tests.unit.pod.bench import POD, Bench, call, prompt

INTERRUPTED = ToolOutcome("interrupted", "Interrupted.")


def stalled(bench: Bench) -> Bench:
    bench.hold = True
    return bench


def test_S04_a_reply_that_cannot_be_committed_runs_no_tool_and_ends_with_a_visible_error() -> None:
    bench = stalled(Bench().working())
    bench.reply(call("Act"), stop="tool_calls")
    assert [type(i).__name__ for i in bench.fail_append()] == ["RaiseAlert", "RetryLater"]
    assert (bench.phase, bench.running, bench.machine.state.history.open_message) == (Phase.STALLED, (), None)
    bench.hold = False
    bench.feed(st.RetryDue())
    assert bench.story == ["invoke prompt", "user go", "end errored (store_unavailable)"]
    bench.say("there is space again")
    bench.reply("Good.")
    assert bench.story[-1] == "end finished"


def test_S04_waits_grow_and_the_pod_gives_up_at_last() -> None:
    bench = stalled(Bench().working())
    bench.reply("Done.")
    waits = []
    for _ in range(MAX_STALLS):
        bench.fail_append()
        waits.append(next(i.seconds for i in bench.out if type(i).__name__ == "RetryLater"))  # type: ignore[union-attr]
        bench.feed(st.RetryDue())
    assert waits[:4] == [0.25, 0.5, 1.0, 2.0]
    assert waits == sorted(waits)
    assert waits[-1] == 30.0
    assert bench.fail_append()[-1].reason == "store"  # type: ignore[union-attr]
    assert bench.phase is Phase.GONE


def test_S04_a_prompt_whose_run_could_not_begin_is_tried_again() -> None:
    bench = stalled(Bench())
    bench.say("go")
    bench.fail_append()
    bench.hold = False
    bench.feed(st.RetryDue())
    assert (bench.phase, bench.story) == (Phase.REQUESTING, ["invoke prompt", "user go"])


def test_results_whose_commit_failed_are_kept_and_their_calls_not_run_again() -> None:
    bench = stalled(Bench().calling(call("Act"), call("Act", "b")))
    bench.finish(0)
    bench.fail_append()
    assert "AbortCalls" in bench.said
    bench.hold = False
    bench.feed(st.RetryDue())
    assert bench.phase is Phase.STALLED  # a call still runs: its answer comes first
    bench.finish(1, outcome=INTERRUPTED)
    bench.feed(st.RetryDue())
    assert bench.story[3:] == ["results Act=ok Act=interrupted", "end errored (store_unavailable)"]
    assert bench.running == ()


@pytest.mark.parametrize(("order", "end"), [("cancel", "end cancelled"), ("pause", "end errored (store_unavailable)")])
def test_an_order_given_during_a_stall_never_starts_the_calls_again(order: str, end: str) -> None:
    bench = stalled(Bench().calling(call("Act")))
    bench.finish(0)
    bench.fail_append()
    bench.control(order)
    bench.hold = False
    bench.feed(st.RetryDue())
    assert bench.story[3:] == ["results Act=ok", end]
    assert bench.running == ()


def test_a_stop_given_during_a_stall_ends_the_pod() -> None:
    bench = stalled(Bench().working())
    bench.reply("Done.")
    bench.fail_append()
    bench.control("stop")
    bench.hold = False
    bench.feed(st.RetryDue())
    assert bench.story[2:] == ["end stopped", "pod_end"]


def test_S07_an_old_incarnation_is_refused_and_ends_its_tools_first() -> None:
    bench = Bench().calling(call("Act"), call("Act", "b"))
    bench.store.execute(Open(POD, bench.directory))
    before = bench.story
    bench.finish(0)
    assert [type(i).__name__ for i in bench.out if type(i).__name__ != "Append"] == ["AbortCalls", "Quit"]
    assert (bench.phase, bench.story) == (Phase.GONE, before)
    assert bench.finish(1, outcome=INTERRUPTED) == []


@pytest.mark.parametrize("code", ["stale_epoch", "head_moved", "condition_failed", "store_damaged"])
def test_every_refusal_of_an_append_ends_the_incarnation(code: str) -> None:
    bench = stalled(Bench().calling(call("Act"), call("Act", "b")))
    bench.finish(0)
    out = bench.feed(st.AppendRefused(bench.take_flight().batch_id, code, "no"))
    assert [type(i).__name__ for i in out] == ["AbortCalls", "Quit"]
    assert out[-1].reason == "fenced"  # type: ignore[union-attr]


@pytest.mark.parametrize("where", ["new", "resting", "requesting", "calling", "committing", "stalled", "releasing"])
def test_a_lost_lease_ends_everything_at_once(where: str) -> None:
    bench = Bench(opened=where != "new")
    match where:
        case "requesting":
            bench.working()
        case "calling":
            bench.calling(call("Act"))
        case "committing":
            stalled(bench).say("go")
        case "stalled":
            stalled(bench).say("go")
            bench.fail_append()
        case "releasing":
            bench.feed(st.ParkingAsked())
        case _:
            pass
    bench.flight = None
    assert bench.phase == where
    out = [type(i).__name__ for i in bench.feed(st.LeaseLost("superseded"))]
    aborts = {"requesting": ["AbortRequest"], "calling": ["AbortCalls"]}
    assert out == [*aborts.get(where, []), "Quit"]
    assert bench.feed(st.MessagesArrived(())) == []


def test_S09_an_append_committed_without_an_answer_is_never_written_twice() -> None:
    bench = stalled(Bench().working())
    bench.reply("Done.")
    flight = bench.flight
    bench.commit_unheard()
    bench.flight = flight
    bench.fail_append()
    bench.hold = False
    bench.feed(st.RetryDue())
    assert bench.phase is Phase.GONE  # refused: the log has moved on
    bench.reopen()
    assert bench.story == ["invoke prompt", "user go", "assistant Done.", "end finished"]


BAD_DAY = (
    Invoke("r", "prompt", (Served("m", "user"),)),
    UserInput((Segment("text", "go"),), "m", "user"),
    AssistantItems("q", (Text("Let me."), ToolCall("a", "Act", {}), ToolCall("b", "Look", {}))),
)


def test_M04_a_call_without_a_result_is_answered_before_the_next_request() -> None:
    stray = ToolResults((ToolResult(99, 0, "zzz", "Act", "ok", "From nowhere."),))
    bench = Bench(log=(*BAD_DAY, RunEnd("r", "finished"), stray))
    bench.say("next")
    items = bench.machine.state.history.items
    assert [type(i).__name__ for i in items] == [
        *("UserMessage", "AssistantMessage", "ToolResultGroup", "UserMessage"),
    ]
    group = items[2]
    assert isinstance(group, ToolResultGroup)
    assert [(r.call_id, r.status) for r in group.results] == [("a", "interrupted"), ("b", "interrupted")]


def test_M04_a_paused_run_with_open_calls_closes_them_before_it_goes_on() -> None:
    bench = Bench(log=(*BAD_DAY, RunEnd("r", "paused")))
    bench.control("resume")
    assert bench.story[4:] == ["results Act=interrupted"]
    assert bench.running == (1,)
    bench.finish(1)
    assert bench.phase is Phase.REQUESTING


def test_S08_an_annotation_refuses_no_append() -> None:
    bench = stalled(Bench().working())
    bench.reply("Done.")
    bench.annotate()
    bench.hold = False
    bench.commit()
    assert (bench.phase, bench.story[-1]) == (Phase.RESTING, "end finished")
    bench.say("next")
    assert bench.phase is Phase.REQUESTING


def test_a_release_refused_with_nothing_new_is_rest_again() -> None:
    bench = Bench()
    bench.feed(st.ParkingAsked())
    assert [type(i).__name__ for i in bench.feed(st.ReleaseRefused(False))] == ["Rest"]
    bench.feed(st.ParkingAsked())
    assert bench.feed(st.ReleaseRefused(True))[-1].reason == "fenced"  # type: ignore[union-attr]


def test_L03_a_parked_pod_is_wanted_to_pass_a_cancel_on() -> None:
    bench = Bench(parent=True).spawned("g1", sender="parent-1")
    bench.reply("The rest comes.")
    assert bench.wanted() is False
    bench.deliver(Message("c", "cancel", "parent-1", {"cascade": True}))
    assert bench.wanted() is True
    bench.reopen()
    assert (bench.wanted(), bench.story[-1]) == (False, "end cancelled")


def test_messages_seen_again_after_they_were_consumed_are_ignored() -> None:
    bench = Bench()
    bench.deliver(prompt("go"))
    late = bench.pending()
    bench.hint()
    bench.feed(st.MessagesArrived(late))
    bench.reply("Done.")
    assert (bench.phase, bench.story[-1]) == (Phase.RESTING, "end finished")
