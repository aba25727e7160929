"""The child tools over a fake port."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from actors.protocol.ids import child_id
from session_store.requests import Scope
from tests.support.fake_children import FakeChildren
from tests.support.tool_calls import SESSION, Bench, told


@pytest.fixture
def pods() -> FakeChildren:
    return FakeChildren()


@pytest.fixture
async def bench(tmp_path: Path, pods: FakeChildren) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path, pods)
    yield bench
    await bench.toolbox.close()


async def test_a_spawn_carries_what_was_asked_and_the_machines_own_marks(bench: Bench, pods: FakeChildren) -> None:
    for folder in ("src", "docs"):
        (bench.workspace / folder).mkdir()
    outcome = await bench.call(
        "SpawnPod",
        task="count",
        name="カウンター 1",
        profile="small",
        scope={"read": ["docs"], "write": ["src", "./src"]},
        limits={"requests": 5, "seconds": 2.5},
        detached=True,
    )
    pod_id = child_id(SESSION, 7, 0)
    assert outcome.status == "ok"
    assert outcome.summary == f"started Pod カウンター 1 ({pod_id})"
    moved = [str(bench.workspace / "src")]
    assert outcome.data == {"pod_id": pod_id, "name": "カウンター 1", "detached": True, "write": moved}
    order = pods.orders[pod_id]
    assert (order.key.index, order.run_id, order.epoch, order.task, order.profile) == (0, "run", 1, "count", "small")
    assert order.scope == Scope((str(bench.workspace / "docs"),), (str(bench.workspace / "src"),))
    assert order.limits == {"requests": 5, "seconds": 2.5}
    assert order.detached is True


async def test_a_list_as_scope_is_what_the_child_may_write(bench: Bench, pods: FakeChildren) -> None:
    await bench.call("SpawnPod", task="t", scope=["src"])
    await bench.call("SpawnPod", task="t")
    scopes = [order.scope for order in pods.orders.values()]
    assert scopes == [Scope((), (str(bench.workspace / "src"),)), None]


@pytest.mark.parametrize("scope", [["/etc"], {"read": [".."]}, {"write": ["docs"]}, ["way"]])
async def test_a_child_gets_no_folder_its_parent_does_not_have(bench: Bench, pods: FakeChildren, scope: object) -> None:
    (bench.workspace / "way").symlink_to(bench.folder)
    bench.scoped(read=("docs",), write=("src",))
    outcome = await bench.call("SpawnPod", task="t", scope=scope)
    assert outcome.status == "denied"
    assert "outside the folders this Pod may" in told(outcome)
    assert pods.orders == {}


@pytest.mark.parametrize(
    "name",
    ["", "../x", "/etc", "a/b", "a..b", "x" * 65, ".hidden", "a\nb", "a\0", "01900000-0000-7000-8000-000000000001"],
)
async def test_G07_names_that_could_be_paths_or_ids_are_refused_at_the_door(
    bench: Bench, pods: FakeChildren, name: str
) -> None:
    outcome = await bench.call("SpawnPod", task="t", name=name)
    assert outcome.status == "error"
    assert "`name`: a name " in told(outcome)
    assert pods.orders == {}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("SpawnPod", {"task": "t"}),
        ("SendToPod", {"pod": "a", "message": "m"}),
        ("ReadPodOutput", {"pod": "a"}),
        ("WaitForPods", {}),
        ("StopPod", {"pod": "a"}),
        ("ListPods", {}),
    ],
)
async def test_a_refusal_of_the_port_is_an_error_in_its_words(
    bench: Bench, pods: FakeChildren, name: str, arguments: dict[str, str]
) -> None:
    pods.refusal = "the tree has 1,000 Pods, which is its limit"
    outcome = await bench.call(name, **arguments)
    assert (outcome.status, told(outcome)) == ("error", pods.refusal)


@pytest.mark.parametrize(
    ("name", "arguments"), [("SpawnPod", {"task": " \n"}), ("SendToPod", {"pod": "a", "message": "\u3000"})]
)
async def test_a_task_or_message_without_a_word_is_refused(
    bench: Bench, pods: FakeChildren, name: str, arguments: dict[str, str]
) -> None:
    pods.add("a")
    outcome = await bench.call(name, **arguments)
    assert (outcome.status, pods.orders, pods.sent) == ("error", {}, {})


async def test_a_message_names_where_the_log_stood(bench: Bench, pods: FakeChildren) -> None:
    pod = pods.add("a", head=12)
    outcome = await bench.call("SendToPod", pod="a", message="go on")
    assert list(pods.sent.values()) == [(pod, "go on")]
    assert outcome.data == {"pod_id": pod, "after": 12}
    assert outcome.summary == f"sent to a ({pod}), which is running"


async def test_reading_goes_on_from_the_last_read(bench: Bench, pods: FakeChildren) -> None:
    pod = pods.add("a")
    pods.output[pod] = ["one ", "two ", "three"]
    first = await bench.call("ReadPodOutput", pod="a", after=1)
    assert (told(first), first.data) == ("two three", {"read": {"pod_id": pod, "to": 3}})
    bench.context = replace(bench.context, read_positions={pod: 2})
    assert told(await bench.call("ReadPodOutput", pod="a")) == "three"
    assert told(await bench.call("ReadPodOutput", pod=pod, after=0)) == "one two three"
    bench.context = replace(bench.context, read_positions={pod: 3})
    nothing = await bench.call("ReadPodOutput", pod="a")
    assert (nothing.status, told(nothing)) == ("ok", "a has written nothing after entry 3")
    assert "no child named 'b'" in told(await bench.call("ReadPodOutput", pod="b"))


async def test_M07_long_output_of_a_pod_is_cut_and_kept_whole(bench: Bench, pods: FakeChildren) -> None:
    pods.output[pods.add("a")] = ["あ" * 100_000]
    outcome = await bench.call("ReadPodOutput", pod="a")
    assert "70,000 characters are left out" in told(outcome)
    (kept,) = (bench.folder / "spill").iterdir()
    assert kept.read_text() == "あ" * 100_000


async def test_stopping_tells_the_machine_what_has_concluded(bench: Bench, pods: FakeChildren) -> None:
    pod = pods.add("a")
    outcome = await bench.call("StopPod", pod="a")
    assert outcome.data == {"concluded": [pod]}
    assert outcome.summary == f"a ({pod}) is ended"


async def test_listing_shows_all_that_work_and_bounds_the_rest(bench: Bench, pods: FakeChildren) -> None:
    assert told(await bench.call("ListPods")) == "you have started no Pods"
    first = pods.add("first")
    for i in range(250):
        pods.conclude(pods.add(f"p{i}"))
    bad = pods.add("bad", status="errored", concluded=True, outcome="errored", error="no\nkey")
    text = told(await bench.call("ListPods"))
    assert text.startswith(f"first ({first}): running\np5")
    assert f"bad ({bad}): errored, errored: no key\n[52 older ones that are done are not shown]" in text


async def test_waiting_for_all(bench: Bench, pods: FakeChildren) -> None:
    nobody = await bench.call("WaitForPods")
    assert (nobody.status, told(nobody), nobody.data) == ("ok", "there are no Pods to wait for", {"listed": []})
    a, b = pods.add("a"), pods.add("b", status="waiting_on_user", question={"question": "which?"})
    waiting = await bench.call("WaitForPods")
    assert waiting.status == "ok"
    assert waiting.data == {"awaiting": [a, b], "mode": "all"}
    assert told(waiting) == (
        f"waiting for all of:\n- a ({a}): running\n- b ({b}): waiting_on_user, asks: which? (answer with SendToPod)"
    )
    pods.conclude(a, "A is done")
    assert (await bench.call("WaitForPods", pods=["a"])).data == {"listed": [a]}
    half = await bench.call("WaitForPods", pods=["b", a, "b"], mode="all")
    assert half.data == {"awaiting": [b], "mode": "all"}
    assert "done already: a" in told(half)
    pods.conclude(b, "", outcome="limit_reached")
    over = await bench.call("WaitForPods")
    assert over.data == {"listed": [a, b]}
    assert over.summary == "2 of 2 Pods are done: a, b"
    assert told(over) == f"a ({a}): idle, outcome finished\nA is done\n\nb ({b}): idle, outcome limit_reached"


async def test_a_child_that_has_concluded_and_works_for_somebody_else_is_not_waited_for(
    bench: Bench, pods: FakeChildren
) -> None:
    a = pods.add("a")  # at work again, but this log tells its conclusion: nobody would tell us of the end
    bench.context = replace(bench.context, concluded=frozenset({a}))
    assert (await bench.call("WaitForPods")).data == {"listed": [a]}


async def test_waiting_for_any_answers_with_what_was_not_heard_before(bench: Bench, pods: FakeChildren) -> None:
    a, b, c = (pods.add(name) for name in "abc")
    assert (await bench.call("WaitForPods", mode="any")).data == {"awaiting": [a, b, c], "mode": "any"}
    pods.conclude(a, "A")
    first = await bench.call("WaitForPods", mode="any")
    assert first.data == {"listed": [a]}
    assert told(first).split("\n\n") == [f"a ({a}): idle, outcome finished\nA", *(f"{n} ({i}): not done, running" for n, i in (("b", b), ("c", c)))]  # fmt: skip  # noqa: E501
    bench.context = replace(bench.context, heard=frozenset({a}))
    assert (await bench.call("WaitForPods", mode="any")).data == {"awaiting": [b, c], "mode": "any"}
    pods.conclude(b, "B")
    second = await bench.call("WaitForPods", mode="any")
    assert second.data == {"listed": [a, b]}
    assert f"a ({a}): idle, outcome finished (told before)" in told(second)
    pods.conclude(c, "C")
    bench.context = replace(bench.context, heard=frozenset({a, b, c}))
    assert (await bench.call("WaitForPods", mode="any")).data == {"listed": [a, b, c]}, "none is open any more"


async def test_waiting_for_what_is_not_there_names_what_is(bench: Bench, pods: FakeChildren) -> None:
    pods.add("a")
    outcome = await bench.call("WaitForPods", pods=["a", "x", "y"])
    assert outcome.status == "error"
    assert told(outcome) == "There is no Pod `x`, `y` among yours. You have: a."
    assert outcome.data is None


async def test_an_empty_list_names_no_pod_so_nothing_is_waited_for(bench: Bench, pods: FakeChildren) -> None:
    pods.add("a")
    assert (await bench.call("WaitForPods", pods=[])).data == {"listed": []}


async def test_of_pods_with_one_name_the_living_is_meant(bench: Bench, pods: FakeChildren) -> None:
    pods.add("a", status="ended", concluded=True)
    living = pods.add("a")
    pods.add("b", status="ended", concluded=True, outcome="stopped")
    last = pods.add("b", status="ended", concluded=True, outcome="finished")
    assert (await bench.call("WaitForPods", pods=["a"])).data == {"awaiting": [living], "mode": "all"}
    assert (await bench.call("WaitForPods", pods=["b"])).data == {"listed": [last]}


async def test_long_final_texts_are_cut_at_a_character_and_say_where_the_rest_is(
    bench: Bench, pods: FakeChildren
) -> None:
    pods.conclude(pods.add("a"), "𠮷" * 10_000)
    text = told(await bench.call("WaitForPods"))
    assert "𠮷" * 4_000 + "\n[… 6,000 of 10,000 characters are left out: ReadPodOutput has them]" in text
    assert "𠮷" * 4_001 not in text


async def test_the_outcomes_of_many_pods_stay_within_a_result(bench: Bench, pods: FakeChildren) -> None:
    for i in range(64):
        pods.conclude(pods.add(f"p{i}"), f"{i} " * 3_000)
    outcome = await bench.call("WaitForPods")
    assert len(told(outcome)) < 33_000
    assert len((outcome.data or {})["listed"]) == 64
