"""Trees: creating children, what they hold, what they give back, cascades, wakes, the catalogue."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from session_store.entries import Invoke, PodEnd, RunEnd
from session_store.errors import ConditionFailed, StaleEpoch, UnknownSession
from session_store.requests import (
    Expect,
    FindMessage,
    Follow,
    Parent,
    Pending,
    PodLimits,
    Query,
    Store,
)
from session_store.rows import Scope
from session_store.status import concludes
from tests.support.store import Owner, create, deliver, delivery, event, message, row, running, text


def spawn_refusal(owner: Owner, child: str, **more: object) -> str:
    with pytest.raises(ConditionFailed) as refused:
        owner.spawn(child, **more)  # type: ignore[arg-type]
    assert not owner.store.execute(Query(ids=(child,))).rows
    return refused.value.reason


def work(store: Store, child: str) -> Owner:
    owner = Owner.of(store, child)
    owner.begin(f"task:{child}")
    return owner


def ended(store: Store, child: str) -> None:
    owner = Owner.of(store, child)
    owner.append(PodEnd("stop"))


def test_create_is_idempotent_by_tenant_and_message(store: Store) -> None:
    first = create(store, "s", message("m"))
    again = create(store, "other", message("m"), message_id="create:s")
    assert (again.session, again.existed, first.existed) == ("s", True, False)
    with pytest.raises(ConditionFailed) as refused:
        create(store, "s", message_id="something else")
    assert refused.value.reason == "conflict"


def test_L06_eight_creates_at_once_make_one_child(store: Store) -> None:
    owner = running(store, "p")
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: owner.spawn("c"), range(8)))
    assert sorted(r.existed for r in replies) == [False] + [True] * 7
    assert {r.session for r in replies} == {"c"}
    assert len(store.execute(Pending("c")).messages) == 1
    assert row(store, "p").children == 1


@pytest.mark.parametrize("bad", ["", "../x", "/etc/passwd", "a/b", "x" * 65, "a\nb", ".", "..", "a..b", " a"])
def test_G07_a_bad_session_id_is_refused(store: Store, bad: str) -> None:
    with pytest.raises(ConditionFailed) as refused:
        create(store, bad, message_id="m")
    assert refused.value.reason == "invalid"
    assert store.execute(Query()).rows == ()


@pytest.mark.parametrize("bad", ["../x", "/abs", "a/b", "x" * 65, "a\nb", " a", "a\\b", "a\x7f"])
def test_G07_a_bad_name_is_refused(store: Store, bad: str) -> None:
    with pytest.raises(ConditionFailed) as refused:
        create(store, "s", name=bad)
    assert refused.value.reason == "invalid"
    assert store.execute(Query()).rows == ()


def test_a_child_knows_its_tree(store: Store) -> None:
    owner = running(store, "p")
    owner.spawn("c")
    child = work(store, "c")
    child.spawn("g")
    seen = row(store, "g")
    assert (seen.parent_id, seen.root_id, seen.depth, seen.open) == ("c", "p", 2, True)
    assert [r.id for r in store.execute(Query(root="p")).rows] == ["p", "c", "g"]
    assert [r.id for r in store.execute(Query(parent="p")).rows] == ["c"]
    assert (row(store, "p").children, row(store, "c").children) == (1, 1)


def test_a_spawn_needs_its_parents_epoch_and_run(store: Store) -> None:
    owner = running(store, "p")
    with pytest.raises(StaleEpoch):
        create(store, "c", parent=Parent("p", owner.epoch + 1, owner.run_id))
    with pytest.raises(UnknownSession):
        create(store, "c", parent=Parent("x", 1, "r"))
    with pytest.raises(ConditionFailed) as refused:
        create(store, "c", parent=Parent("p", owner.epoch, "old run"))
    assert refused.value.reason == "run_over"
    owner.spawn("kept")
    owner.end()
    assert spawn_refusal(owner, "c") == "run_over"
    Owner.of(store, "p")
    assert owner.spawn("kept").existed  # a retry learns what was done, whoever asks


def test_a_cancelled_run_spawns_nothing_more(store: Store) -> None:
    owner = running(store, "p")
    deliver(store, "p", message("c", "cancel"), Expect("run"))
    assert spawn_refusal(owner, "c") == "run_over"


def test_names_are_unique_among_living_siblings(store: Store) -> None:
    owner = running(store, "p")
    owner.spawn("c1", name="worker")
    assert spawn_refusal(owner, "c2", name="worker") == "name_taken"
    work(store, "c1").spawn("g", name="worker")
    ended(store, "c1")
    owner.spawn("c2", name="worker")


def test_root_names_are_unique_in_a_tenant_if_given(store: Store) -> None:
    create(store, "r1")
    create(store, "r2")
    create(store, "r3", name="main")
    with pytest.raises(ConditionFailed) as refused:
        create(store, "r4", name="main")
    assert refused.value.reason == "name_taken"
    ended(store, "r3")
    create(store, "r4", name="main")


def test_L02_places_come_back_however_a_child_ends(store: Store) -> None:
    owner = running(store, "p")
    limits = PodLimits(max_children=2)
    owner.spawn("c1", limits=limits)
    owner.spawn("c2", limits=limits)
    for number, outcome in enumerate(["finished", "errored", "cancelled", "stopped", "limit_reached"], 3):
        assert spawn_refusal(owner, f"c{number}", limits=limits) == "limit"
        child = work(store, f"c{number - 2}")
        child.end("paused")
        assert spawn_refusal(owner, f"c{number}", limits=limits) == "limit"
        child.end(outcome)
        owner.spawn(f"c{number}", limits=limits)
    Owner.of(store, "c7").append(PodEnd("failed_start"))
    owner.spawn("c8", limits=limits)


def test_a_conclusion_with_a_prompt_left_keeps_the_place(store: Store) -> None:
    owner = running(store, "p")
    owner.spawn("c")
    child = work(store, "c")
    deliver(store, "c", message("more", sender="p"))
    child.end()
    assert row(store, "c").open
    child.begin("more")
    child.end()
    assert not row(store, "c").open


def test_an_end_with_the_parents_prompt_left_is_told_and_concludes_nothing(store: Store) -> None:
    parent = running(store, "p")
    parent.spawn("c")
    child = work(store, "c")
    deliver(store, "c", message("second", sender="p"))
    deliver(store, "c", message("a person's"))
    told = event("c", 0, outcome="finished")
    child.end(deliveries=(delivery("p", told, entry=0),))
    first = store.execute(Pending("p")).messages[-1].body["event"]
    assert (first["queued"], concludes(first)) == (1, False)
    child.begin("second")
    child.end(deliveries=(delivery("p", told, entry=0),))
    last = store.execute(Pending("p")).messages[-1].body["event"]
    assert ("queued" in last, concludes(last)) == (False, True)


def test_limits_of_depth_and_pods(store: Store) -> None:
    owner = running(store, "p")
    assert spawn_refusal(owner, "c", limits=PodLimits(max_depth=0)) == "limit"
    assert spawn_refusal(owner, "c", limits=PodLimits(max_pods=1)) == "limit"
    owner.spawn("c", limits=PodLimits(max_pods=2, max_depth=1))
    with pytest.raises(ConditionFailed) as refused:
        create(store, "r", message("m"), limits=PodLimits(max_pods=2))
    assert (refused.value.detail["limit"], refused.value.detail["most"]) == ("max_pods", 2)
    work(store, "c").end()
    create(store, "r", message("m"), limits=PodLimits(max_pods=2))


def test_L11_a_prompt_to_a_concluded_child_takes_its_place_again_or_is_refused(store: Store) -> None:
    owner = running(store, "p")
    limits = PodLimits(max_children=1)
    owner.spawn("c1", limits=limits)
    child = work(store, "c1")
    child.end()
    owner.spawn("c2", limits=limits)
    with pytest.raises(ConditionFailed) as refused:
        deliver(store, "c1", message("more", sender="p"), limits=limits)
    assert refused.value.reason == "limit"
    assert store.execute(FindMessage("c1", "more")).state is None
    deliver(store, "c1", message("n", "notify"), limits=limits)  # takes no place
    assert not row(store, "c1").open
    work(store, "c2").end()
    deliver(store, "c1", message("more", sender="p"), limits=limits)
    assert row(store, "c1").open


def test_scope_is_part_of_the_parents(store: Store) -> None:
    create(store, "p", message("m"), scope=Scope(read=("docs",), write=("src",)))
    owner = Owner.of(store, "p")
    owner.begin("m")
    for bad in (Scope(write=("docs",)), Scope(read=("other",)), Scope(write=("src/../docs",)), Scope(read=("/",))):
        assert spawn_refusal(owner, "c", scope=bad) == "scope"
    owner.spawn("c", scope=Scope(read=("src", "docs/a"), write=("/ws/src/a",)))
    assert row(store, "c").scope == Scope(("src", "docs/a"), ("/ws/src/a",))
    child = work(store, "c")
    child.spawn("shares")
    grandchild = work(store, "shares")
    assert spawn_refusal(grandchild, "g", scope=Scope(write=("src/b",))) == "scope"


def test_a_root_without_scope_has_its_workspace(store: Store) -> None:
    owner = running(store, "p")
    assert spawn_refusal(owner, "c", scope=Scope(read=("/elsewhere",))) == "scope"
    owner.spawn("c", scope=Scope(read=(".",)))


def test_G02_write_scope_moves_until_the_child_concludes(store: Store) -> None:
    owner = running(store, "p")
    owner.spawn("c1", scope=Scope(write=("src/a",)))
    for bad in ("src", "src/a", "src/a/deep", "/ws/src/a", "."):
        assert spawn_refusal(owner, "c2", scope=Scope(write=(bad,))) == "scope"
    owner.spawn("c2", scope=Scope(read=("src",), write=("src/ab",)))
    child = work(store, "c1")
    child.end()
    owner.spawn("c3", scope=Scope(write=("src/a",)))
    with pytest.raises(ConditionFailed) as refused:
        deliver(store, "c1", message("more", sender="p"))
    assert refused.value.reason == "scope"
    owner.append(deliveries=(delivery("c1", message("forced", sender="p")),))
    assert store.execute(FindMessage("c1", "forced")).state == "undeliverable"
    work(store, "c3").end()
    deliver(store, "c1", message("more", sender="p"))


def test_L03_a_cancel_reaches_the_open_children_listed_in_its_own_commit(store: Store) -> None:
    owner = running(store, "p")
    for child in ("at_work", "concluded", "loose"):
        owner.spawn(child, detached=child == "loose")
    at_work = work(store, "at_work")
    work(store, "concluded").end()
    reply = owner.append(RunEnd(owner.run_id, "cancelled"), cascade="cancel", batch_id="b", concluded=True)
    assert reply.cascaded == ("at_work",)
    again = owner.append(
        RunEnd(owner.run_id, "cancelled"), cascade="cancel", batch_id="b", concluded=True, expected_head=3
    )
    assert again == reply
    (told,) = store.execute(Pending("at_work")).messages
    assert (told.message_id, told.kind, told.sender) == (f"cascade:p:{reply.head}:at_work", "cancel", "p")
    assert told.body == {"cascade": True, "run_id": at_work.run_id}
    assert store.execute(Pending("concluded")).messages == store.execute(Pending("loose")).messages[1:] == ()


def test_a_stop_reaches_all_undetached_children_that_are_not_ended(store: Store) -> None:
    owner = running(store, "p")
    for child in ("at_work", "concluded", "loose", "gone"):
        owner.spawn(child, detached=child == "loose")
    work(store, "concluded").end()
    ended(store, "gone")
    reply = owner.append(RunEnd(owner.run_id, "stopped"), PodEnd("stop"), cascade="stop")
    assert reply.cascaded == ("at_work", "concluded")
    assert [r.id for r in store.execute(Query(needs_owner=True)).rows] == ["at_work", "concluded", "loose"]


def test_E07_runs_started_by_events_are_counted_for_the_tree_until_a_person_speaks(store: Store) -> None:
    owner = running(store, "p")
    owner.spawn("c")
    child = work(store, "c")
    assert child.append(Invoke("r", "pod_event")).wakes == 1
    assert owner.append(Invoke("r", "pod_event"), batch_id="b").wakes == 2
    assert owner.append(Invoke("r", "pod_event"), batch_id="b", expected_head=0).wakes == 2
    assert child.append(Invoke("r", "notify")).wakes == 2
    deliver(store, "c", message("m1", sender="p"))
    assert child.append(Invoke("r", "pod_event")).wakes == 3
    deliver(store, "c", message("m2"))
    assert owner.append(text("x")).wakes == 0


def test_catalogue_pages_in_order_of_creation(store: Store) -> None:
    for number in range(7):
        create(store, f"s{number}", name=f"n{number}", message_id=f"m{number}")
    first = store.execute(Query(limit=3))
    second = store.execute(Query(limit=3, cursor=first.next))
    third = store.execute(Query(limit=3, cursor=second.next))
    pages = [[r.id for r in p.rows] for p in (first, second, third)]
    assert pages == [["s0", "s1", "s2"], ["s3", "s4", "s5"], ["s6"]]
    assert third.next is None
    assert [r.id for r in store.execute(Query(name="n4")).rows] == ["s4"]
    assert [r.id for r in store.execute(Query(tenant="default", made_by="m5")).rows] == ["s5"]
    assert store.execute(Query(tenant="other", made_by="m5")).rows == ()
    assert [r.id for r in store.execute(Query(ids=("s5", "s1", "zz"))).rows] == ["s1", "s5"]
    assert store.execute(Query(tenant="other")).rows == ()
    assert store.execute(Query(ids=())).rows == ()
    assert store.execute(Query(limit=7)).next is None


def test_catalogue_by_status(store: Store) -> None:
    create(store, "idle")
    running(store, "busy").append(text("x"))
    paused = running(store, "paused")
    paused.end("paused")
    found = {s: [r.id for r in store.execute(Query(status=s)).rows] for s in ("idle", "running", "paused", "ended")}  # type: ignore[arg-type]
    assert found == {"idle": ["idle"], "running": ["busy"], "paused": ["paused"], "ended": []}
    assert [r.id for r in store.execute(Query(needs_owner=True)).rows] == ["busy"]
    assert [r.id for r in store.execute(Query(needs_owner=False)).rows] == ["idle", "paused"]


def test_followers_hear_of_commits_and_messages(store: Store) -> None:
    start = store.execute(Follow(-1)).cursor
    owner = running(store, "p")
    create(store, "t")
    owner.append(text("x"), deliveries=(delivery("t", message("m")),))
    heard = store.execute(Follow(start))
    assert {(c.session, c.head) for c in heard.commits} == {("p", 4), ("t", 1)}
    assert store.execute(Follow(heard.cursor)).commits == ()
    forgotten = store.execute(Follow(5))
    assert ({c.session for c in forgotten.commits}, forgotten.cursor) == ({"p", "t"}, heard.cursor)
