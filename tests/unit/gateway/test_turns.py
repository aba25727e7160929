"""Rewind and fork at the HTTP seam: refusals by Pods that the test plays, the rest by Pods that really run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from actors.models.scripted import ScriptedModel
from actors.protocol.live import LiveSink
from actors.protocol.model import ModelReply, ModelRequest
from orchestrator.gateway.views import HISTORY_SHOWN, entry_view
from session_store.entries import Choice, Origin, PodEnd, Question, RunEnd, SegmentStart
from session_store.items import Segment, UserMessage
from session_store.requests import FindMessage, Pending
from tests.support import store as words
from tests.support.control_plane import FakePlane, RunningPlane
from tests.support.gateway import QUICK, client_of
from tests.unit.gateway.test_routes import check_problem

Http = httpx.AsyncClient


class Recorder(ScriptedModel):
    """Answers `ok` and keeps what each request held."""

    def __init__(self) -> None:
        super().__init__([{"match": {"request": n}, "text": "ok"} for n in range(1, 30)])
        self.asked: list[list[str]] = []

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        self.asked.append([item.decode() for item in request.history])
        return await super().reply(request, live)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[RunningPlane, Http, Recorder]]:
    plane = RunningPlane(folder, [])
    recorder = plane.pods.parts.models["scripted"] = Recorder()
    try:
        async with client_of(plane) as http:
            yield plane, http, recorder
    finally:
        await plane.pods.close()


async def say(http: Http, path: str, *texts: str) -> None:
    for text in texts:
        sent = await http.post(f"{path}/messages", json={"content": text, "message_id": f"m-{text}"})
        assert sent.status_code == 202, sent.text
        done = await http.get(f"{path}/result", params={"message_id": f"m-{text}", "wait": 10})
        assert done.json()["outcome"] == "finished"


async def new(http: Http, *texts: str, name: str = "root") -> str:
    pod = (await http.post("/v1/pods", json={"name": name})).json()
    await say(http, f"/v1/pods/{pod['id']}", *texts)
    return f"/v1/pods/{pod['id']}"


async def head(http: Http, path: str) -> int:
    return int((await http.get(path)).json()["head_seq"])


async def seq_of(http: Http, path: str, text: str) -> int:
    log = (await http.get(f"{path}/log")).json()["entries"]
    return next(int(e["seq"]) for e in log if e["type"] == "user_input" and e["segments"][0]["text"] == text)


async def back(http: Http, path: str, text: str, **more: Any) -> httpx.Response:
    body = {"to_seq": await seq_of(http, path, text), "expected_head": await head(http, path), **more}
    return await http.post(f"{path}/rewind", json=body)


async def test_a_rewound_pod_goes_on_from_there_and_requests_hold_only_what_was_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, http, recorder):
        path = await new(http, "one", "two", "three")
        before = await head(http, path)
        told = await back(http, path, "two", message_id="r1")
        assert told.status_code == 202
        view = told.json()
        assert (view["changed"], view["rewound"], view["status"]) == (True, before + 1, "idle")
        assert view["prompt"] == {"message_id": "m-two", "segments": [{"type": "text", "text": "two"}]}
        again = await http.post(f"{path}/rewind", json={"to_seq": 1, "expected_head": 1, "message_id": "r1"})
        assert (again.status_code, again.json()["changed"], again.json()["rewound"]) == (200, False, before + 1)
        assert again.json()["prompt"] == view["prompt"]  # what was taken back, whatever is asked for now
        await say(http, path, "other")
        asked = " ".join(recorder.asked[-1])
        assert "one" in asked
        assert "other" in asked
        assert "two" not in asked
        assert "three" not in asked
        assert recorder.asked[-1][: len(recorder.asked[0])] == recorder.asked[0]  # byte by byte
        log = (await http.get(f"{path}/log")).json()["entries"]
        assert [e["seq"] for e in log] == list(range(1, len(log) + 1))  # law 7: nothing is removed
        assert {e["segments"][0]["text"] for e in log if e["type"] == "user_input"} == {"one", "two", "three", "other"}


async def test_a_rewind_survives_a_restart_and_goes_behind_an_earlier_one(tmp_path: Path) -> None:
    async with running(tmp_path) as (plane, http, recorder):
        path = await new(http, "one", "two", "three")
        await back(http, path, "three")
        await back(http, path, "two")
        await plane.pods.host.drop(path.rpartition("/")[2], "killed")
        await say(http, path, "other")
        assert [len([i for i in asked if "user" in i]) for asked in recorder.asked] == [1, 2, 3, 2]


async def test_of_two_rewinds_at_once_one_wins_and_the_other_gets_a_typed_conflict(tmp_path: Path) -> None:
    async with running(tmp_path) as (plane, http, _):
        path = await new(http, "one", "two")
        at = await head(http, path)
        bodies = [{"to_seq": await seq_of(http, path, text), "expected_head": at} for text in ("one", "two")]
        answers = await asyncio.gather(*(http.post(f"{path}/rewind", json=body) for body in bodies))
        assert sorted(a.status_code for a in answers) == [202, 409]
        lost = next(a for a in answers if a.status_code == 409)
        assert check_problem(lost, 409, "busy")["head_seq"] in (at, at + 1)
        assert [e.type for e in plane.log(path.rpartition("/")[2])].count("rewound") == 1


async def test_a_running_pod_is_busy_and_nothing_is_recorded(tmp_path: Path) -> None:
    plane = RunningPlane(tmp_path, [{"text": "done"}])
    plane.free.clear()
    async with client_of(plane) as http:
        pod = (await http.post("/v1/pods", json={"prompt": "go", "message_id": "m1"})).json()
        path = f"/v1/pods/{pod['id']}"
        await asyncio.sleep(0.1)
        refused = await http.post(f"{path}/rewind", json={"to_seq": 3, "expected_head": 3, "message_id": "r1"})
        check_problem(refused, 409, "busy")
        assert plane.memory.execute(FindMessage(pod["id"], "r1")).session is None
        plane.free.set()
        await http.get(f"{path}/result", params={"wait": 10})
    await plane.pods.close()


BAD_REWINDS = [
    ({}, "to_seq"),
    ({"to_seq": 3}, "expected_head"),
    ({"to_seq": "3", "expected_head": 4}, "to_seq"),
    ({"to_seq": 0, "expected_head": 4}, "to_seq"),
    ({"to_seq": 3, "expected_head": 4, "force": True}, "force: unknown field"),
    ({"to_seq": 99, "expected_head": 4}, "no entry 99"),
    ({"to_seq": 2, "expected_head": 4}, "`invoke`"),
]


@pytest.mark.parametrize(("body", "says"), BAD_REWINDS, ids=str)
async def test_a_rewind_to_what_is_no_prompt_is_told_and_changes_nothing(body: dict[str, Any], says: str) -> None:
    plane = FakePlane()
    words.running(plane.memory, "p").end()
    async with client_of(plane) as http:
        response = await http.post("/v1/pods/p/rewind", json=body)
        assert says in check_problem(response, 422, "invalid")["detail"]
        assert plane.memory.execute(Pending("p")).messages == ()


async def test_a_rewind_at_an_old_head_and_one_of_an_ended_pod_are_conflicts() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    owner.end()
    async with client_of(plane) as http:
        stale = await http.post("/v1/pods/p/rewind", json={"to_seq": 3, "expected_head": 3})
        assert check_problem(stale, 409, "busy")["head_seq"] == 4
        owner.append(PodEnd("stopped"))
        ended = await http.post("/v1/pods/p/rewind", json={"to_seq": 3, "expected_head": 5})
        check_problem(ended, 409, "pod-ended")
        check_problem(await http.post("/v1/pods/none/rewind", json={"to_seq": 3, "expected_head": 5}), 404, "not-found")


async def test_Q09_an_answer_that_comes_after_a_rewind_is_refused_with_the_reason() -> None:
    plane = FakePlane()
    words.running(plane.memory, "p").ask("q1", "yes", "no")
    async with client_of(plane, replace(QUICK, cancel_wait=0.05)) as http:
        told = await http.post("/v1/pods/p/rewind", json={"to_seq": 3, "expected_head": 5})
        assert (told.status_code, told.json()["rewound"]) == (202, None)  # nobody runs this Pod here
        late = await http.post("/v1/pods/p/answer", json={"question_id": "q1", "choice": "yes"})
        check_problem(late, 409, "question-closed")


async def test_a_pod_that_ends_before_its_rewind_says_so() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    owner.end()
    async with client_of(plane) as http:
        asked = asyncio.ensure_future(http.post("/v1/pods/p/rewind", json={"to_seq": 3, "expected_head": 4}))
        async with asyncio.timeout(5):
            while not plane.memory.execute(Pending("p")).messages:
                await asyncio.sleep(0.005)
        owner.append(PodEnd("stopped"))
        check_problem(await asked, 409, "pod-ended")


async def test_a_fork_goes_its_own_way_and_its_source_does_not_notice(tmp_path: Path) -> None:
    async with running(tmp_path) as (plane, http, recorder):
        path = await new(http, "one", "two")
        source = path.rpartition("/")[2]
        before = (plane.log(source), plane.row(source))
        end = next(e.seq for e in plane.log(source) if isinstance(e, RunEnd))
        made = await http.post(f"{path}/fork", json={"at_seq": end, "name": "twin", "message_id": "f1"})
        assert made.status_code == 201
        pod = made.json()
        assert made.headers["location"] == f"/v1/pods/{pod['id']}"
        assert (pod["name"], pod["status"], pod["parent_id"], pod["root_id"]) == ("twin", "idle", None, pod["id"])
        again = await http.post(f"{path}/fork", json={"message_id": "f1"})
        assert (again.status_code, again.json()) == (200, pod)
        await say(http, f"/v1/pods/{pod['id']}", "three")
        asked = recorder.asked[-1]
        assert asked[: len(recorder.asked[0])] == recorder.asked[0]
        assert [len(asked), "two" in " ".join(asked)] == [3, False]
        assert (plane.log(source), plane.row(source)) == before
        await say(http, path, "four")
        assert "three" not in " ".join(recorder.asked[-1])


async def test_forks_of_forks_and_of_rewound_turns(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, http, recorder):
        path = await new(http, "one", "two")
        gone = await head(http, path)
        await back(http, path, "two")
        fork = (await http.post(f"{path}/fork", json={})).json()
        lost = (await http.post(f"{path}/fork", json={"at_seq": gone})).json()
        twice = (await http.post(f"/v1/pods/{fork['id']}/fork", json={})).json()
        for pod, shown in ((fork, ["one"]), (lost, ["one", "two"]), (twice, ["one"])):
            await say(http, f"/v1/pods/{pod['id']}", f"to {pod['name'][-8:]}")
            asked = " ".join(recorder.asked[-1])
            assert [w for w in ("one", "two") if w in asked] == shown
        await http.post(f"{path}/stop")
        stopped = (await http.post(f"{path}/fork", json={})).json()
        assert stopped["status"] == "idle"
        names = [p["name"] for p in (fork, lost, twice, stopped)]
        assert len(set(names)) == 4
        assert all(name.startswith("root-") for name in names)


async def test_a_rewind_in_a_fork_stops_at_where_it_begins(tmp_path: Path) -> None:
    async with running(tmp_path) as (_plane, http, recorder):
        path = await new(http, "one")
        fork = (await http.post(f"{path}/fork", json={})).json()
        own = f"/v1/pods/{fork['id']}"
        await say(http, own, "two", "three")
        assert (await back(http, own, "two")).status_code == 202
        await say(http, own, "four")
        assert [w for w in ("one", "two", "three", "four") if w in " ".join(recorder.asked[-1])] == ["one", "four"]


BAD_FORKS = [
    ({"at_seq": 0}, 422, "at_seq"),
    ({"at_seq": 99}, 422, "no entry 99"),
    ({"at_seq": "4"}, 422, "at_seq"),
    ({"name": "../x"}, 422, "name"),
    ({"name": "p"}, 409, "taken"),
    ({"message_id": "fork:x"}, 422, "own"),
    ({"from": 1}, 422, "unknown field"),
]


@pytest.mark.parametrize(("body", "status", "says"), BAD_FORKS, ids=str)
async def test_a_fork_of_a_missing_turn_or_with_a_bad_body_is_told(
    body: dict[str, Any], status: int, says: str
) -> None:
    plane = FakePlane()
    words.running(plane.memory, "s").end()
    words.create(plane.memory, "p", name="p")
    async with client_of(plane) as http:
        assert says in check_problem(await http.post("/v1/pods/s/fork", json=body), status, "invalid")["detail"]
        assert len((await http.get("/v1/pods")).json()["pods"]) == 2
        check_problem(await http.post("/v1/pods/nobody/fork", json={}), 404, "not-found")


async def test_a_fork_asks_an_open_question_once_more_and_only_for_itself() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "s")
    owner.append(
        Question("q1", "clarify", "Which?", (Choice("left"), Choice("right"))), RunEnd(owner.run_id, "waiting_on_user")
    )
    async with client_of(plane) as http:
        fork = (await http.post("/v1/pods/s/fork", json={})).json()
        assert fork["status"] == "waiting_on_user"
        asked = (await http.get("/v1/inbox")).json()["questions"]
        assert [(q["pod_id"], q["question"]) for q in asked] == [("s", "Which?"), (fork["id"], "Which?")]
        question_id = asked[1]["question_id"]
        assert question_id != "q1"
        answer = {"question_id": question_id, "choice": "left"}
        assert (await http.post(f"/v1/pods/{fork['id']}/answer", json=answer)).status_code == 202
        assert [q["pod_id"] for q in (await http.get("/v1/inbox")).json()["questions"]] == ["s"]
        before = (await http.post("/v1/pods/s/fork", json={"at_seq": 3})).json()
        assert (before["status"], before["head_seq"]) == ("idle", 1)  # no run had ended: its configuration alone


async def test_a_fork_of_an_empty_pod_is_its_configuration(tmp_path: Path) -> None:
    async with running(tmp_path) as (plane, http, _recorder):
        path = await new(http)
        fork = (await http.post(f"{path}/fork", json={})).json()
        start = plane.log(fork["id"])[0]
        source = plane.log(path.rpartition("/")[2])[0]
        assert isinstance(start, SegmentStart)
        assert isinstance(source, SegmentStart)
        assert (start.history, start.origin) == ((), Origin(source.session, 1))
        assert (start.system_prompt, start.tools, start.wire_version) == (
            source.system_prompt,
            source.tools,
            source.wire_version,
        )
        await say(http, f"/v1/pods/{fork['id']}", "hello")


def test_a_long_inherited_history_is_shown_from_its_end() -> None:
    items = tuple(UserMessage((Segment("text", f"{n}:" + "x" * 10_000),), f"m{n}", "user") for n in range(300))
    view = entry_view(SegmentStart("f", {}, "", (), 1, items, Origin("s", 900), seq=1))
    shown = [item["message_id"] for item in view["history"]]
    assert shown == [f"m{n}" for n in range(300 - len(shown), 300)]
    assert view["history_left_out"] == 300 - len(shown)
    assert HISTORY_SHOWN * 0.9 < len(str(view["history"])) < HISTORY_SHOWN * 1.1
    assert view["origin"] == {"session": "s", "seq": 900}
    assert "history_left_out" not in entry_view(SegmentStart("f", {}, "", (), 1, items[:3], seq=1))
