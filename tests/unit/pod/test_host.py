"""The Pod's shell end to end, without Ray: driver, host, tools, children, over the memory store."""

import asyncio
from pathlib import Path

from actors.protocol.model import ModelError
from tests.support.local_pods import LocalPods


def kinds(story: list[dict]) -> list[str]:
    return [e["type"] for e in story]


async def test_a_prompt_runs_tools_and_finishes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    pods = LocalPods(
        tmp_path,
        [
            {"tool_calls": [{"name": "Read", "arguments": {"path": "a.txt"}}, {"name": "Nope", "arguments": {}}]},
            {"text": "done"},
        ],
    )
    pod = await pods.create("read it")
    await pods.until(pod, "idle")
    story = await pods.story(pod)
    assert kinds(story)[:5] == ["segment_start", "invoke", "user_input", "assistant_items", "llm_usage"]
    assert kinds(story)[-3:] == ["assistant_items", "llm_usage", "run_end"]
    results = [r for e in story if e["type"] == "tool_results" for r in e["results"]]
    assert sorted(r["status"] for r in results) == ["error", "ok"]
    assert story[-1]["outcome"] == "finished"
    await pods.close()


async def test_a_parent_spawns_waits_and_hears_each_child_once(tmp_path: Path) -> None:
    spawn = [{"name": "SpawnPod", "arguments": {"task": f"part {n}", "name": f"c{n}"}} for n in range(3)]
    pods = LocalPods(
        tmp_path,
        [
            {"match": {"pod": "root"}, "tool_calls": [*spawn, {"name": "WaitForPods", "arguments": {}}]},
            {"match": {"pod": "root"}, "text": "all heard"},
            {"match": {"pod": "c*"}, "tool_calls": [{"name": "Shell", "arguments": {"command": "sleep 0.2; echo hi"}}]},
            {"match": {"pod": "c*"}, "text": "child done"},
        ],
    )
    pod = await pods.create("do it", name="root")
    row = await pods.until(pod, "idle", 15)
    assert row.outcome == "finished"
    story = await pods.story(pod)
    events = [i["payload"]["event"] for e in story if e["type"] == "system_items" for i in e["items"]]
    heard = [(e["kind"], e["outcome"], e["text"]) for e in events]
    waited = "waiting_on_children" in [e.get("outcome") for e in story]
    assert heard == [("turn_ended", "finished", "child done")] * 3
    assert waited
    assert len({e["event_id"] for e in events}) == 3
    await pods.close()


async def test_a_model_that_cannot_be_had_fails_the_run_and_the_next_one_may_find_it(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path, [{"match": {"request": 2}, "text": "here I am"}])
    pods.parts.refuses = ModelError("auth", "[models.m] needs a key: set M_KEY")
    pod = await pods.create("hello")
    row = await pods.until(pod, "errored")
    assert row.error == {"type": "auth", "message": "[models.m] needs a key: set M_KEY"}
    pods.parts.refuses = None
    await pods.host.unbind(pod)
    await pods.send(pod, pods.prompt("and now?", "again"))
    row = await pods.until(pod, "idle")
    assert row.outcome == "finished"
    await pods.close()


async def test_V03_whoever_watches_hears_at_once_that_the_pod_was_parked_and_so_misses_no_text_of_the_next(
    tmp_path: Path,
) -> None:
    pods = LocalPods(tmp_path, [{"text": "first"}])
    pod = await pods.create("go")
    await pods.until(pod, "idle")
    _, cursor, _ = await pods.host.watch(pod, 0, 0.0)
    watching = asyncio.create_task(pods.host.watch(pod, cursor, 60.0))
    await asyncio.sleep(0)
    await pods.host.unbind(pod)
    assert await asyncio.wait_for(watching, 5.0) == (0, 0, ())
    await pods.close()
