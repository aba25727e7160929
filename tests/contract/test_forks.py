"""Forks at the store: one new session, once, and a source that does not notice."""

from dataclasses import replace
from typing import Any

import pytest

from session_store.entries import Choice, Invoke, Origin, PodEnd, Question, RunEnd, SegmentStart
from session_store.errors import ConditionFailed, UnknownSession
from session_store.items import Segment, UserMessage
from session_store.reading import read_log
from session_store.requests import Fork, Pending, PodLimits, Query, Store
from tests.support.store import Owner, create, deliver, log, message, row, running


def fork(source: str = "s", seq: int = 4, session: str = "f", **more: Any) -> Fork:
    history = (UserMessage((Segment("text", "hi"),), "p:s", "user"),)
    start = SegmentStart(session, {"workspace": "/ws"}, "be good", (), 1, history, Origin(source, seq))
    return Fork(session, more.pop("tenant", "default"), more.pop("message_id", "fork:1"), start, **more)


def finished(store: Store) -> Owner:
    owner = running(store, "s")
    owner.end()
    return owner


def test_a_fork_is_an_idle_root_of_its_own(store: Store) -> None:
    finished(store)
    before = (row(store, "s"), read_log(store, "s"))
    made = store.execute(fork(name="again"))
    assert (made.session, made.head, made.existed) == ("f", 1, False)
    seen = row(store, "f")
    assert (seen.status, seen.parent_id, seen.root_id, seen.depth, seen.name) == ("idle", None, "f", 0, "again")
    assert (seen.open, seen.queue, seen.epoch, seen.requests) == (False, 0, 0, 0)
    (start,) = read_log(store, "f")
    assert isinstance(start, SegmentStart)
    assert (start.origin, len(start.history)) == (Origin("s", 4), 1)
    assert (row(store, "s"), read_log(store, "s")) == before
    assert store.execute(Query(needs_owner=True)).rows == ()


def test_the_same_fork_again_is_the_same_session(store: Store) -> None:
    finished(store)
    store.execute(fork())
    again = store.execute(fork(session="g"))
    assert (again.session, again.existed) == ("f", True)
    assert store.execute(fork(session="g", message_id="fork:2")).session == "g"
    assert len(store.execute(Query()).rows) == 3


def test_a_fork_with_an_open_question_waits_for_a_person(store: Store) -> None:
    finished(store)
    more = (
        Invoke("fork", "fork"),
        Question("q2", "clarify", "which?", (Choice("a"), Choice("b"))),
        RunEnd("fork", "waiting_on_user"),
    )
    assert store.execute(fork(more=more)).head == 4
    assert row(store, "f").status == "waiting_on_user"
    assert [r.id for r in store.execute(Query(waiting_on_person=True)).rows] == ["f"]
    assert row(store, "f").open, "who waits for an answer has a place"
    with pytest.raises(ConditionFailed) as full:
        store.execute(fork(session="g", message_id="fork:2", more=more, limits=PodLimits(max_pods=1)))
    assert full.value.reason == "limit"
    assert store.execute(fork(session="g", message_id="fork:2", limits=PodLimits(max_pods=1))).session == "g"
    assert deliver(store, "f", message("a", "answer", question_id="q2", choice="a")).status == "running"
    owner = Owner.of(store, "f")
    assert owner.seen == ["a"]


def test_the_source_may_be_running_or_ended(store: Store) -> None:
    owner = running(store, "s")
    assert not store.execute(fork(seq=3)).existed
    deliver(store, "s", message("next"))
    owner.append(RunEnd(owner.run_id, "stopped"), PodEnd("stop"))  # nobody has taken its lease
    assert not store.execute(fork(seq=5, session="g", message_id="fork:2")).existed
    assert log(store, "s") == [1, 2, 3, 4, 5]
    assert [m.message_id for m in store.execute(Pending("f")).messages] == []


def test_what_a_fork_cannot_begin_with_is_refused(store: Store) -> None:
    finished(store)
    good = fork()
    for bad, reason in (
        (fork(seq=5), "invalid"),
        (fork(seq=0), "invalid"),
        (replace(good, start=replace(good.start, origin=None)), "invalid"),
        (fork(session="../x"), "invalid"),
        (fork(session="s"), "conflict"),
        (fork(name="x/y"), "invalid"),
    ):
        with pytest.raises(ConditionFailed) as refused:
            store.execute(bad)
        assert refused.value.reason == reason
    for nobody in (fork("nobody"), fork(tenant="other")):
        with pytest.raises(UnknownSession):
            store.execute(nobody)
    assert len(store.execute(Query()).rows) == 1


def test_a_name_is_taken_once_among_roots(store: Store) -> None:
    finished(store)
    create(store, "t", name="again")
    with pytest.raises(ConditionFailed) as refused:
        store.execute(fork(name="again"))
    assert refused.value.reason == "name_taken"
    store.execute(fork(name="other"))
