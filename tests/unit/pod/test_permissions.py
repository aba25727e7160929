"""A call that a person must allow: what is committed before, who decides, and what goes on in whatever incarnation."""

from __future__ import annotations

import pytest

from actors.pod import stimuli as st
from actors.pod.permits import Permit
from actors.pod.transitions import Phase
from actors.protocol.config import RunLimits
from actors.protocol.tools import PermissionAsk, ToolOutcome
from session_store.entries import Question, QuestionClosed, Rewound, RunEnd, ToolResults, ToolStarted
from session_store.errors import ConditionFailed
from session_store.items import ToolResultGroup
from session_store.messages import Message
from tests.unit.pod.bench import PARENT, Bench, call, prompt

DENIED = ToolOutcome("denied", "Not allowed.")


def wants(subject: str) -> ToolOutcome:
    """What the toolbox says of a call that a person must allow."""
    return ToolOutcome("not_run", "asks", asks=PermissionAsk(f"May it {subject}?", subject))


def asking(bench: Bench) -> Bench:
    """A bench that waits for the permission of its second call; the first has run."""
    bench.calling(call("Look"), call("Act", "a"))
    bench.finish(1, outcome=wants("Act a"))
    assert bench.phase is Phase.CALLING  # the sibling still runs
    bench.finish(0)
    assert bench.row.status == "waiting_on_user"
    return bench


def question(bench: Bench) -> Question:
    return next(e for e in reversed(bench.entries) if isinstance(e, Question))


def decide(bench: Bench, choice: str, message_id: str = "d", sender: str = "user", **body: str) -> None:
    body = {"question_id": question(bench).question_id, "choice": choice, **body}
    bench.deliver(Message(message_id, "answer", sender, dict(body)))


def shown(bench: Bench) -> list[tuple[int, str]]:
    group = next(i for i in reversed(bench.machine.state.history.items) if isinstance(i, ToolResultGroup))
    return [(r.index, r.status) for r in group.results]


def test_finished_siblings_are_committed_before_the_question() -> None:
    bench = asking(Bench())
    assert bench.story[3:] == ["results Look=ok", "question", "end waiting_on_user"]
    asked = question(bench)
    assert (asked.kind, asked.question, asked.subject) == ("permission", "May it Act a?", "Act a")
    assert [c.label for c in asked.choices] == ["allow_once", "allow_session", "deny"]
    assert asked.call is not None
    assert (asked.call.call_seq, asked.call.index, asked.call.call.name) == (4, 1, "Act")


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("choice", ["allow_once", "allow_session"])
def test_an_allowed_call_runs_in_the_same_run_after_tool_started(restored: bool, choice: str) -> None:
    bench = asking(Bench())
    run_id = bench.row.run_id
    if restored:
        bench.reopen()
        assert (bench.phase, bench.row.status) == (Phase.RESTING, "waiting_on_user")
    decide(bench, choice)
    bench.hint()
    assert bench.story[6:] == ["closed answered", "tool_started"]
    assert (bench.running, bench.row.run_id, bench.row.status) == ((1,), run_id, "running")
    bench.finish(1)
    assert bench.story[8:] == ["results Act=ok"]
    assert bench.phase is Phase.REQUESTING
    assert [s for s in bench.story if s.startswith("invoke")] == ["invoke prompt"]


def test_a_denied_call_gets_the_reason_and_the_run_goes_on() -> None:
    bench = asking(Bench())
    decide(bench, "deny", text=" not on a\nFriday ")
    bench.hint()
    assert bench.story[6:] == ["closed answered", "results Act=denied"]
    result = next(e for e in reversed(bench.entries) if isinstance(e, ToolResults)).results[0]
    assert result.content == "Not run: a person denied this call. Their reason: not on a\nFriday"
    assert result.summary == "denied by a person: not on a Friday"
    assert (bench.phase, bench.running) == (Phase.REQUESTING, ())


def test_M05_a_denied_call_and_its_siblings_have_their_results_in_call_order() -> None:
    bench = Bench().calling(call("Act", "a"), call("Look"), call("Act", "b"))
    bench.finish(0, outcome=wants("Act a"))
    bench.finish(1)
    bench.finish(2, outcome=DENIED)
    decide(bench, "deny")
    bench.hint()
    assert shown(bench) == [(0, "denied"), (1, "ok"), (2, "denied")]


def test_asks_of_one_reply_are_put_one_at_a_time_in_call_order() -> None:
    bench = Bench().calling(call("Act", "a"), call("Act", "b"))
    bench.finish(1, outcome=wants("Act b"))
    bench.finish(0, outcome=wants("Act a"))
    assert question(bench).subject == "Act a"
    decide(bench, "allow_once", "d1")
    bench.hint()
    assert bench.running == (0,)  # alone: the other has not begun
    bench.finish(0)
    assert bench.running == (1,)
    bench.finish(1, outcome=wants("Act b"))
    assert question(bench).subject == "Act b"
    decide(bench, "deny", "d2")
    bench.hint()
    assert shown(bench) == [(0, "ok"), (1, "denied")]


def test_a_kill_while_a_permitted_call_runs_cuts_it_off_and_still_asks_for_the_next() -> None:
    bench = Bench().calling(call("Act", "a"), call("Act", "b"))
    bench.finish(0, outcome=wants("Act a"))
    bench.finish(1, outcome=wants("Act b"))
    decide(bench, "allow_once")
    bench.hint()
    bench.reopen()
    assert bench.story[-1] == "results Act=interrupted"
    assert bench.running == (1,)  # not cut off: it had not begun
    bench.finish(1, outcome=wants("Act b"))
    assert question(bench).subject == "Act b"


def test_a_permitted_call_that_may_run_again_does_after_a_kill() -> None:
    bench = Bench().calling(call("Look"))
    bench.finish(0, outcome=wants("Look"))
    decide(bench, "allow_once")
    bench.hint()
    bench.reopen()
    assert bench.running == (0,)
    assert bench.machine.state.facts.permits.permit_for(4, 0) is not None
    bench.finish(0)
    assert bench.story.count("question") == 1


def test_a_kill_between_the_question_and_its_ask_in_the_same_stage_asks_again() -> None:
    bench = Bench().calling(call("Look"))
    bench.hold = True
    bench.finish(0, outcome=wants("Look"))
    bench.take_flight()
    bench.hold = False
    bench.reopen()
    bench.finish(0, outcome=wants("Look"))
    assert bench.story.count("question") == 1


def test_clarify_waits_until_the_calls_before_it_are_decided() -> None:
    bench = Bench().calling(call("Act", "a"), call("clarify"), call("Act", "b"))
    bench.finish(0, outcome=wants("Act a"))
    assert question(bench).kind == "permission"
    bench.reopen()
    decide(bench, "allow_once")
    bench.hint()
    bench.finish(0)
    assert bench.running == (1,)


def test_a_permission_is_given_by_a_person_only() -> None:
    bench = asking(Bench(parent=True))
    for body in ({"choice": "allow_once"}, {"text": "go on"}):
        with pytest.raises(ConditionFailed):
            bench.deliver(Message("p", "answer", PARENT, {"question_id": question(bench).question_id, **body}))
    with pytest.raises(ConditionFailed) as refused:
        bench.deliver(Message("t", "answer", "user", {"question_id": question(bench).question_id, "text": "sure"}))
    assert refused.value.reason == "unknown_choice"
    bench.say("allow_once", PARENT)
    assert (bench.row.status, bench.queue) == ("waiting_on_user", ["allow_once"])


def test_queued_messages_neither_start_a_run_nor_supersede_a_permission() -> None:
    bench = asking(Bench())
    bench.say("something else")
    bench.notify("news")
    bench.event("c1", 3)
    bench.reopen()
    assert (bench.phase, bench.row.status, bench.wanted()) == (Phase.RESTING, "waiting_on_user", False)
    decide(bench, "allow_once")
    bench.hint()
    bench.finish(1)
    assert bench.story[8:] == ["results Act=ok", "notification news", "pod_event c1:3"]
    bench.reply("Done.")
    assert bench.story[-2:] == ["invoke prompt", "user something else"]


def test_the_parent_is_told_and_that_it_cannot_decide() -> None:
    bench = asking(Bench(parent=True))
    event = bench.told_events[0]
    assert (event["kind"], event["question"]["kind"]) == ("waiting_on_user", "permission")
    assert event["event_id"].endswith(f":{question(bench).seq}")
    assert bench.row.open


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize(
    ("order", "end"),
    [("cancel", ["closed cancelled", "end cancelled"]), ("stop", ["closed cancelled", "end stopped", "pod_end"])],
)
def test_Q09_cancel_and_stop_close_it_and_the_call_is_not_run(restored: bool, order: str, end: list[str]) -> None:
    bench = asking(Bench())
    if restored:
        bench.reopen()
    bench.control(order)
    assert bench.story[6:] == ["results Act=not_run", *end]
    with pytest.raises(ConditionFailed) as refused:
        decide(bench, "allow_once")
    assert refused.value.reason == "question_closed"


def test_Q09_a_rewind_closes_it_and_takes_later_grants_back() -> None:
    bench = Bench().working("first")
    bench.reply("One.")
    bench.calling(call("Act", "a"), call("Act", "b"))
    bench.finish(0, outcome=wants("Act a"))
    bench.finish(1, outcome=wants("Act b"))
    decide(bench, "allow_session")
    bench.hint()
    bench.finish(0)
    bench.finish(1, outcome=wants("Act b"))
    asked = question(bench)
    assert list(bench.machine.state.facts.permits.grants) == ["Act a"]
    bench.rewind(bench.seq("user go"))
    assert bench.story[-4:] == ["results Act=not_run", "closed cancelled", "end cancelled", "rewound 8"]
    assert (bench.row.status, bench.machine.state.facts.permits.grants) == ("idle", {})
    with pytest.raises(ConditionFailed) as refused:
        bench.deliver(Message("late", "answer", "user", {"question_id": asked.question_id, "choice": "allow_once"}))
    assert refused.value.reason == "question_closed"


def test_a_cancel_before_the_question_is_put_asks_nobody() -> None:
    bench = Bench().calling(call("Act", "a"), call("Act", "b"))
    bench.finish(0, outcome=wants("Act a"))
    bench.control("cancel")
    bench.finish(1, outcome=ToolOutcome("interrupted", "Interrupted."))
    assert bench.story[3:] == ["results Act=not_run Act=interrupted", "end cancelled"]


def test_a_pause_holds_until_after_the_decision() -> None:
    bench = Bench().calling(call("Act", "a"))
    bench.control("pause")
    bench.finish(0, outcome=wants("Act a"))
    assert bench.row.status == "waiting_on_user"
    bench.reopen()
    decide(bench, "allow_once")
    bench.hint()
    bench.finish(0)
    assert bench.row.status == "paused"
    bench.control("resume")
    assert bench.phase is Phase.REQUESTING


def test_an_interrupting_prompt_ends_the_run_at_the_decision_and_the_call_is_not_run() -> None:
    bench = asking(Bench())
    bench.deliver(prompt("now this", when_busy="interrupt"))
    bench.hint()
    assert bench.row.status == "waiting_on_user"
    decide(bench, "allow_once")
    bench.hint()
    assert bench.story[6:9] == ["results Act=not_run", "closed cancelled", "end cancelled"]
    assert bench.story[9:] == ["invoke prompt", "user now this"]


def test_the_time_a_person_takes_does_not_count() -> None:
    bench = Bench(limits=RunLimits(seconds=10)).calling(call("Act", "a"))
    started = bench.machine.state.facts.run_started
    bench.finish(0, outcome=wants("Act a"))
    bench.now += 60_000
    decide(bench, "allow_once")
    bench.hint()
    assert bench.machine.state.facts.run_started == started + 60_000
    deadline = [i for i in bench.out if type(i).__name__ == "SetDeadline"]
    assert deadline
    assert deadline[-1].at_ms == started + 60_000 + 10_000  # type: ignore[attr-defined]


def test_a_question_that_cannot_be_committed_is_not_asked() -> None:
    bench = Bench().calling(call("Act"))
    bench.hold = True
    bench.finish(0, outcome=wants("Act"))
    bench.fail_append()
    bench.hold = False
    bench.feed(st.RetryDue())
    assert bench.story[3:] == ["results Act=not_run", "end errored (store_unavailable)"]


def test_grants_follow_from_the_log_and_a_rewind_takes_later_ones_back() -> None:
    bench = asking(Bench())
    decide(bench, "allow_session")
    bench.hint()
    permits = bench.machine.state.facts.permits
    assert list(permits.grants) == ["Act a"]
    assert permits.permit == Permit(4, 1, "Act a", next(e.seq for e in bench.entries if isinstance(e, ToolStarted)))
    bench.reopen()
    assert list(bench.machine.state.facts.permits.grants) == ["Act a"]
    bench.machine.state.facts.apply(Rewound(3, seq=99))
    assert bench.machine.state.facts.permits.grants == {}


def test_allow_once_grants_nothing() -> None:
    bench = asking(Bench())
    decide(bench, "allow_once")
    bench.hint()
    assert bench.machine.state.facts.permits.grants == {}


def test_Q08_one_decision_counts() -> None:
    bench = asking(Bench())
    decide(bench, "deny", "d1")
    with pytest.raises(ConditionFailed) as refused:
        decide(bench, "allow_once", "d2")
    assert refused.value.reason == "already_answered"
    bench.hint()
    assert [e.choice for e in bench.entries if isinstance(e, QuestionClosed)] == ["deny"]
    assert sum(isinstance(e, RunEnd) for e in bench.entries) == 1
