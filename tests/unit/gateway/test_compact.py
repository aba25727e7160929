"""`compact` at the HTTP seam, by Pods that really run."""

from __future__ import annotations

from pathlib import Path

from session_store.requests import FindMessage
from tests.support.control_plane import RunningPlane
from tests.support.gateway import client_of
from tests.unit.gateway.test_routes import check_problem

LONG = "word " * 700
SCRIPT = [
    {
        "match": {"pod": "compact"},
        "text": "<summary>They spoke of words.</summary>",
        "usage": {"input": 50, "output": 9},
    },
    {"text": "First."},
    {"text": "Second."},
    {"text": "Third."},
]


async def test_a_compaction_is_accepted_told_and_asked_for_again(tmp_path: Path) -> None:
    plane = RunningPlane(tmp_path, SCRIPT)
    try:
        async with client_of(plane) as http:
            pod = (await http.post("/v1/pods", json={"name": "root"})).json()
            path = f"/v1/pods/{pod['id']}"
            for n in range(2):
                await http.post(f"{path}/messages", json={"content": f"{n} {LONG}", "message_id": f"m{n}"})
                done = await http.get(f"{path}/result", params={"message_id": f"m{n}", "wait": 10})
                assert done.json()["outcome"] == "finished", done.text
            first = await http.post(f"{path}/compact", json={"message_id": "c"})
            told = first.json()
            assert first.status_code == 202
            assert (told["changed"], told["compacted"]) == (True, True), told
            assert told["after"] < told["before"]
            again = await http.post(f"{path}/compact", json={"message_id": "c"})
            assert again.status_code == 200
            assert {**again.json(), "changed": True} == told
            log = (await http.get(f"{path}/log")).json()["entries"]
            assert [e["type"] for e in log[-4:]] == ["extension", "segment_end", "segment_start", "extension"]
            usage = (await http.get("/v1/usage", params={"by": "worker"})).json()
            assert {row["worker"]: row["requests"] for row in usage["rows"]} == {"pod": 2, "compact": 1}
            empty = (await http.post("/v1/pods", json={"name": "empty"})).json()
            none = (await http.post(f"/v1/pods/{empty['id']}/compact")).json()
            assert (none["compacted"], none["error"]["type"]) == (False, "no_progress")
            assert (await http.get(path)).json()["status"] == "idle"
    finally:
        await plane.pods.close()


async def test_a_running_pod_is_busy_and_nothing_is_recorded(tmp_path: Path) -> None:
    plane = RunningPlane(tmp_path, [{"text": "done"}])
    plane.free.clear()
    async with client_of(plane) as http:
        pod = (await http.post("/v1/pods", json={"prompt": "go", "message_id": "m1"})).json()
        path = f"/v1/pods/{pod['id']}"
        check_problem(await http.post(f"{path}/compact", json={"message_id": "c"}), 409, "busy")
        assert plane.memory.execute(FindMessage(pod["id"], "c")).session is None
        check_problem(await http.post("/v1/pods/nobody/compact", json={}), 404, "not-found")
        plane.free.set()
        await http.get(f"{path}/result", params={"wait": 10})
    await plane.pods.close()


async def test_a_cancel_takes_an_order_back_while_the_summary_is_written(tmp_path: Path) -> None:
    slow = {"match": {"pod": "compact"}, "text": "<summary>Words.</summary>", "delay_ms": 60_000}
    plane = RunningPlane(tmp_path, [slow, *SCRIPT[1:]])
    try:
        async with client_of(plane) as http:
            pod = (await http.post("/v1/pods", json={"prompt": LONG, "message_id": "m"})).json()
            path = f"/v1/pods/{pod['id']}"
            await http.get(f"{path}/result", params={"message_id": "m", "wait": 10})
            accepted = await http.post(f"{path}/compact", json={"message_id": "c"})
            assert (accepted.status_code, accepted.json()["compacted"]) == (202, None)
            cancelled = await http.post(f"{path}/cancel", json={})
            assert cancelled.status_code == 202, cancelled.text
            told = (await http.post(f"{path}/compact", json={"message_id": "c"})).json()
            assert (told["compacted"], told["error"]["type"], told["status"]) == (False, "cancelled", "idle")
            assert "segment_end" not in [e.type for e in plane.log(pod["id"])]
    finally:
        await plane.pods.close()
