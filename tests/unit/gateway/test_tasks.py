"""`GET /v1/pods/{id}/tasks`: Pods that really plan, in this process, at work, at rest, in a new process and ended."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from actors.pod.host import PodHost
from actors.protocol.tasks import Task, TaskChange
from orchestrator.gateway.task_books import KEPT, TaskBooks
from session_store.entries import Invoke, LogEntry, ToolResults
from session_store.items import ToolResult
from tests.support import store as words
from tests.support.control_plane import FakePlane, RunningPlane
from tests.support.gateway import client_of

POD = "01990000-0000-7000-8000-0000000000ab"
CALLS = [
    {"name": "TaskCreate", "arguments": {"subject": "first", "description": "with care"}},
    {"name": "TaskCreate", "arguments": {"subject": "second"}},
    {"name": "TaskUpdate", "arguments": {"taskid": 7, "status": "completed"}},
    {"name": "TaskUpdate", "arguments": {"taskid": 1, "status": "inprogress"}},
]
LINES: list[dict[str, Any]] = [
    {"match": {"request": 1}, "tool_calls": CALLS},
    {"match": {"request": 2}, "text": "Planned."},
    {"match": {"request": 3}, "tool_calls": [{"name": "TaskCreate", "arguments": {"subject": "third"}}]},
    {"match": {"request": 4}, "text": "One more."},
]
FIRST = {"taskid": 1, "status": "inprogress", "subject": "first", "description": "with care"}
SECOND = {"taskid": 2, "status": "pending", "subject": "second"}
THIRD = {"taskid": 3, "status": "pending", "subject": "third"}


async def rested(http: httpx.AsyncClient, pod_id: str, message_id: str) -> None:
    async with asyncio.timeout(10):
        found = await http.get(f"/v1/pods/{pod_id}/result", params={"message_id": message_id})
        assert found.json()["outcome"] == "finished", found.text


async def test_K08_the_list_is_the_sessions_own_and_survives_its_process(tmp_path: Path) -> None:
    plane = RunningPlane(tmp_path, LINES)
    async with client_of(plane) as http:
        pod_id = (await http.post("/v1/pods", json={"prompt": "plan", "message_id": "m1"})).json()["id"]
        other = (await http.post("/v1/pods", json={})).json()["id"]
        await rested(http, pod_id, "m1")
        told = (await http.get(f"/v1/pods/{pod_id}/tasks")).json()
        assert told["tasks"] == [FIRST, SECOND]
        assert told["planning"] == "tasks"
        assert told["summary"] == {"total": 2, "pending": 1, "inprogress": 1, "completed": 0, "deleted": 0}
        assert told["head_seq"] == plane.row(pod_id).head
        assert (await http.get(f"/v1/pods/{other}/tasks")).json()["tasks"] == []

        await plane.pods.host.close()
        plane.pods.host = PodHost(plane.pods.parts)
        assert (await http.get(f"/v1/pods/{pod_id}/tasks")).json() == told
        await http.post(f"/v1/pods/{pod_id}/messages", json={"content": "more", "message_id": "m2"})
        await rested(http, pod_id, "m2")
        assert (await http.get(f"/v1/pods/{pod_id}/tasks")).json()["tasks"] == [FIRST, SECOND, THIRD]

        await http.post(f"/v1/pods/{pod_id}/stop", json={})
        await plane.pods.until(pod_id, "ended")
        assert (await http.get(f"/v1/pods/{pod_id}/tasks")).json()["tasks"] == [FIRST, SECOND, THIRD]
    await plane.pods.close()


async def test_what_the_calls_of_one_reply_did_is_in_the_log_once_each(tmp_path: Path) -> None:
    plane = RunningPlane(tmp_path, LINES)
    async with client_of(plane) as http:
        pod_id = (await http.post("/v1/pods", json={"prompt": "plan", "message_id": "m1"})).json()["id"]
        await rested(http, pod_id, "m1")
        entries = (await http.get(f"/v1/pods/{pod_id}/log")).json()["entries"]
        results = [r for e in entries if e["type"] == "tool_results" for r in e["results"]]
        assert [(r["index"], r["status"]) for r in results] == [(0, "ok"), (1, "ok"), (2, "error"), (3, "ok")]
        assert [r["data"]["tasks"]["put"][0]["taskid"] for r in results if r["status"] == "ok"] == [1, 2, 1]
    await plane.pods.close()


async def test_looking_again_reads_what_is_new_and_many_lookers_agree() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, POD)
    async with client_of(plane) as http:
        for n in range(1, 4):
            data = TaskChange((Task(n, "pending", f"task {n}"),), n + 1).data()
            owner.append(ToolResults((ToolResult(1, 0, "c", "TaskCreate", "ok", "Done.", None, data),)))
            looks = await asyncio.gather(*(http.get(f"/v1/pods/{POD}/tasks") for _ in range(5)))
            assert {look.json()["head_seq"] for look in looks} == {owner.head}
            assert all([t["taskid"] for t in look.json()["tasks"]] == list(range(1, n + 1)) for look in looks)


async def test_only_so_many_lists_are_kept() -> None:
    asked: list[tuple[str, int]] = []

    async def pages(session: str, after: int) -> AsyncIterator[Sequence[LogEntry]]:
        asked.append((session, after))
        yield [Invoke("r", "prompt", seq=after + 1)]

    books = TaskBooks(pages)
    for session in [*map(str, range(KEPT + 1)), "0", str(KEPT)]:
        await books.look(session)
    assert asked[-2:] == [("0", 0), (str(KEPT), 1)]


async def test_a_pod_that_nobody_knows_has_no_tasks() -> None:
    async with client_of(FakePlane()) as http:
        assert (await http.get("/v1/pods/01990000-0000-7000-8000-00000000beef/tasks")).status_code == 404
