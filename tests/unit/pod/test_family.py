"""A parent and its children over the memory store, without Ray: what is read, sent and heard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actors.pod.host import PodHost
from session_store.entries import Invoke, RunEnd, SystemItems, ToolResults, UserInput
from session_store.items import ToolResult
from tests.support.local_pods import LocalPods

WAIT = {"name": "WaitForPods", "arguments": {}}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


def of(pod: str, *calls: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    line: dict[str, Any] = {"match": {"pod": pod}}
    return {**line, "tool_calls": list(calls)} if calls else {**line, "text": text}


async def results(pods: LocalPods, pod: str, tool: str) -> list[ToolResult]:
    found = [r for e in await pods.log(pod) if isinstance(e, ToolResults) for r in e.results]
    return [r for r in found if r.name == tool]


async def test_E12_a_parent_reads_on_where_it_stopped_also_after_a_restart(tmp_path: Path) -> None:
    pods = LocalPods(
        tmp_path,
        [
            of("root", call("SpawnPod", task="count", name="child"), WAIT),
            of("root", call("ReadPodOutput", pod="child")),
            of("root", text="First part read."),
            of("root", call("SendToPod", pod="child", message="on"), WAIT),
            of("root", call("ReadPodOutput", pod="child")),
            of("root", call("ReadPodOutput", pod="child")),
            of("root", text="All read."),
            of("child", text="one two"),
            of("child", text="three four"),
        ],
    )
    root = await pods.create("go", name="root")
    await pods.until(root, "idle")
    await pods.host.close()
    pods.host = PodHost(pods.parts)  # a new process, with nothing but the log
    await pods.send(root, pods.prompt("go on", "again"))
    await pods.until(root, "idle")
    reads = await results(pods, root, "ReadPodOutput")
    assert [(r.status, (r.content or "").strip()) for r in reads] == [
        ("ok", "one two"),
        ("ok", "three four"),
        ("ok", ""),
    ]
    await pods.close()


async def test_E14_a_message_to_a_child_in_mid_turn_is_queued_and_run_next(tmp_path: Path) -> None:
    pods = LocalPods(
        tmp_path,
        [
            of("root", call("SpawnPod", task="work", name="child")),
            of("root", call("SendToPod", pod="child", message="and this")),
            of("root", WAIT),
            of("root", text="Heard."),
            of("root", text="Heard."),
            of("child", call("Shell", command="sleep 0.3")),
            of("child", text="First."),
            of("child", text="Second."),
        ],
    )
    root = await pods.create("go", name="root")
    events: list[dict[str, Any]] = []
    while len(events) < 2:
        await pods.until(root, "idle")
        events = [i.payload["event"] for e in await pods.log(root) if isinstance(e, SystemItems) for i in e.items]
    (sent,) = await results(pods, root, "SendToPod")
    (spawned,) = await results(pods, root, "SpawnPod")
    assert (sent.status, "running" in sent.summary) == ("ok", True)
    log = await pods.log(str((spawned.data or {})["pod_id"]))
    said = [e.segments[0].text for e in log if isinstance(e, UserInput)]
    assert said == ["work", "and this"]
    assert [type(e) for e in log if isinstance(e, Invoke | RunEnd)] == [Invoke, RunEnd, Invoke, RunEnd]
    assert [(e["outcome"], e["text"]) for e in events] == [("finished", "First."), ("finished", "Second.")]
    await pods.close()


async def test_E14_a_message_to_a_child_that_has_ended_is_refused_in_words(tmp_path: Path) -> None:
    pods = LocalPods(
        tmp_path,
        [
            of("root", call("SpawnPod", task="work", name="child"), WAIT),
            of("root", call("StopPod", pod="child")),
            of("root", call("SendToPod", pod="child", message="and this")),
            of("root", text="It is gone."),
            of("child", text="First."),
        ],
    )
    root = await pods.create("go", name="root")
    await pods.until(root, "idle")
    (sent,) = await results(pods, root, "SendToPod")
    assert (sent.status, "has ended" in sent.summary) == ("error", True)
    await pods.close()
