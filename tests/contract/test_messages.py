"""Messages: delivered once, taken once, conditions, questions, status."""

from typing import Any

import pytest

from session_store.entries import CallRef, Choice, PodEnd, Question, QuestionClosed, RunEnd, SystemItems
from session_store.errors import ConditionFailed, UnknownSession
from session_store.items import SystemItem, ToolCall
from session_store.reading import read_log
from session_store.requests import Expect, FindMessage, Pending, Query, Store
from tests.support.store import Owner, create, deliver, delivery, event, event_item, message, row, running, text


def refusal(store: Store, session: str, told: Any, expect: Expect | None = None) -> str:
    with pytest.raises(ConditionFailed) as refused:
        deliver(store, session, told, expect)
    return refused.value.reason


def asking(store: Store, *labels: str, kind: str = "clarify") -> Owner:
    owner = running(store, "s")
    owner.ask("q1", *labels, kind=kind)
    return owner


def test_E06_a_message_delivered_three_times_is_there_once(store: Store) -> None:
    create(store, "s")
    first = deliver(store, "s", message("m"))
    for _ in range(2):
        again = deliver(store, "s", message("m"))
        assert (again.position, again.existed, first.existed) == (first.position, True, False)
    assert [m.message_id for m in store.execute(Pending("s")).messages] == ["m"]
    owner = Owner.of(store, "s")
    owner.begin("m")
    assert deliver(store, "s", message("m")).existed
    assert store.execute(Pending("s")).messages == ()


def test_where_a_message_is(store: Store) -> None:
    create(store, "s", message("m"))
    assert store.execute(FindMessage("s", "m")).state == "pending"
    owner = Owner.of(store, "s")
    reply = owner.begin("m")
    found = store.execute(FindMessage("s", "m"))
    assert (found.session, found.state, found.seq) == ("s", "consumed", reply.head)
    assert store.execute(FindMessage("s", "x")).session is None
    deliver(store, "s", message("late"))
    owner.append(RunEnd(owner.run_id, "stopped"), PodEnd("stop"))
    assert store.execute(FindMessage("s", "late")).state == "undeliverable"


def test_pending_is_what_lies_beyond_the_cursor(store: Store) -> None:
    create(store, "s", message("a"), message("b"))
    deliver(store, "s", message("c"))
    reply = store.execute(Pending("s", after=1))
    assert ([m.message_id for m in reply.messages], reply.head) == (["b", "c"], 1)
    with pytest.raises(UnknownSession):
        store.execute(Pending("x"))


def test_an_append_carries_the_messages_beyond_its_cursor(store: Store) -> None:
    owner = running(store, "s")
    deliver(store, "s", message("n1", "notify"))
    deliver(store, "s", message("n2", "notify"))
    assert [m.position for m in owner.append(text("a")).messages] == [2, 3]
    assert [m.message_id for m in owner.append(text("b"), inbox_cursor=2).messages] == ["n2"]
    assert [m.message_id for m in owner.append(text("c"), consumes=("n1",)).messages] == ["n2"]


def test_S10_an_end_and_its_event_are_one_step(store: Store) -> None:
    parent = running(store, "p")
    parent.spawn("c")
    child = Owner.of(store, "c")
    child.begin("task:c")
    told = event("c", 0)
    child.end(deliveries=(delivery("p", told, entry=0),))
    (got,) = store.execute(Pending("p", after=1)).messages
    assert (got.message_id, got.body["event"]["event_id"]) == (f"c:{child.head}", f"c:{child.head}")
    assert store.execute(FindMessage("p", f"c:{child.head}")).state == "pending"
    assert not row(store, "c").open


def test_a_delivery_in_an_append_is_never_refused(store: Store) -> None:
    owner = running(store, "s")
    ended = running(store, "gone")
    ended.append(RunEnd(ended.run_id, "stopped"), PodEnd("stop"))
    owner.append(deliveries=(delivery("gone", event("s", 1)), delivery("nobody", event("s", 1))))
    for target in ("gone", "nobody"):
        found = store.execute(FindMessage(target, "s:1"))
        assert (found.session, found.state) == (target, "undeliverable")
    assert row(store, "gone").queue == 0
    owner.append(deliveries=(delivery("gone", event("s", 1)), delivery("nobody", event("s", 1))))


def test_one_append_may_deliver_to_itself_and_to_several(store: Store) -> None:
    owner = running(store, "s")
    create(store, "t")
    told = [delivery("s", message("x", "notify", "t")), delivery("t", message("y")), delivery("t", message("z"))]
    assert [m.message_id for m in owner.append(text("a"), deliveries=tuple(told)).messages] == ["x"]
    assert [m.message_id for m in store.execute(Pending("t")).messages] == ["y", "z"]


def test_busy(store: Store) -> None:
    create(store, "s")
    busy = Expect("not_busy")
    deliver(store, "s", message("m1"), busy)
    assert refusal(store, "s", message("m2"), busy) == "busy"
    owner = Owner.of(store, "s")
    owner.begin("m1")
    assert refusal(store, "s", message("m2"), busy) == "busy"
    owner.end("paused")
    assert refusal(store, "s", message("m2"), busy) == "busy"
    owner.end("cancelled")
    assert not deliver(store, "s", message("m2"), busy).existed
    assert deliver(store, "s", message("m2"), busy).existed


def test_busy_while_a_question_is_open(store: Store) -> None:
    asking(store)
    assert refusal(store, "s", message("m2"), Expect("not_busy")) == "busy"


def test_Q08_the_first_answer_wins_and_may_be_sent_again(store: Store) -> None:
    asking(store, "yes", "no")
    expect = Expect("question_open", "q1")
    assert refusal(store, "s", message("a0", "answer", choice="perhaps"), expect) == "unknown_choice"
    first = deliver(store, "s", message("a1", "answer", choice="yes"), expect)
    assert (first.status, deliver(store, "s", message("a1", "answer", choice="yes"), expect).existed) == (
        "running",
        True,
    )
    assert refusal(store, "s", message("a2", "answer", choice="no"), expect) == "already_answered"
    assert store.execute(Pending("s", 1)).messages[0].body["question_id"] == "q1"
    owner = Owner.of(store, "s")
    owner.append(QuestionClosed("q1", "answered", "user", "yes", message_id="a1"), consumes=("a1",))
    assert refusal(store, "s", message("a3", "answer", choice="no"), expect) == "already_answered"
    assert deliver(store, "s", message("a1", "answer", choice="yes"), expect).existed


def test_a_plain_prompt_answers_an_open_clarify_question(store: Store) -> None:
    asking(store)
    deliver(store, "s", message("m2"))
    deliver(store, "s", message("m3"))
    answer, queued = store.execute(Pending("s", 1)).messages
    assert (answer.body.get("answers"), queued.body.get("answers")) == ("q1", None)
    assert refusal(store, "s", message("a", "answer", text="x"), Expect("question_open", "q1")) == "already_answered"


def test_Q09_a_closed_question_takes_no_answer(store: Store) -> None:
    owner = asking(store)
    owner.append(QuestionClosed("q1", "cancelled", "user"))
    assert refusal(store, "s", message("a", "answer", text="x"), Expect("question_open", "q1")) == "question_closed"
    assert refusal(store, "s", message("a", "answer", text="x"), Expect("question_open", "nil")) == "question_closed"
    assert refusal(store, "s", message("a", "answer", question_id="q1", text="x")) == "question_closed"


def test_Q09_a_question_of_an_ended_pod_is_closed_and_an_unknown_one_is_of_nobody(store: Store) -> None:
    asking(store).append(PodEnd("stop"))
    assert refusal(store, "s", message("a", "answer", text="x"), Expect("question_open", "q1")) == "question_closed"
    assert refusal(store, "s", message("a", "answer", question_id="q1", text="x")) == "question_closed"
    assert refusal(store, "s", message("a", "answer", text="x"), Expect("question_open", "nil")) == "ended"
    assert refusal(store, "s", message("a")) == "ended"


def test_Q08_an_answer_that_won_is_told_from_a_closed_question_also_after_the_end(store: Store) -> None:
    owner = asking(store)
    deliver(store, "s", message("a1", "answer", question_id="q1", text="x"))
    owner.append(QuestionClosed("q1", "answered", "user", text="x", message_id="a1"), PodEnd("stop"), consumes=("a1",))
    assert refusal(store, "s", message("a2", "answer", question_id="q1", text="y")) == "already_answered"


def test_what_a_permission_is_about_comes_back_as_it_was(store: Store) -> None:
    owner = asking(store)
    owner.append(QuestionClosed("q1", "superseded", "user"))
    call = CallRef(4, 1, ToolCall("c", "Shell", {"command": "ls\n'x'"}))
    owner.append(Question("p1", "permission", "May it?", (Choice("deny"),), call, "Shell ls\n'x'"))
    (asked,) = [e for e in read_log(store, "s") if isinstance(e, Question) and e.question_id == "p1"]
    assert (asked.call, asked.subject) == (call, "Shell ls\n'x'")


def test_only_a_person_or_the_direct_parent_answers(store: Store) -> None:
    parent = running(store, "p")
    parent.spawn("c")
    child = Owner.of(store, "c")
    child.begin("task:c")
    child.ask("q1")
    deliver(store, "c", message("m1", sender="stranger"))
    deliver(store, "c", message("m2", sender="p"))
    bodies = {m.message_id: m.body.get("answers") for m in store.execute(Pending("c", 1)).messages}
    assert bodies == {"m1": None, "m2": "q1"}


def test_a_permission_is_answered_by_a_person_with_a_choice_and_by_no_prompt(store: Store) -> None:
    owner = asking(store, "allow_once", "deny", kind="permission")
    expect = Expect("question_open", "q1")
    assert deliver(store, "s", message("m2")).status == "waiting_on_user"
    assert refusal(store, "s", message("a", "answer", text="because"), expect) == "unknown_choice"
    assert refusal(store, "s", message("a", "answer", "pod", choice="deny"), expect) == "conflict"
    assert deliver(store, "s", message("a", "answer", choice="deny"), expect).status == "running"
    assert [m.body.get("answers") for m in owner.append().messages] == [None, None]


def test_control_is_aimed_at_the_run_that_is_current(store: Store) -> None:
    create(store, "s")
    run = Expect("run")
    assert refusal(store, "s", message("c0", "cancel"), run) == "not_running"
    deliver(store, "s", message("m1"))
    deliver(store, "s", message("c1", "cancel"), run)  # the run is about to start
    owner = Owner.of(store, "s")
    owner.begin("m1")
    deliver(store, "s", message("c2", "cancel"), run)
    aims = {m.message_id: m.body.get("run_id") for m in store.execute(Pending("s")).messages}
    assert aims == {"c1": None, "c2": owner.run_id}
    assert refusal(store, "s", message("c3", "pause"), Expect("run", "another")) == "not_running"
    deliver(store, "s", message("c4", "pause"), Expect("run", owner.run_id))
    owner.append(consumes=("c1", "c2", "c4"))
    owner.end("cancelled")
    assert refusal(store, "s", message("c5", "cancel"), Expect("run", owner.run_id)) == "not_running"
    deliver(store, "s", message("stop", "stop"), run)


def test_control_of_a_rest_that_goes_on(store: Store) -> None:
    owner = running(store, "s")
    run = Expect("run")
    owner.end("paused")
    assert deliver(store, "s", message("r", "resume"), run).status == "running"
    owner.append(text("on"), consumes=("r",))
    owner.end("waiting_on_children", waits_for=("c",))
    assert refusal(store, "s", message("r2", "resume"), run) == "not_running"
    deliver(store, "s", message("c", "cancel"), run)
    assert len(store.execute(Query(needs_owner=True)).rows) == 1
    owner.append(consumes=("c",))
    owner.end("errored")
    assert refusal(store, "s", message("c2", "cancel"), run) == "not_running"
    assert deliver(store, "s", message("r3", "resume"), run).status == "running"


@pytest.mark.parametrize("outcome", ["finished", "limit_reached", "cancelled", "stopped", "withdrawn"])
def test_a_cancel_of_what_is_over_says_so(store: Store, outcome: str) -> None:
    owner = running(store, "s")
    owner.end(outcome)
    assert refusal(store, "s", message("c", "cancel"), Expect("run")) == "not_running"


def test_status_follows_from_log_and_inbox(store: Store) -> None:
    create(store, "s")
    assert row(store, "s").status == "idle"
    deliver(store, "s", message("m"))
    assert (row(store, "s").status, row(store, "s").queue) == ("running", 1)
    owner = Owner.of(store, "s")
    owner.begin("m")
    assert (row(store, "s").status, row(store, "s").run_id) == ("running", owner.run_id)
    owner.ask("q1", "a", "b")
    seen = row(store, "s")
    assert (seen.status, seen.outcome, seen.question_ts > 0) == ("waiting_on_user", "waiting_on_user", True)
    assert seen.question is not None
    assert [c["label"] for c in seen.question["choices"]] == ["a", "b"]
    assert store.execute(Query(waiting_on_person=True)).rows == (seen,)
    deliver(store, "s", message("m2"))
    assert row(store, "s").status == "running"
    assert store.execute(Query(waiting_on_person=True)).rows == ()


def test_E05_a_late_event_of_a_child_that_was_shut_down_wakes_nobody(store: Store) -> None:
    owner = running(store, "s")
    shut = event("c", 9, "shut_down")
    owner.append(event_item(shut))
    owner.end()
    assert deliver(store, "s", event("c", 7)).status == "idle"
    assert deliver(store, "s", event("d", 7)).status == "running"
    owner.append(SystemItems((SystemItem("notification", "n", {"message": "x"}, "x"),)))


def test_a_wait_ends_when_all_have_concluded(store: Store) -> None:
    owner = running(store, "s")
    owner.end("waiting_on_children", waits_for=("a", "b"))
    assert row(store, "s").waits_for == ("a", "b")
    assert deliver(store, "s", event("a", 3, outcome="finished")).status == "waiting_on_children"
    assert deliver(store, "s", event("b", 3, outcome="paused")).status == "waiting_on_children"
    assert deliver(store, "s", event("b", 4, outcome="finished")).status == "running"


def test_a_resume_changes_a_run_at_work_only_if_it_is_to_pause(store: Store) -> None:
    owner = running(store, "s")
    run = Expect("run")
    assert refusal(store, "s", message("r1", "resume"), run) == "not_running"
    deliver(store, "s", message("p1", "pause"), run)
    deliver(store, "s", message("r2", "resume"), run)
    owner.append(consumes=("p1", "r2"))
    assert refusal(store, "s", message("r3", "resume"), run) == "not_running"
