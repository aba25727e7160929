"""Law 6: every call of a reply is answered once, in call order, before the next request."""

from __future__ import annotations

import pytest

from actors.pod.transitions import Phase
from actors.protocol.tools import ToolOutcome
from session_store.items import ToolCall, ToolResultGroup
from tests.unit.pod.bench import Bench, call, prompt

ERROR = ToolOutcome("error", "It failed.")
DENIED = ToolOutcome("denied", "Not allowed.")


def group(bench: Bench) -> list[tuple[int, str, str]]:
    """The last results as a request shows them: (index, call id, status)."""
    shown = next(i for i in reversed(bench.machine.state.history.items) if isinstance(i, ToolResultGroup))
    return [(r.index, r.call_id, r.status) for r in shown.results]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_parallel_calls_are_committed_as_they_finish_and_shown_in_call_order(order: tuple[int, ...]) -> None:
    bench = Bench().calling(call("Look"), call("Act"), call("Look", "again"))
    for n, index in enumerate(order):
        bench.finish(index)
        assert len([s for s in bench.story if s.startswith("results")]) == n + 1
    assert group(bench) == [(0, "Look", "ok"), (1, "Act", "ok"), (2, "again", "ok")]
    assert bench.phase is Phase.REQUESTING


def test_results_that_finish_during_a_commit_go_in_the_next_one() -> None:
    bench = Bench().calling(call("Look"), call("Act"), call("Look", "again"))
    bench.hold = True
    bench.finish(1)
    bench.finish(2)
    bench.finish(0)
    bench.hold = False
    bench.commit()
    assert bench.story[3:] == ["results Act=ok", "results Look=ok Look=ok"]
    assert group(bench) == [(0, "Look", "ok"), (1, "Act", "ok"), (2, "again", "ok")]


def test_M02_M05_unknown_unparsable_and_denied_calls_are_answered_and_siblings_run() -> None:
    garbled = ToolCall("g", "Act", None, '{"path":"/a', "the arguments end early")
    bench = Bench().calling(garbled, call("Nope"), call("Act"))
    assert bench.running == (0, 1, 2)  # the toolbox answers all of them; none is run with guessed arguments
    bench.finish(0, outcome=DENIED)
    bench.finish(1, outcome=ERROR)
    bench.finish(2)
    assert group(bench) == [(0, "g", "denied"), (1, "Nope", "error"), (2, "Act", "ok")]


def test_M03_two_calls_with_one_id_have_a_result_each() -> None:
    bench = Bench().calling(call("Act", "same"), call("Look", "same"))
    bench.finish(1, outcome=ERROR)
    bench.finish(0)
    assert group(bench) == [(0, "same", "ok"), (1, "same", "error")]


def test_a_call_reported_twice_is_answered_once() -> None:
    bench = Bench().calling(call("Act"), call("Look"))
    bench.finish(0)
    head = bench.row.head
    assert bench.finish(0, outcome=ERROR) == []
    assert bench.row.head == head
    bench.finish(1)
    assert group(bench) == [(0, "Act", "ok"), (1, "Look", "ok")]


def test_wait_for_pods_is_looked_at_after_the_other_calls() -> None:
    bench = Bench().calling(call("WaitForPods"), call("Act"), call("SpawnPod"))
    assert bench.running == (1, 2)
    bench.finish(1)
    bench.finish(2)
    assert bench.running == (0,)
    bench.finish(0)
    assert group(bench) == [(0, "WaitForPods", "ok"), (1, "Act", "ok"), (2, "SpawnPod", "ok")]


def test_S05_after_a_kill_what_may_not_run_again_is_closed_and_the_rest_runs() -> None:
    bench = Bench().calling(call("Act"), call("Look"), call("Act", "second"))
    bench.finish(2)
    bench.reopen()
    assert bench.story[3:] == ["results Act=ok", "results Act=interrupted"]
    assert bench.running == (1,)
    bench.finish(1)
    assert group(bench) == [(0, "Act", "interrupted"), (1, "Look", "ok"), (2, "second", "ok")]


def test_S05_the_interrupted_result_stands_before_the_new_prompt() -> None:
    bench = Bench().calling(call("Act"))
    bench.deliver(prompt("what happened?"))
    bench.reopen()
    bench.reply("I was cut off.")
    assert bench.story[3:6] == ["results Act=interrupted", "assistant I was cut off.", "end finished"]
    assert bench.story[6:] == ["invoke prompt", "user what happened?"]
    assert bench.running == ()


def test_T04_what_finished_is_kept_and_the_rest_is_interrupted_in_call_order() -> None:
    bench = Bench().calling(call("Act"), call("Act", "b"), call("Look", "c"))
    bench.finish(1)
    assert bench.control("cancel")[0].__class__.__name__ == "AbortCalls"
    interrupted = ToolOutcome("interrupted", "Interrupted.")
    bench.finish(2, outcome=interrupted)
    assert bench.phase is Phase.CALLING
    bench.finish(0, outcome=interrupted)
    assert bench.story[3:] == ["results Act=ok", "results Act=interrupted Look=interrupted", "end cancelled"]
    bench.notify("news")
    assert bench.running == ()
    assert group(bench) == [(0, "Act", "interrupted"), (1, "b", "ok"), (2, "c", "interrupted")]


def test_a_call_that_finished_before_it_could_be_aborted_keeps_its_result() -> None:
    bench = Bench().calling(call("Act"))
    bench.control("cancel")
    bench.finish(0)
    assert bench.story[3:] == ["results Act=ok", "end cancelled"]


def test_a_stage_that_never_began_is_closed_as_interrupted() -> None:
    bench = Bench().calling(call("Act"), call("WaitForPods"))
    bench.control("cancel")
    bench.finish(0, outcome=ToolOutcome("interrupted", "Interrupted."))
    assert bench.story[3:] == ["results Act=interrupted WaitForPods=interrupted", "end cancelled"]


def test_calls_in_a_reply_that_comes_after_the_cancel_are_kept_and_not_run() -> None:
    bench = Bench().working()
    bench.control("cancel")
    bench.reply("I will.", call("Act"), stop="tool_calls")
    assert bench.running == ()
    assert bench.story[2:] == ["assistant I will. <Act>", "results Act=interrupted", "end cancelled"]
