"""Prompts for a Pod at work, at the HTTP seam, over Pods that really run."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from session_store.entries import Invoke, RunEnd, UserInput
from tests.support.control_plane import RunningPlane
from tests.support.gateway import client_of

Http = httpx.AsyncClient


async def new(http: Http, **body: Any) -> tuple[str, str]:
    pod = (await http.post("/v1/pods", json=body)).json()
    return pod["id"], f"/v1/pods/{pod['id']}"


async def send(http: Http, path: str, text: str, when_busy: str = "queue") -> None:
    body = {"content": text, "message_id": text, "when_busy": when_busy}
    assert (await http.post(f"{path}/messages", json=body)).status_code == 202


async def outcome(http: Http, path: str, message_id: str) -> str:
    done = await http.get(f"{path}/result", params={"message_id": message_id, "wait": 10})
    return str(done.json()["outcome"])


def said(plane: RunningPlane, pod: str) -> list[str]:
    """The log in short: runs, prompts and replies."""
    told = []
    for entry in plane.log(pod):
        match entry:
            case Invoke():
                told.append("run")
            case UserInput():
                told.append(entry.segments[0].text)
            case RunEnd():
                told.append(entry.outcome)
            case _:
                if entry.type in ("assistant_items", "tool_results"):
                    told.append(entry.type)
    return told


async def test_a_steering_prompt_goes_in_at_the_next_safe_boundary_of_the_running_turn(tmp_path: Path) -> None:
    wait = {"name": "Shell", "arguments": {"command": "while [ ! -e go ]; do sleep 0.02; done"}}
    plane = RunningPlane(tmp_path, [{"tool_calls": [wait]}, {"text": "left it is"}])
    async with client_of(plane) as http:
        pod, path = await new(http, prompt="first", message_id="first")
        async with asyncio.timeout(10):
            while "assistant_items" not in said(plane, pod):
                await asyncio.sleep(0.01)
        await send(http, path, "look left", "steer")
        assert (await http.get(path)).json()["queue"] == 1  # the call's result comes first
        (tmp_path / "go").touch()
        assert await outcome(http, path, "look left") == "finished"
        first = ["run", "first", "assistant_items", "tool_results"]
        assert said(plane, pod) == [*first, "look left", "assistant_items", "finished"]
    await plane.pods.close()


async def test_an_interrupting_prompt_ends_the_run_and_is_answered_before_those_that_wait(tmp_path: Path) -> None:
    plane = RunningPlane(tmp_path, [{"match": {"request": n}, "text": f"answer {n}"} for n in range(1, 6)])
    plane.free.clear()
    async with client_of(plane) as http:
        pod, path = await new(http, prompt="first", message_id="first")
        await send(http, path, "waits")
        await asyncio.sleep(0.1)
        await send(http, path, "now", "interrupt")
        async with asyncio.timeout(10):
            while "now" not in said(plane, pod):
                await asyncio.sleep(0.01)
        plane.free.set()
        assert await outcome(http, path, "waits") == "finished"
        runs = ["run", "first", "cancelled", "run", "now", "assistant_items", "finished"]
        assert said(plane, pod) == [*runs, "run", "waits", "assistant_items", "finished"]
        assert await outcome(http, path, "first") == "cancelled"
    await plane.pods.close()


async def test_S06_T06_queued_prompts_outlive_a_killed_pod_each_once_and_in_order(tmp_path: Path) -> None:
    plane = RunningPlane(tmp_path, [{"match": {"request": n}, "text": f"answer {n}"} for n in range(1, 9)])
    plane.free.clear()
    async with client_of(plane) as http:
        pod, path = await new(http, prompt="p0", message_id="p0")
        for n in range(1, 5):
            await send(http, path, f"p{n}", "steer" if n == 3 else "queue")
        await asyncio.sleep(0.05)
        await plane.pods.host.drop(pod, "killed")
        for n in range(1, 5):  # the client never heard: it sends them again
            await send(http, path, f"p{n}", "steer" if n == 3 else "queue")
        plane.free.set()
        await plane.hint((pod,))
        assert await outcome(http, path, "p4") == "finished"
        taken = [e.message_id for e in plane.log(pod) if isinstance(e, UserInput)]
        assert taken == ["p0", "p3", "p1", "p2", "p4"]
        assert (await http.get(path)).json()["queue"] == 0
    await plane.pods.close()


def tool(called: str, **arguments: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": called, "arguments": arguments}]}


async def test_E12_a_parent_reads_on_after_its_child_was_rewound(tmp_path: Path) -> None:
    root: list[dict[str, Any]] = [
        {"tool_calls": [*tool("SpawnPod", task="t", name="kid")["tool_calls"], *tool("WaitForPods")["tool_calls"]]},
        {"text": "heard"},
        tool("ReadPodOutput", pod="kid"),
        {"text": "read"},
        tool("ReadPodOutput", pod="kid"),
        {"text": "read"},
        tool("ReadPodOutput", pod="kid"),
        {"text": "read"},
    ]
    lines = [{"match": {"pod": "r", "request": n}, **line} for n, line in enumerate(root, 1)]
    lines += [{"match": {"pod": "kid", "request": n}, "text": f"kid {n}"} for n in range(1, 4)]
    plane = RunningPlane(tmp_path, lines)
    async with client_of(plane) as http:
        pod, path = await new(http, prompt="go", name="r")
        async with asyncio.timeout(10):
            while "finished" not in said(plane, pod):
                await asyncio.sleep(0.01)
        (kid,) = (await http.get("/v1/pods", params={"parent": pod})).json()["pods"]
        own = f"/v1/pods/{kid['id']}"
        await send(http, path, "read")
        assert await outcome(http, path, "read") == "finished"
        await send(http, own, "more")
        assert await outcome(http, own, "more") == "finished"
        target = next(e.seq for e in plane.log(kid["id"]) if isinstance(e, UserInput) and e.message_id == "more")
        head = (await http.get(own)).json()["head_seq"]
        rewound = await http.post(f"{own}/rewind", json={"to_seq": target, "expected_head": head})
        assert rewound.json()["rewound"] == head + 1
        await send(http, own, "other")
        assert await outcome(http, own, "other") == "finished"
        await plane.pods.host.drop(pod, "killed")
        for again in ("read again", "and again"):
            await send(http, path, again)
            assert await outcome(http, path, again) == "finished"
        results = [r for e in plane.log(pod) if e.type == "tool_results" for r in e.results]
        read = [(r.content or "").split("\n") for r in results if r.name == "ReadPodOutput"]
        # What was rewound away had been written and not read: it is not lost. Nothing comes twice.
        assert read == [["kid 1", ""], ["kid 2", "kid 3", ""], [""]]
    await plane.pods.close()
