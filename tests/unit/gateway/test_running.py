"""The HTTP seam over Pods that really run, by the scripted model."""

import asyncio
from pathlib import Path

from session_store.entries import Invoke, RunEnd, UserInput
from tests.support.control_plane import RunningPlane
from tests.support.gateway import client_of, served, stream, texts


async def test_T06_twenty_prompts_at_once_are_each_answered_in_a_turn_of_their_own(tmp_path: Path) -> None:
    plane = RunningPlane(tmp_path, [{"match": {"request": n}, "text": f"answer {n}"} for n in range(1, 21)])
    async with client_of(plane) as http:
        pod = (await http.post("/v1/pods", json={})).json()
        path = f"/v1/pods/{pod['id']}"
        sent = await asyncio.gather(
            *(http.post(f"{path}/messages", json={"content": f"p{n}", "message_id": f"m{n}"}) for n in range(20))
        )
        assert {r.status_code for r in sent} == {202}
        results = await asyncio.gather(
            *(http.get(f"{path}/result", params={"message_id": f"m{n}", "wait": 20}) for n in range(20))
        )
        log = plane.log(pod["id"])
        taken = [e.message_id for e in log if isinstance(e, UserInput)]
        assert sorted(taken) == sorted(f"m{n}" for n in range(20))
        assert len([e for e in log if isinstance(e, Invoke)]) == 20
        assert {r.json()["outcome"] for r in results} == {"finished"}
        assert next(r.json() for m, r in enumerate(results) if f"m{m}" == taken[-1])["status"] == "idle"
        # Each got the text of its own turn: the order of the turns is the order of the log.
        assert [results[int(m[1:])].json()["text"] for m in taken] == [f"answer {n}" for n in range(1, 21)]
    await plane.pods.close()


async def test_T01_a_prompt_cancelled_before_anything_was_produced_is_given_back(tmp_path: Path) -> None:
    plane = RunningPlane(tmp_path, [{"text": "second"}])
    plane.free.clear()
    async with client_of(plane) as http:
        pod = (await http.post("/v1/pods", json={"prompt": "first", "message_id": "m1"})).json()
        path = f"/v1/pods/{pod['id']}"
        await asyncio.sleep(0.1)
        cancelled = await http.post(f"{path}/cancel", json={"message_id": "c1"})
        assert cancelled.status_code == 202
        told = cancelled.json()
        assert told["changed"] is True
        assert told["outcome"] == "withdrawn"
        assert told["withdrawn"] == [{"message_id": "m1", "segments": [{"type": "text", "text": "first"}]}]
        plane.free.set()
        await http.post(f"{path}/messages", json={"content": "next", "message_id": "m2"})
        result = await http.get(f"{path}/result", params={"message_id": "m2", "wait": 10})
        assert result.json()["text"] == "second"
        again = (await http.post(f"{path}/cancel", json={"message_id": "c1"})).json()  # the first answer was lost, say
        assert (again["outcome"], again["withdrawn"]) == ("withdrawn", told["withdrawn"])
        first = await http.get(f"{path}/result", params={"message_id": "m1", "wait": 0})
        assert first.json()["outcome"] == "withdrawn"
    await plane.pods.close()


async def test_T07_a_cancel_ends_its_turn_only_unless_it_clears_the_queue(tmp_path: Path) -> None:
    plane = RunningPlane(tmp_path, [{"text": "done"}] * 4)
    plane.free.clear()
    async with client_of(plane) as http:
        pod = (await http.post("/v1/pods", json={"prompt": "first", "message_id": "m1"})).json()
        path = f"/v1/pods/{pod['id']}"
        for n in (2, 3):
            await http.post(f"{path}/messages", json={"content": f"p{n}", "message_id": f"m{n}"})
        await asyncio.sleep(0.1)
        told = (await http.post(f"{path}/cancel")).json()
        assert [w["message_id"] for w in told["withdrawn"]] == ["m1"]
        plane.free.set()
        result = await http.get(f"{path}/result", params={"message_id": "m3", "wait": 10})
        assert result.json()["outcome"] == "finished"
        ends = [e.outcome for e in plane.log(pod["id"]) if isinstance(e, RunEnd)]
        assert ends == ["withdrawn", "finished", "finished"]

        plane.free.clear()
        for n in (4, 5, 6):
            await http.post(f"{path}/messages", json={"content": f"p{n}", "message_id": f"m{n}"})
        await asyncio.sleep(0.1)
        body = {"clear_queue": True, "message_id": "c2"}
        told = (await http.post(f"{path}/cancel", json=body)).json()
        assert [w["message_id"] for w in told["withdrawn"]] == ["m4", "m5", "m6"]
        assert told["status"] == "idle"
        assert (await http.post(f"{path}/cancel", json=body)).json() == told
    await plane.pods.close()


async def test_live_text_of_a_running_pod_ends_in_its_entry(tmp_path: Path) -> None:
    words = "日本 🙂 words " * 20
    plane = RunningPlane(tmp_path, [{"text": words, "delay_ms": 100}])
    async with served(plane) as on:
        pod = (await on.http.post("/v1/pods", json={})).json()
        async with stream(on.http, f"/v1/pods/{pod['id']}/events") as events:
            await on.http.post(f"/v1/pods/{pod['id']}/messages", json={"content": "go"})
            seen = await events.until("status", status="idle", generation=1)
            items = next(e for e in seen if e.data.get("type") == "assistant_items").data["items"]
            assert items[0]["text"] == words
            before = seen[: [e.data.get("type") for e in seen].index("assistant_items")]
            live = texts(before)
            assert all(words.startswith(text) for text in live.values())
            assert set(live) <= {items[0]["block"]}
    await plane.pods.close()


async def test_L03_a_cancel_of_a_pod_at_rest_reaches_its_children_at_work_and_wakes_nobody(tmp_path: Path) -> None:
    plane = RunningPlane(
        tmp_path,
        [
            {"match": {"pod": "r"}, "tool_calls": [{"name": "SpawnPod", "arguments": {"task": "t", "name": "kid"}}]},
            {"match": {"pod": "r"}, "text": "I do not wait"},
            {"match": {"pod": "kid"}, "tool_calls": [{"name": "Shell", "arguments": {"command": "sleep 30"}}]},
        ],
    )
    async with client_of(plane) as http:
        pod = (await http.post("/v1/pods", json={"prompt": "go", "name": "r"})).json()
        path = f"/v1/pods/{pod['id']}"
        assert (await http.get(f"{path}/result", params={"wait": 10})).json()["text"] == "I do not wait"
        kid = (await http.get("/v1/pods", params={"parent": pod["id"]})).json()["pods"][0]
        assert kid["status"] == "running"
        assert (await http.post(f"{path}/cancel")).json()["changed"] is True
        ended = await http.get(f"/v1/pods/{kid['id']}/result", params={"wait": 10})
        assert ended.json()["outcome"] == "cancelled"
        await asyncio.sleep(0.2)
        assert len([e for e in plane.log(pod["id"]) if isinstance(e, Invoke)]) == 1
        assert (await http.post(f"{path}/cancel")).json()["changed"] is False
    await plane.pods.close()
