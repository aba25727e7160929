"""Rewinds at the store: accepted in one transaction, or refused with the reason and no trace."""

from typing import Any

import pytest

from session_store.entries import Extension, PodEnd, QuestionClosed, Rewound, RunEnd
from session_store.errors import ConditionFailed
from session_store.requests import Annotate, FindMessage, Pending, Query, Store
from tests.support.store import Owner, create, deliver, message, row, running, text


def talked(store: Store, *prompts: str) -> Owner:
    """A session at rest: segment 1, then for each prompt `invoke`, `user_input`, reply, `run_end`."""
    create(store, "s", *(message(p) for p in prompts))
    owner = Owner.of(store, "s")
    for prompt in prompts:
        owner.begin(prompt)
        owner.append(text(prompt.upper()))
        owner.end()
    return owner


def back(to: Any, head: Any, message_id: str = "back") -> Any:
    return message(message_id, "rewind", to=to, expected_head=head)


def refusal(store: Store, told: Any) -> ConditionFailed:
    before = (row(store, "s"), store.execute(Pending("s")))
    with pytest.raises(ConditionFailed) as refused:
        deliver(store, "s", told)
    assert (row(store, "s"), store.execute(Pending("s"))) == before
    assert store.execute(FindMessage("s", told.message_id)).session is None
    return refused.value


def test_an_accepted_rewind_wants_its_pod_and_moves_no_head(store: Store) -> None:
    owner = talked(store, "a", "b")
    told = deliver(store, "s", back(7, 9))
    assert (told.existed, told.status, row(store, "s").head) == (False, "idle", 9)
    assert [r.id for r in store.execute(Query(needs_owner=True)).rows] == ["s"]
    with pytest.raises(ConditionFailed, match="wants its Pod"):
        owner.release()
    assert deliver(store, "s", back(7, 9)).existed
    owner.append(Rewound(7), consumes=("back",))
    assert deliver(store, "s", back(7, 9)).existed
    assert row(store, "s").outcome is None
    owner.release()


def test_of_two_rewinds_at_once_one_wins_and_the_other_learns_why(store: Store) -> None:
    owner = talked(store, "a", "b")
    deliver(store, "s", back(7, 9, "first"))
    second = refusal(store, back(3, 9, "second"))
    assert (second.reason, second.detail["head"]) == ("busy", 9)
    assert "rewound already" in second.message
    owner.append(Rewound(7), consumes=("first",))
    late = refusal(store, back(3, 9, "second"))
    assert (late.reason, late.detail["head"]) == ("head_moved", 10)
    assert not deliver(store, "s", back(3, 10, "second")).existed


@pytest.mark.parametrize("to", [0, -1, 10, 2**70, 1, 2, 4, 5])
def test_what_is_no_prompt_is_refused_with_what_it_is(store: Store, to: int) -> None:
    talked(store, "a", "b")
    refused = refusal(store, back(to, 9))
    assert refused.reason == "invalid"
    assert str(to) in refused.message


@pytest.mark.parametrize("body", [{}, {"to": 3}, {"to": "3", "expected_head": 9}, {"to": 3, "expected_head": True}])
def test_a_malformed_rewind_is_refused(store: Store, body: dict[str, Any]) -> None:
    talked(store, "a", "b")
    assert refusal(store, message("back", "rewind", **body)).reason == "invalid"


@pytest.mark.parametrize("head", [8, 10, -1])
def test_a_head_that_is_not_the_present_one_is_refused(store: Store, head: int) -> None:
    talked(store, "a", "b")
    assert refusal(store, back(3, head)).reason == "head_moved"


def test_S08_an_annotation_does_not_move_the_head_for_a_rewind(store: Store) -> None:
    from_before = talked(store, "a").head
    note(store)
    assert not deliver(store, "s", back(3, from_before)).existed


def note(store: Store) -> None:
    store.execute(Annotate("s", Extension("d", {}), "k", 0))


def test_a_prompt_that_has_left_the_history_is_no_target_any_more(store: Store) -> None:
    owner = talked(store, "a", "b", "c")  # prompts at 3, 7, 11; head 13
    owner.append(Rewound(7))
    for gone in (7, 11):
        assert "left the history" in refusal(store, back(gone, 14)).message
    deliver(store, "s", message("d"))
    owner.begin("d")  # 15, 16
    owner.end("withdrawn")
    assert "left the history" in refusal(store, back(16, 17)).message
    deliver(store, "s", message("e"))
    owner.begin("e")
    owner.end()
    assert not deliver(store, "s", back(19, 20)).existed


def test_a_rewind_behind_an_earlier_one_brings_nothing_back(store: Store) -> None:
    owner = talked(store, "a", "b", "c")
    owner.append(Rewound(11))
    owner.append(Rewound(3))
    for gone in (3, 7, 11):
        assert refusal(store, back(gone, 15)).reason == "invalid"


def test_busy_sessions_are_not_rewound(store: Store) -> None:
    owner = running(store, "s")
    assert refusal(store, back(3, 3)).reason == "busy"
    owner.end("paused")
    deliver(store, "s", message("r", "resume"))
    assert refusal(store, back(3, 4)).reason == "busy"  # it is about to go on
    owner.append(text("on"), consumes=("r",))
    owner.end()
    deliver(store, "s", message("next"))
    assert refusal(store, back(3, 6)).reason == "busy"  # a run is about to start


@pytest.mark.parametrize("outcome", ["paused", "waiting_on_children", "errored", "cancelled", "limit_reached"])
def test_every_rest_can_be_rewound(store: Store, outcome: str) -> None:
    owner = running(store, "s")
    owner.end(outcome, waits_for=("c",) if outcome == "waiting_on_children" else None)
    assert not deliver(store, "s", back(3, 4)).existed
    deliver(store, "s", message("queued"))
    assert row(store, "s").status == "running"  # it will be, once the rewind has taken place


def test_a_cancel_that_waits_makes_a_rewind_wait_too(store: Store) -> None:
    owner = running(store, "s")
    owner.end("waiting_on_children", waits_for=("c",))
    deliver(store, "s", message("c", "cancel"))
    assert refusal(store, back(3, 4)).reason == "busy"


@pytest.mark.parametrize("kind", ["clarify", "permission"])
def test_Q09_an_accepted_rewind_closes_the_question_for_answers_and_prompts(store: Store, kind: str) -> None:
    owner = running(store, "s")
    owner.ask("q1", "yes", "no", kind=kind)
    deliver(store, "s", back(3, 5))
    deliver(store, "s", message("plain"))
    assert [m.body.get("answers") for m in store.execute(Pending("s")).messages] == [None, None]
    for _ in range(2):
        with pytest.raises(ConditionFailed) as refused:
            deliver(store, "s", message("a", "answer", question_id="q1", choice="yes"))
        assert refused.value.reason == "question_closed"
        if owner.head == 5:
            owner.append(QuestionClosed("q1", "cancelled", "system"), RunEnd(owner.run_id, "cancelled"), Rewound(3))


def test_an_answered_question_keeps_a_rewind_off(store: Store) -> None:
    owner = running(store, "s")
    owner.ask("q1", "yes", "no")
    deliver(store, "s", message("a", "answer", question_id="q1", choice="yes"))
    assert refusal(store, back(3, 5)).reason == "busy"


def test_an_ended_session_says_so(store: Store) -> None:
    talked(store, "a").append(PodEnd("stopped"))
    assert refusal(store, back(3, 6)).reason == "ended"
