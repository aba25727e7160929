"""Trees on a real model server with `tool_mode = "schema"`. Its words are nonsense: outcomes are judged, not texts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from actors.protocol.config import ModelSpec
from orchestrator.runtime import Limits, ProfileSpec, RuntimeSettings
from session_store.items import Json
from tests.support.llama_server import llama_server, parts
from tests.support.ray_world import RayWorld, check_log, children, finished, story

pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("ray_cluster"),
    pytest.mark.skipif(parts() is None, reason="the local model server is not installed (requirements-live.lock)"),
]

TYPED = {"finished", "limit_reached", "errored"}
SPAWN = {"name": "SpawnPod", "arguments": {"task": "Which files are here? Use Glob.", "profile": "live"}}
LINES = [
    {"match": {"pod": "boss"}, "tool_calls": [SPAWN, SPAWN, {"name": "WaitForPods", "arguments": {}}]},
    {"match": {"pod": "boss"}, "text": "all heard", "repeat": True},
]


@pytest.fixture(scope="module")
def world(ray_cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayWorld]:
    folder = tmp_path_factory.mktemp("live")
    with llama_server(folder / "server.log") as url:
        body = {"body": {"seed": 1, "temperature": 0.7}}
        live = ModelSpec("live", "openai", "m", f"{url}/v1", tool_mode="schema", max_output_tokens=60, options=body)
        few, lone = Limits(requests=3), Limits(requests=3, depth=1, children=1)
        worker = ProfileSpec("live", "live", "You are brief.", ("Glob",), limits=few)
        leader = ProfileSpec("leader", "live", "Give the work to a Pod.", ("SpawnPod", "WaitForPods"), limits=lone)

        def amend(settings: RuntimeSettings) -> RuntimeSettings:
            profiles = {"live": worker, "leader": leader}
            return replace(settings, models={**settings.models, "live": live}, profiles=profiles)

        made = RayWorld(folder, LINES, amend=amend)
        (made.workspace / "a.txt").write_text("hello")
        yield made
        made.close()


async def test_children_on_a_real_model_come_to_typed_outcomes_that_their_parent_hears(world: RayWorld) -> None:
    control = world.control()
    boss = await world.create(control, "count the files", name="boss")
    heard: list[dict[str, Json]] = []
    while len(heard) < 2:  # an error of one ends the wait for both, and the other is heard later
        assert (await finished(control, boss, 120)).outcome == "finished"
        items = [i for e in await story(control, boss) if e["type"] == "system_items" for i in e["items"]]
        heard = [i["payload"]["event"] for i in items]
        await asyncio.sleep(0.05)
    kids = await children(control, boss)
    assert len(kids) == 2
    assert sorted(e["pod_id"] for e in heard) == sorted(k.id for k in kids)
    for kid in kids:
        entries = await story(control, kid.id)
        check_log(entries)
        assert kid.outcome in TYPED
        assert next(e["outcome"] for e in heard if e["pod_id"] == kid.id) == kid.outcome
        assert kid.requests >= 1, kid.error
        assert kid.input > 0


async def test_a_root_on_a_real_model_comes_to_a_typed_outcome_with_all_it_spawned(world: RayWorld) -> None:
    control = world.control()
    root = await world.create(control, "Start one Pod that lists the files, then wait for it.", profile="leader")
    found = await finished(control, root, 120)
    assert found.outcome in TYPED
    check_log(await story(control, root))
    for kid in await children(control, root):
        assert (await finished(control, kid.id, 120)).outcome in TYPED
