"""clarify in the machine: which calls run, what one commit holds, who hears of it, and what cuts it short."""

from __future__ import annotations

import pytest

from actors.pod import stimuli as st
from actors.pod.transitions import Phase
from actors.protocol.tools import ToolOutcome
from session_store.entries import Choice, Question, QuestionClosed, RunEnd, ToolResults
from session_store.errors import ConditionFailed
from session_store.items import ToolResultGroup
from session_store.messages import Message
from tests.unit.pod.bench import ASKED, PARENT, POD, Bench, call, prompt

ERROR = ToolOutcome("error", "give 2 to 4 choices")


def question(bench: Bench) -> Question:
    return next(e for e in reversed(bench.entries) if isinstance(e, Question))


def test_Q02_calls_before_run_calls_behind_do_not_and_no_request_follows() -> None:
    bench = Bench().calling(call("Act", "a"), call("clarify", "q1"), call("Act", "b"), call("clarify", "q2"))
    assert bench.running == (0,)
    bench.finish(0)
    assert bench.running == (1,)
    bench.finish(1, outcome=ASKED)
    assert bench.story[3:] == [
        "results Act=ok",
        "results clarify=ok Act=not_run clarify=not_run",
        "question",
        "end waiting_on_user",
    ]
    assert (bench.phase, bench.running, bench.row.status) == (Phase.RESTING, (), "waiting_on_user")
    group = bench.machine.state.history.items[-1]
    assert isinstance(group, ToolResultGroup)
    assert [r.index for r in group.results] == [0, 1, 2, 3]
    assert question(bench) == Question(
        f"q-{POD[-12:]}-4-1", "clarify", "Which?", (Choice("left"),), seq=question(bench).seq, ts=question(bench).ts
    )


def test_Q01_a_refused_clarify_lets_the_turn_go_on_and_a_valid_one_may_follow() -> None:
    bench = Bench().calling(call("clarify"), call("Act"), call("clarify", "second"))
    bench.finish(0, outcome=ERROR)
    assert bench.running == (1,)
    bench.finish(1)
    bench.finish(2, outcome=ASKED)
    assert bench.story[3:6] == ["results clarify=error", "results Act=ok", "results clarify=ok"]
    assert bench.row.status == "waiting_on_user"


def test_after_only_refused_ones_the_model_is_asked_again() -> None:
    bench = Bench().calling(call("clarify"))
    bench.finish(0, outcome=ERROR)
    assert (bench.phase, bench.row.question) == (Phase.REQUESTING, None)


def test_wait_for_pods_is_not_looked_at_once_a_question_is_asked() -> None:
    bench = Bench().calling(call("WaitForPods"), call("clarify"), call("Look"))
    assert bench.running == (1,)
    bench.finish(1, outcome=ASKED)
    assert bench.story[3:4] == ["results WaitForPods=not_run clarify=ok Look=not_run"]


def test_Q07_the_parent_is_told_of_a_question_once_in_its_commit_and_may_answer() -> None:
    bench = Bench(parent=True).calling(call("clarify"), sender="user")  # open questions are told whoever is served
    bench.hold = True
    bench.finish(0, outcome=ASKED)
    assert bench.flight is not None
    assert [type(e) for e in bench.flight.entries] == [ToolResults, Question, RunEnd]
    bench.hold = False
    bench.commit()
    asked = question(bench)
    assert bench.told_events == [
        {
            "kind": "waiting_on_user",
            "event_id": f"{POD}:{asked.seq}",
            "pod_id": POD,
            "pod_name": "worker",
            "generation": 1,
            "question": {
                "question_id": asked.question_id,
                "kind": "clarify",
                "question": "Which?",
                "choices": [{"label": "left"}],
            },
        }
    ]
    assert bench.row.open  # the work has not concluded
    bench.say("the left one", PARENT)
    assert bench.story[-3:] == ["closed answered", "invoke prompt", "user the left one (answer)"]
    assert next(e for e in bench.entries if isinstance(e, QuestionClosed)).by == PARENT
    bench.reply("Left it is.")
    assert bench.told == [("waiting_on_user", None), ("turn_ended", "finished")]  # it serves the parent's answer


def test_a_kill_before_the_question_is_committed_asks_once_and_what_is_behind_stays_not_run() -> None:
    bench = Bench().calling(call("Act", "a"), call("clarify"), call("Act", "b"))
    bench.finish(0)
    bench.hold = True
    bench.finish(1, outcome=ASKED)
    bench.take_flight()
    bench.hold = False
    bench.reopen()
    assert bench.running == (1,)  # Act b has not begun: it is not cut off
    bench.finish(1, outcome=ASKED)
    assert bench.story[3:] == ["results Act=ok", "results clarify=ok Act=not_run", "question", "end waiting_on_user"]


def test_a_kill_after_the_commit_asks_once() -> None:
    bench = Bench().calling(call("clarify"))
    bench.hold = True
    bench.finish(0, outcome=ASKED)
    bench.commit_unheard()
    bench.hold = False
    bench.reopen()
    assert (bench.phase, bench.row.status) == (Phase.RESTING, "waiting_on_user")
    assert bench.story.count("question") == 1


@pytest.mark.parametrize(("order", "end"), [("cancel", "end cancelled"), ("stop", "end stopped")])
def test_Q09_an_order_that_came_before_the_commit_wins_and_nothing_is_asked(order: str, end: str) -> None:
    bench = Bench(parent=True).calling(call("clarify"), call("Act"))
    bench.control(order)
    bench.finish(0, outcome=ASKED)
    assert bench.story[3:5] == ["results clarify=not_run Act=interrupted", end]
    assert bench.row.question is None
    assert "waiting_on_user" not in [kind for kind, _ in bench.told]


def test_a_pause_does_not_outlive_the_turn_that_a_question_ends() -> None:
    bench = Bench().calling(call("clarify"))
    bench.control("pause")
    bench.finish(0, outcome=ASKED)
    assert (bench.row.status, bench.queue) == ("waiting_on_user", [])
    bench.say("left")
    assert bench.phase is Phase.REQUESTING


def test_Q10_a_prompt_that_waits_when_the_question_is_asked_is_the_next_message() -> None:
    bench = Bench().calling(call("clarify"))
    bench.say("and also")
    bench.finish(0, outcome=ASKED)
    assert bench.story[-5:] == [
        "question",
        "end waiting_on_user",
        "closed superseded",
        "invoke prompt",
        "user and also",
    ]


def test_Q09_a_stopped_pods_late_answer_is_told_what_became_of_the_question() -> None:
    bench = Bench().calling(call("clarify"))
    bench.finish(0, outcome=ASKED)
    asked = question(bench).question_id
    bench.control("stop")
    with pytest.raises(ConditionFailed) as refused:
        bench.deliver(Message("late", "answer", "user", {"question_id": asked, "text": "left"}))
    assert (refused.value.reason, refused.value.detail["how"]) == ("question_closed", "cancelled")
    with pytest.raises(ConditionFailed) as refused:
        bench.deliver(prompt("more"))
    assert refused.value.reason == "ended"


def test_a_question_that_cannot_be_committed_is_not_asked() -> None:
    """S04: the disk is full; the run ends with the reason, the call says that nobody was asked."""
    bench = Bench().calling(call("clarify"))
    bench.hold = True
    bench.finish(0, outcome=ASKED)
    bench.fail_append()
    bench.hold = False
    bench.feed(st.RetryDue())
    assert bench.story[3:] == ["results clarify=not_run", "end errored (store_unavailable)"]


def test_a_parked_question_needs_nobody_and_its_answer_does() -> None:
    bench = Bench().calling(call("clarify"))
    bench.finish(0, outcome=ASKED)
    bench.notify("news")
    bench.event("c1", 3)
    assert not bench.wanted()
    bench.deliver(Message("a", "answer", "user", {"question_id": question(bench).question_id, "choice": "left"}))
    assert bench.wanted()
