"""Compaction in the turn machine: when it is due, what is committed, and what becomes of attempts that fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.pod import instructions as do
from actors.pod import stimuli as st
from actors.pod.attempts import BREAKER
from actors.pod.transitions import Phase
from actors.protocol.config import CompactionRule
from actors.protocol.tasks import TaskList
from actors.protocol.tools import ToolOutcome
from session_store.entries import Extension, SegmentEnd, SegmentStart
from session_store.errors import ConditionFailed
from session_store.items import UserMessage
from session_store.messages import Message
from tests.support.planning import answer
from tests.unit.pod.bench import ASKED, PARENT, Bench, call, referring
from tests.unit.pod.test_permissions import asking, wants

RULE = CompactionRule(threshold=1_000, request_threshold=3_000, retained_tokens=100)
LONG = "x" * 1_650
"""About 500 tokens."""


def full(rule: CompactionRule = RULE, **more: Any) -> Bench:
    """A bench whose first run has just ended, with a history that is over the threshold: compaction has begun."""
    bench = Bench(compaction=rule, **more)
    bench.working(LONG).reply(LONG, tokens=1_500)
    assert (bench.phase, bench.said[-1]) == (Phase.FIXING, "FixExtraction")
    return bench


def segments(bench: Bench) -> list[SegmentStart]:
    return [e for e in bench.entries if isinstance(e, SegmentStart)]


def result(size: int) -> ToolOutcome:
    return ToolOutcome("ok", "Looked.", "y" * size)


# --- when ---


def test_extract_then_compact_then_the_new_segment_in_one_commit() -> None:
    bench = full()
    names = [type(i).__name__ for i in bench.out]
    assert names.index("OfferExtraction") < names.index("FixExtraction")
    assert bench.fixed()
    assert bench.said == ["RaiseAlert", "Compact"]
    bench.hold = True
    bench.compacted()
    flight = bench.flight
    assert flight is not None
    assert [e.type for e in flight.entries] == ["segment_end", "segment_start", "extension"]
    bench.hold = False
    bench.commit()
    assert (bench.phase, bench.said) == (Phase.RESTING, ["RaiseAlert", "Rest"])
    assert bench.shown() == ["summary summary:" + str(bench.compacting and bench.compacting.compaction_id)]
    assert bench.machine.state.facts.occupancy.tokens < 1_000
    start = segments(bench)[-1]
    assert start.origin is not None
    assert (start.origin.session, start.origin.seq) == ("pod-1", start.seq - 2)


def test_below_the_threshold_and_without_one_nothing_is_compacted() -> None:
    for rule in (CompactionRule(), CompactionRule(threshold=1_600), CompactionRule(0, 9_999)):
        bench = Bench(compaction=rule)
        bench.working().reply("Done.", tokens=1_498)
        assert bench.phase is Phase.RESTING


def test_the_threshold_between_runs_counts_what_the_provider_measured_and_what_came_since() -> None:
    bench = Bench(compaction=CompactionRule(threshold=1_500))
    bench.working().reply("x" * 330, tokens=1_398)
    assert bench.phase is Phase.FIXING  # 1398 measured, and the reply of about 105


def test_C07_a_huge_tool_result_is_counted_before_the_request_that_would_overflow() -> None:
    bench = Bench(compaction=RULE)
    bench.working().reply(call("Look"), stop="tool_calls", tokens=500)
    bench.finish(0, outcome=result(100_000))
    assert bench.phase is Phase.FIXING
    assert bench.machine.state.facts.occupancy.tokens > 30_000
    bench.fixed()
    bench.compacted("It looked at a long file.")
    assert bench.phase is Phase.REQUESTING
    assert [s.split()[0] for s in bench.shown()] == ["summary", "user"]
    bench.reply("Done.", tokens=300)
    assert bench.story[-2:] == ["assistant Done.", "end finished"]


def test_the_prompt_of_the_run_at_work_stays_and_a_cancel_still_gives_it_back() -> None:
    bench = full()
    bench.fixed()
    bench.compacted()
    bench.say("y" * 12_000)  # over the threshold between requests, before the first one
    assert bench.phase is Phase.FIXING
    bench.fixed()
    bench.control("cancel")
    assert bench.said == ["AbortCompaction"]
    bench.compacted()  # it came first
    assert bench.story[-1] == "end withdrawn"
    assert not any(isinstance(i, UserMessage) for i in bench.machine.state.history.items)
    bench.reopen()
    assert not any(isinstance(i, UserMessage) for i in bench.machine.state.history.items)


@pytest.mark.parametrize("kind", ["cancel", "pause", "stop"])
@pytest.mark.parametrize("phase", [Phase.FIXING, Phase.COMPACTING])
def test_T02_an_order_during_a_compaction_is_honoured_at_once_and_no_request_goes_out(kind: str, phase: Phase) -> None:
    bench = Bench(compaction=RULE)
    bench.working().reply(call("Look"), stop="tool_calls", tokens=500)
    bench.finish(0, outcome=result(100_000))
    if phase is Phase.COMPACTING:
        bench.fixed()
    bench.control(kind)
    assert bench.said == ["AbortCompaction"]
    bench.abort_compaction()
    ends = {"cancel": "end cancelled", "pause": "end paused", "stop": "pod_end"}
    assert bench.story[-1] == ends[kind]
    assert bench.said[-1] in ("Rest", "Quit")
    assert not any(isinstance(i, do.SendRequest | do.FixExtraction | do.Compact) for i in bench.out)


def test_after_a_cancel_it_is_compacted_when_the_next_run_is_about_to_start() -> None:
    bench = Bench(compaction=RULE)
    bench.working().reply(call("Look"), stop="tool_calls", tokens=1_500)
    bench.control("cancel")
    bench.finish(0)
    assert (bench.phase, bench.story[-1]) == (Phase.RESTING, "end cancelled")
    bench.say("next")
    assert bench.phase is Phase.FIXING
    bench.fixed()
    bench.compacted()
    assert (bench.phase, bench.story[-2:]) == (Phase.REQUESTING, ["invoke prompt", "user next"])


# --- what is kept ---


def test_C05_what_arrives_meanwhile_is_kept_and_taken_up_afterwards_in_order() -> None:
    bench = Bench(compaction=replace(RULE, retained_tokens=0)).spawned("c1")
    bench.reply("It works on.", tokens=1_500)
    assert bench.phase is Phase.FIXING  # it waits for no child
    bench.say("first")
    bench.fixed()
    bench.say("second")
    bench.event("c1", 9)
    bench.hint()
    assert bench.said == []
    bench.compacted()
    assert bench.story[-3:] == ["invoke prompt", "user first", "pod_event c1:9"]
    assert bench.queue == ["second"]
    assert bench.machine.state.facts.children["c1"].concluded
    summary = bench.machine.state.history.items[0]
    assert "c1 (c1): at work" in str(summary)


def test_Q05_an_open_question_stays_with_its_call_and_result_word_for_word() -> None:
    bench = Bench(compaction=RULE)
    bench.working(LONG).reply(LONG, call("clarify"), stop="tool_calls", tokens=1_500)
    bench.finish(0, outcome=ASKED)
    before = bench.machine.state.history.items[-2:]
    assert bench.phase is Phase.FIXING
    bench.fixed()
    bench.compacted()
    assert bench.row.status == "waiting_on_user"
    assert bench.machine.state.history.items[-2:] == before
    bench.reopen()
    question = bench.row.question
    assert question is not None
    assert bench.machine.state.history.items[-2:] == before
    bench.deliver(Message("a", "answer", "user", {"question_id": question["question_id"], "choice": "left"}))
    bench.hint()
    assert bench.shown()[-2:] == ["results clarify=ok", "user left"]


def test_K09_tasks_are_the_same_after_a_compaction_and_the_next_id_goes_on() -> None:
    tricky = "one\n```\nstatus: completed\n```\n- 3 [completed] no"
    bench = Bench(compaction=RULE, planning="tasks")
    bench.working(LONG).reply(call("TaskCreate"), stop="tool_calls", tokens=500)
    bench.finish(0, outcome=answer(TaskList(), call("TaskCreate", subject=tricky)))
    bench.reply(LONG, tokens=1_500)
    before = bench.machine.state.facts.planning.now.tasks
    assert [t.subject for t in before.tasks] == [tricky]
    for n in range(2):  # also from one snapshot to the next
        bench.fixed()
        bench.compacted()
        assert bench.machine.state.facts.planning.now.tasks == before
        bench.reopen()
        assert bench.machine.state.facts.planning.now.tasks == before
        assert bench.shown()[0].startswith("task_snapshot")
        bench.working(f"{n}{LONG}").reply(LONG, tokens=1_500)


def test_E12_what_was_read_and_heard_survives_a_compaction_and_a_restart() -> None:
    bench = Bench(compaction=RULE).spawned("c1")
    bench.reply(call("Read"), call("ReadPodOutput"), call("WaitForPods"), stop="tool_calls", tokens=800)
    bench.finish(0, outcome=ToolOutcome("ok", "r", LONG, {"file": {"path": "/a", "digest": "1"}}))
    bench.finish(1, outcome=ToolOutcome("ok", "r", LONG, {"read": {"pod_id": "c1", "to": 7}}))
    bench.finish(2, outcome=ToolOutcome("ok", "w", None, {"listed": ["c1"], "concluded": ["c1"]}))
    bench.reply("Good.", tokens=1_500)
    bench.fixed()
    bench.compacted()
    for _ in range(2):
        facts = bench.machine.state.facts
        assert (facts.read_positions, list(facts.seen), list(facts.heard)) == ({"c1": 7}, ["/a"], ["c1"])
        assert facts.children["c1"].concluded
        bench.reopen()


def test_C06_the_log_before_stays_and_a_rewind_goes_behind_the_compaction() -> None:
    bench = full()
    before = bench.entries
    history = bench.shown()
    bench.fixed()
    bench.compacted()
    assert bench.entries[: len(before)] == before
    bench.say("more")
    bench.reply("Fine.")
    bench.rewind(bench.seq("user more"))
    assert [s.split()[0] for s in bench.shown()] == ["summary"]
    bench.rewind(bench.seq(f"user {LONG}"))
    assert bench.shown() == []
    assert history
    assert bench.machine.state.facts.occupancy.tokens < 100


# --- killed, refused, failed ---


@pytest.mark.parametrize("moment", ["fixing", "compacting", "committing", "committed unheard", "committed"])
def test_C04_killed_at_any_moment_there_is_one_head(moment: str) -> None:
    bench = full()
    old = bench.shown()
    if moment != "fixing":
        bench.fixed()
    if moment.startswith("committ"):
        bench.hold = moment != "committed"
        bench.compacted()
    if moment == "committed unheard":
        bench.commit_unheard()
    bench.hold = False
    bench.reopen()
    committed = moment.startswith("committed")
    assert len(segments(bench)) == 1 + committed
    assert (bench.shown() == old) is not committed
    if not committed:  # by level: it is due again
        assert bench.phase is Phase.FIXING
        bench.fixed()
        bench.compacted()
    assert (len(segments(bench)), bench.phase) == (2, Phase.RESTING)
    assert [type(e) for e in bench.entries].count(SegmentEnd) == 1


@pytest.mark.parametrize("error", ["timeout", "no_summary", "server"])
def test_C03_a_summary_that_does_not_come_leaves_everything_as_it_was(error: str) -> None:
    bench = full()
    history = list(bench.machine.state.history.items)
    for _ in range(2):
        bench.fixed()
        bench.compact_failed(error)
    assert (bench.phase, bench.machine.state.history.items) == (Phase.RESTING, history)
    assert bench.story[-2:] == [f"compaction rest failed ({error})"] * 2
    assert len(segments(bench)) == 1
    bench.working("and now").reply("Still here.", tokens=500)
    assert bench.story[-1] == "end finished"


def test_C02_what_must_be_kept_is_over_the_limit_ends_the_run_with_a_typed_error() -> None:
    bench = Bench(compaction=RULE)
    bench.say("z" * 12_000)
    bench.fixed()
    bench.compacted()
    assert bench.story[-2:] == ["compaction request failed (no_progress)", "end errored (no_progress)"]
    assert bench.row.status == "errored"
    bench.reopen()
    assert bench.phase is Phase.RESTING
    bench.say("again")  # the next turn may try again
    assert bench.phase is Phase.FIXING
    bench.fixed()
    bench.compacted()
    assert bench.phase is Phase.REQUESTING


def test_C02_estimates_that_are_wrong_every_time_are_no_loop() -> None:
    bench = Bench(compaction=RULE)
    bench.working().reply(call("Look"), stop="tool_calls", tokens=3_500)
    compactions = 0
    for _ in range(5):
        if bench.phase is Phase.CALLING:
            bench.finish(0, outcome=result(2_000))
        if bench.phase is not Phase.FIXING:
            break
        compactions += 1
        bench.fixed()
        bench.compacted()
        bench.reply(call("Look"), stop="tool_calls", tokens=3_500)  # the provider measures what it always did
    assert (compactions, bench.story[-1]) == (2, "end errored (no_progress)")


def test_C02_the_breaker_ends_all_attempts_until_a_person_orders_one() -> None:
    bench = full()
    for n in range(BREAKER // 2):
        for _ in range(2):
            bench.fixed()
            bench.compact_failed()
        raised = [i.code for i in bench.out if isinstance(i, do.RaiseAlert)]
        assert ("compaction_given_up" in raised) is (n == BREAKER // 2 - 1)
        bench.working(f"go {n}").reply("Yes.", tokens=1_500)
    assert bench.phase is Phase.RESTING  # tried no more
    bench.reopen()
    bench.working("and on").reply("Yes.", tokens=1_500)
    assert bench.phase is Phase.RESTING
    bench.order_compaction()
    bench.fixed()
    bench.compacted()
    assert (bench.story[-1], bench.queue, bench.phase) == ("compaction order", [], Phase.RESTING)
    bench.working(f"{LONG}!").reply(LONG, tokens=900)
    assert bench.phase is Phase.FIXING


def test_a_request_that_is_too_long_is_compacted_once_and_then_asked_again() -> None:
    bench = Bench(compaction=RULE)
    bench.working(LONG).reply("Yes.", tokens=900)
    bench.working("more").fail_request("context_overflow")
    assert bench.phase is Phase.FIXING
    bench.fixed()
    bench.compacted()
    assert bench.phase is Phase.REQUESTING
    bench.fail_request("context_overflow")
    assert bench.story[-1] == "end errored (context_overflow)"


def test_a_request_that_is_too_long_and_cannot_be_compacted_ends_the_run_in_the_same_commit() -> None:
    bench = Bench(compaction=RULE)
    bench.working(LONG).reply("Yes.", tokens=900)
    bench.working("more").fail_request("context_overflow")
    bench.fixed()
    bench.compact_failed()
    assert bench.story[-2:] == ["compaction overflow failed (timeout)", "end errored (context_overflow)"]


def test_without_thresholds_a_request_that_is_too_long_is_just_an_error() -> None:
    bench = Bench().working()
    bench.fail_request("context_overflow")
    assert bench.story[-1] == "end errored (context_overflow)"


def test_a_store_that_cannot_commit_is_tried_before_another_summary_is_paid_for() -> None:
    bench = full()
    bench.fixed()
    bench.hold = True
    bench.compacted()
    bench.fail_append()
    bench.feed(st.RetryDue())
    assert (bench.phase, bench.flight and bench.flight.entries) == (Phase.COMMITTING, ())
    bench.fail_append()
    bench.feed(st.RetryDue())
    bench.hold = False
    bench.commit()
    assert bench.phase is Phase.FIXING


# --- on demand ---


def test_an_order_is_carried_out_at_rest_and_refused_while_the_pod_is_busy() -> None:
    bench = Bench().working(LONG)
    for _ in range(2):
        with pytest.raises(ConditionFailed, match="busy") as refused:
            bench.order_compaction()
        assert refused.value.reason == "busy"
    bench.reply(LONG)
    bench.order_compaction()
    with pytest.raises(ConditionFailed, match="being compacted already"):
        bench.deliver(Message("again", "compact", "user"))
    with pytest.raises(ConditionFailed, match="being compacted already"):
        bench.rewind(bench.seq(f"user {LONG}"))
    bench.fixed()
    bench.compacted()
    assert (bench.story[-1], bench.queue, bench.row.status) == ("compaction order", [], "idle")


def test_an_order_that_nobody_saw_wants_an_owner_and_is_carried_out_once() -> None:
    bench = Bench().working(LONG)
    bench.reply(LONG)
    bench.deliver(Message("c", "compact", "user"))
    assert bench.wanted()
    bench.reopen()
    bench.fixed()
    bench.hold = True
    bench.compacted()
    bench.commit_unheard()
    bench.hold = False
    bench.reopen()
    assert (bench.story.count("compaction order"), bench.wanted(), bench.phase) == (1, False, Phase.RESTING)


def test_an_order_that_comes_to_nothing_says_so_and_is_not_tried_again() -> None:
    bench = Bench().working()
    bench.reply("Done.")
    bench.order_compaction()
    bench.fixed()
    bench.compacted()
    assert (bench.story[-1], bench.queue) == ("compaction order failed (no_progress)", [])
    assert bench.phase is Phase.RESTING


def test_a_paused_run_is_compacted_on_order_and_goes_on_with_the_same_id() -> None:
    bench = Bench().working(LONG)
    bench.reply(LONG, call("Look"), stop="tool_calls", tokens=1_500)
    bench.control("pause")
    bench.finish(0)
    run_id = bench.row.run_id
    bench.order_compaction()
    bench.fixed()
    bench.compacted()
    assert (bench.row.status, bench.story[-1]) == ("paused", "compaction order")
    bench.control("resume")
    assert (bench.phase, bench.row.run_id) == (Phase.REQUESTING, run_id)
    assert bench.shown()[1] == f"user {LONG}"


def test_a_call_that_waits_for_a_permission_is_decided_first() -> None:
    bench = asking(Bench())
    assert bench.row.status == "waiting_on_user"
    with pytest.raises(ConditionFailed, match="waits for a permission") as refused:
        bench.order_compaction()
    assert refused.value.reason == "busy"


def test_an_order_that_an_interrupting_prompt_overtook_is_put_aside_if_its_run_waits_for_a_permission() -> None:
    bench = Bench()
    bench.deliver(Message("c", "compact", "user"))
    bench.say("go", when_busy="interrupt")
    bench.reply(call("Act", "a"), stop="tool_calls")
    bench.finish(0, outcome=wants("Act a"))
    assert (bench.story[-1], bench.queue) == ("compaction order failed (busy)", [])
    assert (bench.phase, bench.row.status, bench.wanted()) == (Phase.RESTING, "waiting_on_user", False)


def test_a_cancel_takes_an_ordered_compaction_with_it() -> None:
    bench = Bench().working(LONG)
    bench.reply(LONG)
    bench.order_compaction()
    bench.control("cancel")
    assert bench.said == ["AbortCompaction"]
    bench.abort_compaction()
    assert (bench.phase, bench.queue) == (Phase.RESTING, [])


def test_a_prompt_with_references_waits_for_the_compaction_too() -> None:
    bench = full()
    bench.deliver(referring("look"))
    bench.hint()
    bench.fixed()
    bench.compacted()
    assert bench.phase is Phase.RESOLVING
    bench.resolved("plan")
    assert bench.shown()[-2:] == ["user /look", "workflow look:1"]


def test_the_parent_s_work_and_its_end_are_told_as_without_a_compaction() -> None:
    bench = Bench(parent=True, compaction=RULE)
    bench.working(LONG, sender=PARENT).reply(LONG, tokens=1_500)
    assert bench.told == [("turn_ended", "finished")]
    bench.fixed()
    bench.compacted()
    assert bench.told == [("turn_ended", "finished")]
    assert not bench.row.open


def test_an_entry_that_is_no_record_of_a_compaction_changes_nothing() -> None:
    bench = full()
    bench.write(Extension("compaction", {"trigger": 5}))
    bench.reopen()
    assert bench.machine.state.facts.attempts.tries == 0
