"""The control plane on a real Ray: trees, deaths of every process, and nothing lost or doubled."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Iterator

import pytest
import ray

from actors.pod.actor import NAMESPACE
from actors.protocol.alerts import Alert
from tests.conftest import LONG
from tests.support.ray_world import RayWorld, check_log, children, finished, row, story

pytestmark = pytest.mark.usefixtures("ray_cluster")

CHILDREN = 6


def shell(command: str) -> dict:
    return {"name": "Shell", "arguments": {"command": command}}


SPAWNS = [{"name": "SpawnPod", "arguments": {"task": f"part {n}", "name": f"c{n}"}} for n in range(CHILDREN)]
LINES = [
    {"match": {"pod": "tree*"}, "tool_calls": [*SPAWNS, {"name": "WaitForPods", "arguments": {}}]},
    {"match": {"pod": "tree*"}, "text": "all heard", "repeat": True},
    {"match": {"pod": "c*"}, "tool_calls": [shell("sleep 0.3; echo x >> effects; echo done")]},
    {"match": {"pod": "c*"}, "text": "child done", "repeat": True},
    {"match": {"pod": "slow*"}, "tool_calls": [shell("sleep 1.5")]},
    {"match": {"pod": "slow*"}, "text": "done", "repeat": True},
    {"text": "hello", "repeat": True},
]


@pytest.fixture(scope="module")
def world(ray_cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayWorld]:
    made = RayWorld(tmp_path_factory.mktemp("home"), LINES)
    yield made
    made.close()


async def check_tree(world: RayWorld, control, pod: str) -> None:
    root = await finished(control, pod)
    assert root.outcome == "finished"
    entries = await story(control, pod)
    check_log(entries)
    events = [i["payload"]["event"] for e in entries if e["type"] == "system_items" for i in e["items"]]
    rows = await children(control, pod)
    assert sorted(r.name for r in rows) == [f"c{n}" for n in range(CHILDREN)]
    assert sorted(e["pod_id"] for e in events if e["kind"] == "turn_ended") == sorted(r.id for r in rows)
    assert len(events) == CHILDREN
    for child in rows:
        log = await story(control, child.id)
        check_log(log)
        assert [e["type"] for e in log].count("user_input") == 1
        assert [e["type"] for e in log].count("run_end") == 1
        assert (child.status, child.open) == ("idle", False)


async def test_a_tree_runs_to_its_end(world: RayWorld) -> None:
    control = world.control()
    pod = await world.create(control, "go", name="tree-1")
    await check_tree(world, control, pod)
    told = await control.watch(pod, 0, 0.0)
    assert told.generation == (await row(control, pod)).epoch


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_E04_S07_a_killed_or_frozen_process_is_replaced_in_mid_turn(world: RayWorld, how: int) -> None:
    control = world.control()
    pod = await world.create(control, "go", name=f"slow-{how}")
    actor = await world.actor_of(pod)
    while not any(e["type"] == "assistant_items" for e in await story(control, pod)):
        await asyncio.sleep(0.01)
    world.kill(actor, how)
    end = await finished(control, pod)
    assert (end.outcome, end.epoch) == ("finished", 2)
    entries = await story(control, pod)
    check_log(entries)
    (result,) = [r for e in entries if e["type"] == "tool_results" for r in e["results"]]
    assert result["status"] == "interrupted"
    assert actor not in world.pod_actors()


async def test_the_directory_dies_in_the_middle_of_a_tree(world: RayWorld) -> None:
    control = world.control()
    pod = await world.create(control, "go", name="tree-2")
    await asyncio.sleep(0.3)
    world.kill("directory")
    await check_tree(world, control, pod)


async def test_the_store_dies_in_the_middle_of_a_tree(world: RayWorld) -> None:
    control = world.control()
    pod = await world.create(control, "go", name="tree-3")
    await asyncio.sleep(0.3)
    world.kill("session-store")
    await check_tree(world, control, pod)


@pytest.mark.parametrize("seed", range(20 if LONG else 3))
async def test_kill_any_process_at_any_moment_of_a_tree(world: RayWorld, seed: int) -> None:
    """Seeded: which processes die, and when. Everything is there once at the end."""
    chance = random.Random(seed)
    control = world.control()
    effects = world.workspace / "effects"
    before = effects.read_text().count("x") if effects.exists() else 0
    pod = await world.create(control, "go", name=f"tree-seed-{seed}")
    for _ in range(4):
        await asyncio.sleep(chance.uniform(0.05, 0.8))
        victims = ["session-store", "directory", *(await asyncio.to_thread(world.pod_actors)) * 2]
        victim = chance.choice(victims)
        try:
            await asyncio.to_thread(world.kill, victim)
        except Exception:
            continue  # it is dead or starting just now
    await check_tree(world, control, pod)
    assert effects.read_text().count("x") - before <= CHILDREN  # law 6: what was cut off is not run again


async def test_an_alert_outlives_its_pods_process_and_the_next_comes_over_a_directory_that_died(
    world: RayWorld,
) -> None:
    control = world.control()
    pod = await world.create(control, "go", name="slow-alert")
    first, second = (Alert(f"{pod}:9:{n}", "warning", "test", "日本🙂", n, pod) for n in (1, 2))

    async def raise_alert(actor: str, alert: Alert) -> None:
        handle = ray.get_actor(actor, namespace=NAMESPACE)
        await handle.__ray_call__.remote(lambda p: p._loop.call_soon_threadsafe(p._directory.alert, alert) and None)

    actor = await world.actor_of(pod)
    await raise_alert(actor, first)
    told = await control.alerts(pod, 0, 10.0)
    assert told.alerts == (first,)
    world.kill(actor)
    await finished(control, pod)
    assert (await control.alerts(pod, 0, 0.0)).alerts == (first,)
    assert first in (await control.alerts(None, 0, 0.0)).alerts
    actor = await world.actor_of(pod)
    world.kill("directory")
    await raise_alert(actor, second)
    assert (await control.alerts(pod, told.cursor, 20.0)).alerts == (second,)


async def test_stop_ends_a_tree_within_its_bound(world: RayWorld) -> None:
    control = world.control()
    pod = await world.create(control, "go", name="tree-stop")
    await asyncio.sleep(1.0)
    began = time.monotonic()
    await control.stop(pod, "user", "enough")
    while (await row(control, pod)).status != "ended":
        await asyncio.sleep(0.05)
    for child in await children(control, pod):
        while (await row(control, child.id)).status != "ended":
            await asyncio.sleep(0.05)
    assert time.monotonic() - began < 10
    assert await control.stop(pod, "user", "again") == "ended"
