"""What bounds a run: limits, empty and broken replies, refusals, wakes."""

from __future__ import annotations

import pytest

from actors.pod.steps import MAX_BROKEN
from actors.pod.transitions import Phase
from actors.protocol.config import RunLimits
from session_store.items import Problem, Reasoning
from tests.unit.pod.bench import Bench, call


def test_T08_the_limit_counts_within_one_run_also_after_a_restore() -> None:
    bench = Bench(limits=RunLimits(requests=2))
    for turn in range(3):
        bench.say(f"turn {turn}")
        bench.reply(call("Look"), stop="tool_calls")
        bench.finish(0)
        if turn == 1:
            bench.reopen()
        bench.reply("Done on the last allowed request.")
        assert bench.story[-1] == "end finished"


def test_T08_one_request_more_than_the_limit_is_not_sent() -> None:
    bench = Bench(limits=RunLimits(requests=2)).working()
    for _ in range(2):
        bench.reply(call("Look"), stop="tool_calls")
        bench.finish(0)
    assert (bench.phase, bench.story[-1]) == (Phase.RESTING, "end limit_reached (requests)")


def test_the_token_limit_ends_the_run_before_the_next_request() -> None:
    bench = Bench(limits=RunLimits(tokens=100)).working()
    bench.reply(call("Look"), stop="tool_calls", tokens=96)
    bench.finish(0)
    assert bench.story[-1] == "end limit_reached (tokens)"


def test_the_time_limit_cuts_a_request_short_and_keeps_its_text() -> None:
    bench = Bench(limits=RunLimits(seconds=5)).working()
    assert "SetDeadline" in bench.said
    assert [type(i).__name__ for i in bench.late()] == ["AbortRequest"]
    bench.abort_request("So far")
    assert bench.story[2:] == ["assistant So far", "end limit_reached (seconds)"]


def test_the_time_limit_ends_running_calls() -> None:
    bench = Bench(limits=RunLimits(seconds=5)).calling(call("Act"))
    assert [type(i).__name__ for i in bench.late()] == ["AbortCalls"]
    bench.finish(0)
    assert bench.story[3:] == ["results Act=ok", "end limit_reached (seconds)"]


def test_a_deadline_of_an_earlier_run_means_nothing() -> None:
    bench = Bench(limits=RunLimits(seconds=5)).working()
    bench.reply("Done.")
    bench.late()
    assert bench.phase is Phase.RESTING
    bench.say("next")
    assert bench.phase is Phase.REQUESTING


def test_the_deadline_is_set_again_from_the_invoke_after_a_restart() -> None:
    bench = Bench(limits=RunLimits(seconds=5)).working()
    first = next(i for i in bench.out if type(i).__name__ == "SetDeadline")
    bench.now += 3_000
    bench.reopen()
    assert first in bench.out


def test_the_run_that_one_wake_too_many_started_ends_before_its_request() -> None:
    bench = Bench(max_wakes=2)
    for n in range(3):
        bench.event(f"c{n}", 2)
        bench.hint()
        if n < 2:
            bench.reply("Seen.")
    assert (bench.phase, bench.story[-1]) == (Phase.RESTING, "end limit_reached (wakes)")
    bench.say("a person again")
    bench.reply("Yes.")
    bench.event("c9", 2)
    bench.hint()
    assert bench.phase is Phase.REQUESTING


@pytest.mark.parametrize("items", [(), ("  \n",), (Reasoning("Hm."),)])
def test_T09_an_empty_reply_is_tried_again_within_bounds_then_an_error(items: tuple[object, ...]) -> None:
    bench = Bench().working()
    for _ in range(MAX_BROKEN):
        bench.reply(*items)  # type: ignore[arg-type]
        assert bench.phase is Phase.REQUESTING
    bench.reply(*items)  # type: ignore[arg-type]
    assert bench.story == ["invoke prompt", "user go", "end errored (empty_reply)"]
    assert bench.row.status == "errored"


def test_T09_a_real_reply_in_between_starts_the_count_again() -> None:
    bench = Bench().working()
    for _ in range(4):
        bench.reply()
        bench.reply(call("Look"), stop="tool_calls")
        bench.finish(0)
    assert bench.phase is Phase.REQUESTING


def test_M01_finished_text_of_a_broken_reply_is_kept_once_and_the_model_told() -> None:
    bench = Bench().working()
    bench.break_reply("I begin.")
    assert bench.story[2:3] == ["assistant I begin."]
    assert bench.story[3].startswith("interrupt ")
    bench.reply("And end.")
    assert bench.story[-2:] == ["assistant And end.", "end finished"]


def test_M01_M10_broken_replies_are_bounded() -> None:
    bench = Bench().working()
    for _ in range(MAX_BROKEN):
        bench.break_reply()
        assert bench.phase is Phase.REQUESTING
    bench.break_reply("last words")
    assert bench.story[-2:] == ["assistant last words", "end errored (broken_stream)"]


@pytest.mark.parametrize("error_type", ["auth", "bad_request", "timeout", "context_overflow"])
def test_a_request_that_failed_for_good_ends_the_run_with_its_type(error_type: str) -> None:
    bench = Bench().working()
    bench.fail_request(error_type)
    assert bench.story[-1] == f"end errored ({error_type})"
    bench.say("again")
    assert bench.phase is Phase.REQUESTING  # L07: it takes the next prompt


@pytest.mark.parametrize(
    ("stop", "end"),
    [
        ("end", "end finished"),
        ("tool_calls", "end finished"),
        ("length", "end limit_reached (output_tokens)"),
        ("refusal", "end errored (refused)"),
    ],
)
def test_each_stop_reason_has_one_outcome(stop: str, end: str) -> None:
    bench = Bench().working()
    bench.reply("Text", stop=stop)  # type: ignore[arg-type]
    assert bench.story[-2:] == ["assistant Text", end]


def test_a_provider_that_pauses_is_asked_to_go_on() -> None:
    bench = Bench().working()
    bench.reply("First", stop="pause")
    assert bench.phase is Phase.REQUESTING
    bench.reply("second")
    assert bench.story[2:] == ["assistant First", "assistant second", "end finished"]


def test_the_usage_of_an_empty_reply_is_counted() -> None:
    bench = Bench().working()
    bench.reply()
    assert (bench.row.requests, bench.row.input) == (1, 10)


def test_problems_are_data() -> None:
    bench = Bench().working()
    bench.fail_request("auth")
    assert bench.machine.state.fold.error == Problem("auth", "no")
