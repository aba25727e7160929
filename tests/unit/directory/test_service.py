"""The Directory end to end in one process: pool, parking, supervision, adoption, limits of time."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from actors.protocol.tools import CallKey, SpawnOrder
from orchestrator.directory.orders import OrderFailed
from session_store.messages import USER, Message
from session_store.requests import Open
from tests.support.local_directory import QUICK, LocalWorld


def shell(command: str) -> dict:
    return {"name": "Shell", "arguments": {"command": command}}


def spawn(**arguments: object) -> dict:
    return {"name": "SpawnPod", "arguments": arguments}


WAIT = {"name": "WaitForPods", "arguments": {}}


@pytest.fixture
async def worlds():
    made: list[LocalWorld] = []
    yield made
    for world in made:
        await world.close()


async def test_a_root_is_bound_runs_and_is_parked_after_its_rest(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, [{"text": "hello", "repeat": True}])
    worlds.append(world)
    await world.start()
    pod = await world.create("hi")
    row = await world.until_status(pod, "idle")
    assert row.outcome == "finished"
    await world.until(lambda: world.actor_of(pod) is None)
    assert not (await world.row(pod)).owned
    await world.send(pod, "again")
    await world.until(lambda: world.actor_of(pod) is not None)
    again = await world.until_status(pod, "idle")
    assert again.epoch == row.epoch + 1


async def test_a_tree_concludes_and_every_child_is_heard_once(worlds: list, tmp_path: Path) -> None:
    spawns = [spawn(task=f"part {n}", name=f"c{n}") for n in range(5)]
    world = LocalWorld(
        tmp_path,
        [
            {"match": {"pod": "root"}, "tool_calls": [*spawns, WAIT]},
            {"match": {"pod": "root"}, "text": "all heard"},
            {"match": {"pod": "c*"}, "text": "child done"},
        ],
    )
    worlds.append(world)
    await world.start()
    pod = await world.create("go", name="root")
    row = await world.until(lambda: _finished(world, pod))
    assert row.outcome == "finished"
    events = await world.events(pod)
    assert sorted(e["pod_name"] for e in events) == ["c0", "c1", "c2", "c3", "c4"]
    assert len({e["event_id"] for e in events}) == 5


async def _finished(world: LocalWorld, pod: str):
    row = await world.row(pod)
    return row if row.status == "idle" and row.outcome == "finished" else None


async def test_E04_a_revived_child_goes_on_and_its_end_is_told_once(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(
        tmp_path,
        [
            {"match": {"pod": "root"}, "tool_calls": [spawn(task="work", name="child"), WAIT]},
            {"match": {"pod": "root"}, "text": "heard"},
            {"match": {"pod": "child"}, "tool_calls": [shell("sleep 0.4")]},
            {"match": {"pod": "child"}, "text": "done"},
        ],
    )
    worlds.append(world)
    await world.start()
    pod = await world.create("go", name="root")
    (child,) = await world.until(lambda: world.children(pod))
    await world.until(lambda: world.actor_of(child.id))
    world.hosts.crash(world.actor_of(child.id) or "")
    await world.until(lambda: _finished(world, pod))
    assert [(e["kind"], e["text"]) for e in await world.events(pod)] == [("turn_ended", "done")]
    story = await world.story(child.id)
    assert [e["type"] for e in story].count("invoke") == 1
    assert (await world.row(child.id)).epoch == 2


async def test_E04_L05_a_child_that_dies_at_every_start_is_given_up_and_told_once(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(
        tmp_path,
        [
            {"match": {"pod": "root"}, "tool_calls": [spawn(task="work", name="child"), WAIT]},
            {"match": {"pod": "root"}, "text": "heard"},
            {"match": {"pod": "child"}, "tool_calls": [shell("sleep 5")]},
        ],
    )
    worlds.append(world)
    await world.start()
    pod = await world.create("go", name="root")
    (child,) = await world.until(lambda: world.children(pod))
    await world.until(lambda: world.actor_of(child.id))
    world.hosts.poison.add(child.id)
    world.hosts.crash(world.actor_of(child.id) or "")
    await world.until(lambda: _finished(world, pod))
    (event,) = await world.events(pod)
    assert event["kind"] == "errored"
    assert event["error"]["type"] == "died"
    assert "poison" in event["error"]["message"]
    row = await world.row(child.id)
    assert row.status == "errored"
    assert not row.open
    results = [r for e in await world.story(child.id) if e["type"] == "tool_results" for r in e["results"]]
    assert [r["status"] for r in results] == ["interrupted"]  # law 6: the open call is closed before the end
    assert [a.code for a in world.service.alerts.since(0)[1]] == ["pod-given-up"]
    world.hosts.poison.clear()
    epoch = row.epoch
    await asyncio.sleep(0.3)
    assert (await world.row(child.id)).epoch == epoch  # nobody starts it again by itself


async def test_L05_a_root_that_cannot_start_answers_its_prompt_with_an_error(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, [{"text": "hello"}])
    worlds.append(world)
    await world.start()
    pod = await world.create(None)
    world.hosts.poison.add(pod)
    await world.send(pod, "hi")
    row = await world.until_status(pod, "errored")
    assert row.error["type"] == "died"
    kinds = [e["type"] for e in await world.story(pod)]
    assert kinds == ["segment_start", "invoke", "user_input", "run_end"]
    world.hosts.poison.clear()
    await world.send(pod, "once more")
    await world.until_status(pod, "idle")


async def test_L05_a_paused_pod_is_not_started_again_when_its_process_dies(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, [{"tool_calls": [shell("sleep 0.2")]}, {"text": "done"}])
    worlds.append(world)
    await world.start()
    pod = await world.create("hi")
    await world.until(lambda: world.actor_of(pod))
    await world.deliver(pod, Message("p1", "pause", USER))
    row = await world.until_status(pod, "paused")
    world.hosts.crash(world.actor_of(pod) or "")
    await asyncio.sleep(0.3)
    assert (await world.row(pod)).epoch == row.epoch
    assert world.actor_of(pod) is None
    await world.deliver(pod, Message("r1", "resume", USER))
    assert (await world.until_status(pod, "idle")).outcome == "finished"


async def test_L01_a_spawn_that_fails_to_start_gives_all_back_and_tells_only_the_call(
    worlds: list, tmp_path: Path
) -> None:
    world = LocalWorld(
        tmp_path,
        [
            {"match": {"pod": "root", "request": 1}, "tool_calls": [spawn(task="work", name="child")]},
            {"match": {"pod": "root", "request": 2}, "tool_calls": [spawn(task="work", name="child")]},
            {"match": {"pod": "root"}, "text": "over"},
            {"match": {"pod": "child"}, "text": "done"},
        ],
    )
    worlds.append(world)
    await world.start()
    pod = await world.create(None, name="root", limits={"children": 1})
    bad: list[str] = []
    real_bind = world.hosts.bind

    async def bind(actor_id: str, session: str, directory_epoch: int, replaces: int):
        if session != pod and session not in bad and not bad:
            bad.append(session)
            world.hosts.poison.add(session)
        return await real_bind(actor_id, session, directory_epoch, replaces)

    world.hosts.bind = bind  # type: ignore[method-assign]
    await world.send(pod, "go")
    await world.until(lambda: _finished(world, pod))
    results = [r for e in await world.story(pod) if e["type"] == "tool_results" for r in e["results"]]
    assert [r["status"] for r in results] == ["error", "ok"]
    assert "poison" in results[0]["content"]
    first, second = await world.children(pod)
    assert (first.status, first.open) == ("ended", False)
    assert second.name == first.name == "child"
    assert [e["type"] for e in await world.story(first.id)] == ["segment_start", "pod_end"]
    assert [e["pod_id"] for e in await world.events(pod)] in ([], [second.id])


async def test_L01_a_spawn_that_nobody_takes_up_in_time_fails(worlds: list, tmp_path: Path) -> None:
    settings = replace(QUICK, max_actors=1, warm_pool=1, spawn_timeout=0.5, max_restarts=3)
    world = LocalWorld(
        tmp_path,
        [{"match": {"pod": "root"}, "tool_calls": [spawn(task="work")]}, {"match": {"pod": "root"}, "text": "over"}],
        settings,
    )
    worlds.append(world)
    await world.start()
    pod = await world.create("go", name="root")
    await world.until(lambda: _finished(world, pod))
    results = [r for e in await world.story(pod) if e["type"] == "tool_results" for r in e["results"]]
    assert results[0]["status"] == "error"
    assert "0.5 s" in results[0]["content"]
    (child,) = await world.children(pod)
    assert (child.status, child.open) == ("ended", False)


async def test_L06_the_same_spawn_asked_eight_times_at_once_is_one_child(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(
        tmp_path,
        [
            {"match": {"pod": "root"}, "tool_calls": [shell("sleep 0.5")]},
            {"match": {"pod": "root"}, "text": "over"},
            {"text": "child done"},
        ],
    )
    worlds.append(world)
    await world.start()
    pod = await world.create("go", name="root")
    row = await world.until_status(pod, "running")
    await world.until(lambda: world.actor_of(pod))
    row = await world.row(pod)
    order = SpawnOrder(CallKey(pod, 4, 0), row.run_id or "", row.epoch, "work")
    ids = await asyncio.gather(*(world.orders.spawn(pod, order) for _ in range(8)))
    ids.append(await world.orders.spawn(pod, order))
    assert len(set(ids)) == 1
    (child,) = await world.children(pod)
    story = await world.story(child.id)
    assert [e["type"] for e in story].count("user_input") == 1


async def test_L04_a_pod_that_ignores_its_stop_is_ended_by_force_and_stop_is_idempotent(
    worlds: list, tmp_path: Path
) -> None:
    world = LocalWorld(
        tmp_path,
        [
            {"match": {"pod": "root"}, "tool_calls": [spawn(task="work", name="child"), WAIT]},
            {"match": {"pod": "root"}, "text": "heard"},
            {"match": {"pod": "child"}, "tool_calls": [shell("sleep 30")]},
        ],
    )
    worlds.append(world)
    await world.start()
    pod = await world.create("go", name="root")
    (child,) = await world.until(lambda: world.children(pod))
    await world.until(lambda: world.actor_of(child.id))
    actor = world.hosts.actors[world.actor_of(child.id) or ""]
    actor.deaf = True  # its loop hangs: heartbeats go on, nothing is answered
    await world.deliver(child.id, Message("s1", "stop", USER, {"reason": "enough"}))
    assert await world.orders.stop(child.id)
    assert (await world.row(child.id)).status == "ended"
    assert actor.dead.done()
    assert await world.orders.stop(child.id)
    await world.until(lambda: _finished(world, pod))
    assert [e["kind"] for e in await world.events(pod)] == ["shut_down"]


async def test_L03_stop_ends_what_is_below_except_detached(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(
        tmp_path,
        [
            {
                "match": {"pod": "root"},
                "tool_calls": [spawn(task="a", name="mid"), spawn(task="b", name="free", detached=True), WAIT],
            },
            {"match": {"pod": "mid"}, "tool_calls": [spawn(task="c", name="leaf"), WAIT]},
            {"match": {"pod": "leaf"}, "tool_calls": [shell("sleep 30")]},
            {"match": {"pod": "free"}, "tool_calls": [shell("sleep 0.6")]},
            {"match": {"pod": "free"}, "text": "free done"},
        ],
    )
    worlds.append(world)
    await world.start()
    pod = await world.create("go", name="root")
    mid = (await world.until(lambda: _children(world, pod, 2)))[0]
    (leaf,) = await world.until(lambda: world.children(mid.id))
    await world.deliver(pod, Message("s1", "stop", USER))
    assert await world.orders.stop(pod)
    assert (await world.row(mid.id)).status == "ended"
    assert (await world.row(leaf.id)).status == "ended"
    free = next(r for r in await world.children(pod) if r.name == "free")
    assert (await world.until_status(free.id, "idle")).outcome == "finished"


async def _children(world: LocalWorld, pod: str, least: int):
    found = await world.children(pod)
    return found if len(found) >= least else None


async def test_E02_a_lost_hint_costs_at_most_a_sweep(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(
        tmp_path,
        [
            {"match": {"pod": "root"}, "tool_calls": [spawn(task="work", name="c1"), spawn(task="work", name="c2")]},
            {"match": {"pod": "root"}, "text": "now idle", "repeat": True},
            {"match": {"pod": "c*"}, "tool_calls": [shell("sleep 0.3")]},
            {"match": {"pod": "c*"}, "text": "done"},
        ],
    )
    worlds.append(world)
    world.lose_hints = True
    await world.start()
    pod = await world.create("go", name="root")

    async def both() -> bool:
        return len(await world.events(pod)) == 2 and (await world.row(pod)).status == "idle"

    await world.until(both)


async def test_S07_S14_a_frozen_process_is_killed_and_its_session_goes_on_under_the_next_epoch(
    worlds: list, tmp_path: Path
) -> None:
    world = LocalWorld(tmp_path, [{"tool_calls": [shell("sleep 1.5")]}, {"text": "done"}])
    worlds.append(world)
    await world.start()
    pod = await world.create("hi")
    first = await world.until(lambda: world.actor_of(pod))
    world.hosts.actors[first].frozen = True
    row = await world.until_status(pod, "idle")
    assert row.outcome == "finished"
    assert row.epoch == 2
    assert world.hosts.actors[first].dead.done()


async def test_a_restarted_directory_adopts_what_lives_and_starts_nothing_twice(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, [{"tool_calls": [shell("sleep 0.4")]}, {"text": "done"}])
    worlds.append(world)
    await world.start()
    pod = await world.create("hi")
    actor = await world.until(lambda: world.actor_of(pod))
    starts = world.hosts.starts
    await world.restart_directory()
    assert world.actor_of(pod) == actor
    row = await world.until_status(pod, "idle")
    assert (row.epoch, row.outcome) == (1, "finished")
    assert world.hosts.starts <= starts + 1


async def test_a_restarted_directory_has_a_session_dropped_that_another_epoch_owns(
    worlds: list, tmp_path: Path
) -> None:
    world = LocalWorld(tmp_path, [{"tool_calls": [shell("sleep 30")]}, {"text": "done"}])
    worlds.append(world)
    await world.start()
    pod = await world.create("hi")
    actor_id = await world.until(lambda: world.actor_of(pod))
    await world.service.close()
    await world.store.execute(Open(pod, world.service.table.epoch))
    await world.restart_directory()
    await world.until(lambda: all(h.epoch != 1 for h in world.hosts.actors[actor_id].host.held()))
    await world.until(lambda: world.actor_of(pod) is not None)
    assert world.service.where(pod)[1] == 3


async def test_an_actor_that_no_directory_knows_gets_no_lease_and_is_ended(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(tmp_path)
    worlds.append(world)
    await world.start()
    stranger = world.hosts.actors["0-9"] = world.actor("0-9")
    with pytest.raises(LookupError):
        world.service.beat("0-9", ())
    await world.until(stranger.dead.done)


async def test_an_unproven_lease_is_waited_out_and_a_proven_one_is_not(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, [{"tool_calls": [shell("sleep 0.1")]}, {"text": "done"}])
    worlds.append(world)
    await world.start()
    pod = await world.create("hi")
    await world.until(lambda: world.actor_of(pod))
    await world.service.close()
    for actor_id in world.hosts.actors:
        world.hosts.crash(actor_id)
    world.alone = False
    began = asyncio.get_running_loop().time()
    await world.restart_directory()
    await world.until_status(pod, "idle")
    assert asyncio.get_running_loop().time() - began >= QUICK.lease + 1.0


async def test_only_the_trees_of_this_home_go_on(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, [{"text": "done"}])
    worlds.append(world)
    await world.start(roots=set())
    strange = await world.create("not mine")
    mine = await world.create("mine", owner_run=True)
    await world.until_status(mine, "idle")
    await asyncio.sleep(0.2)
    row = await world.row(strange)
    assert (row.status, row.owned, row.run_id) == ("running", False, None)
    world.service.adopt_root(strange)
    await world.until_status(strange, "idle")
    await world.restart_directory()
    assert world.service.table.roots == {mine, strange}
    await world.restart_directory()
    assert world.service.table.roots == {mine, strange}


async def test_many_pods_in_few_actors(worlds: list, tmp_path: Path) -> None:
    settings = replace(QUICK, pods_per_actor=8)
    world = LocalWorld(tmp_path, [{"tool_calls": [shell("sleep 0.1")]}, {"text": "done"}], settings)
    worlds.append(world)
    await world.start()
    pods = [await world.create("hi") for _ in range(20)]
    for pod in pods:
        await world.until_status(pod, "idle")
    assert world.hosts.starts <= 5


async def test_one_poisonous_pod_takes_no_other_with_it_for_long(worlds: list, tmp_path: Path) -> None:
    settings = replace(QUICK, pods_per_actor=8)
    world = LocalWorld(tmp_path, [{"tool_calls": [shell("sleep 0.6")]}, {"text": "done"}], settings)
    worlds.append(world)
    await world.start()
    good = [await world.create("hi") for _ in range(4)]
    bad = await world.create(None)
    world.hosts.poison.add(bad)
    await world.send(bad, "hi")
    for pod in good:
        assert (await world.until_status(pod, "idle", "errored")).outcome == "finished"
    assert (await world.until_status(bad, "errored")).error["type"] == "died"


async def test_pods_at_rest_make_room_for_those_with_work(worlds: list, tmp_path: Path) -> None:
    settings = replace(QUICK, max_actors=1, park_after=60.0)
    world = LocalWorld(tmp_path, [{"text": "done"}], settings)
    worlds.append(world)
    await world.start()
    first = await world.create("hi")
    await world.until_status(first, "idle")
    second = await world.create("hi")
    await world.until_status(second, "idle")
    assert world.hosts.starts == 1


async def test_actors_that_die_at_their_start_are_tried_again_with_growing_waits(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, [{"text": "done"}])
    worlds.append(world)
    world.hosts.broken_starts = 2
    await world.start()
    pod = await world.create("hi")
    began = asyncio.get_running_loop().time()
    await world.until_status(pod, "idle")
    assert asyncio.get_running_loop().time() - began >= 1.0
    assert [a.code for a in world.service.alerts.since(0)[1]] == ["actor-start-failed"] * 2


async def test_an_unknown_model_is_refused_at_the_door(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(tmp_path)
    worlds.append(world)
    await world.start()
    with pytest.raises(OrderFailed, match=r"no model `scriptd`.*`scripted`"):
        await world.create("hi", model="scriptd")


async def test_S02_the_parent_of_a_child_whose_log_is_damaged_hears_of_it_once(worlds: list, tmp_path: Path) -> None:
    world = LocalWorld(
        tmp_path,
        [
            {"match": {"pod": "root"}, "tool_calls": [spawn(task="work", name="child"), WAIT]},
            {"match": {"pod": "root"}, "text": "heard"},
            {"match": {"pod": "child"}, "tool_calls": [shell("sleep 5")]},
        ],
    )
    worlds.append(world)
    await world.start()
    pod = await world.create("go", name="root")
    (child,) = await world.until(lambda: world.children(pod))
    await world.until(lambda: world.actor_of(child.id))
    world.damaged.add(child.id)
    world.hosts.crash(world.actor_of(child.id) or "")
    await world.until(lambda: _finished(world, pod))
    events = await world.events(pod)
    assert [(e["kind"], e["error"]["type"]) for e in events] == [("errored", "store_damaged")]
