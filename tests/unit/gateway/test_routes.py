"""The HTTP seam without a socket: bodies, answers, problems."""

import asyncio
import re
from dataclasses import dataclass
from typing import Any

import pytest

from orchestrator.gateway.problems import from_error
from orchestrator.ports import ControlPlaneError
from session_store.entries import Choice, PodEnd, Question, QuestionClosed, RunEnd
from session_store.errors import StoreDamaged
from session_store.requests import FindMessage, Query
from tests.support import store as words
from tests.support.control_plane import FakePlane
from tests.support.gateway import QUICK, check_problem, client_of, new_pod

POD_FIELDS = {
    *("id", "name", "parent_id", "root_id", "status", "owner", "generation", "head_seq", "usage", "children"),
    *("queue", "created_at", "updated_at"),
}


async def test_a_pod_is_created_once_for_one_message_id() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        first = await http.post("/v1/pods", json={"prompt": "go", "name": "boss", "message_id": "m1"})
        again = await http.post("/v1/pods", json={"prompt": "go", "name": "boss", "message_id": "m1"})
        assert (first.status_code, again.status_code) == (201, 200)
        pod = first.json()
        assert again.json() == pod
        assert first.headers["location"] == f"/v1/pods/{pod['id']}"
        assert set(pod) == POD_FIELDS
        assert pod["name"] == "boss"
        assert pod["status"] == "running"
        assert pod["owner"] is None
        assert pod["queue"] == 1
        assert pod["usage"] == {"requests": 0, "input": 0, "cache_read": 0, "cache_write": 0, "output": 0}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", pod["created_at"])


async def test_S15_an_empty_pod_is_visible_with_its_state() -> None:
    async with client_of(FakePlane()) as http:
        pod = await new_pod(http)
        assert (await http.get(f"/v1/pods/{pod['id']}")).json()["status"] == "idle"
        log = (await http.get(f"/v1/pods/{pod['id']}/log")).json()
        assert [e["type"] for e in log["entries"]] == ["segment_start"]
        assert log["head_seq"] == 1


@dataclass(frozen=True)
class Bad:
    path: str
    body: Any
    says: str


BAD_BODIES = [
    Bad("/v1/pods", {"promt": "x"}, "promt: unknown field"),
    Bad("/v1/pods", {"prompt": "x", "segments": [{"type": "text", "text": "x"}]}, "not both"),
    Bad("/v1/pods", {"prompt": "  "}, "empty"),
    Bad("/v1/pods", {"prompt": 3}, "prompt"),
    Bad("/v1/pods", {"segments": [{"type": "file_ref", "slug": "x"}]}, "segments.0"),
    Bad("/v1/pods", {"limits": {"requests": 0}}, "limits.requests"),
    Bad("/v1/pods", {"limits": {"reqests": 1}}, "limits.reqests: unknown field"),
    Bad("/v1/pods", {"model": "unknown"}, "no model `unknown`"),
    Bad("/v1/pods", {"message_id": "x" * 201}, "message_id"),
    Bad("/v1/pods", {"message_id": "a\nb"}, "printable"),
    Bad("/v1/pods", {"message_id": "cascade:x"}, "polypod's own"),
    Bad("/v1/pods", {"message_id": "stop:x"}, "polypod's own"),
    Bad("/v1/pods", ["x"], "JSON object"),
    Bad("{pod}/messages", {}, "content"),
    Bad("{pod}/messages", {"content": "x", "when_busy": "now"}, "when_busy"),
    Bad("{pod}/messages", {"content": "x", "message_id": "0" * 8 + "-0000-7000-8000-000000000000:3"}, "own"),
    Bad("{pod}/notify", {"message": ""}, "empty"),
    Bad("{pod}/notify", {"message": "x", "wake": 1}, "wake"),
    Bad("{pod}/answer", {"question_id": "q"}, "give `choice`"),
    Bad("{pod}/pod_event", {"event": {"kind": "born"}}, "event.kind"),
    Bad("{pod}/cancel", {"clear_queue": "yes"}, "clear_queue"),
]


@pytest.mark.parametrize("case", BAD_BODIES, ids=lambda c: f"{c.path} {str(c.body)[:40]}")
async def test_V08_a_bad_body_is_told_and_changes_nothing(case: Bad) -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        pod = await new_pod(http)
        response = await http.post(case.path.format(pod=f"/v1/pods/{pod['id']}"), json=case.body)
        assert case.says in check_problem(response, 422, "invalid")["detail"]
        assert len(plane.memory.execute(Query()).rows) == 1
        assert plane.row(pod["id"]).queue == 0


REFERENCES = [
    {"type": "workflow_invoke", "text": "/nowhere"},
    {"type": "workflow_invoke", "data": {"slug": "nowhere"}},
    {"type": "file_ref", "text": "@gone.txt"},
    {"type": "knowledge_ref", "text": "#nothing"},
    {"type": "text"},
    {"type": "text", "text": 7},
    {"text": "no type"},
    "no object",
]


@pytest.mark.parametrize("segment", REFERENCES, ids=str)
@pytest.mark.parametrize("path", ["/v1/pods", "/v1/pods/{pod}/messages"])
async def test_T10_a_prompt_with_a_bad_segment_leaves_no_trace_of_its_good_ones(path: str, segment: Any) -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        pod = await new_pod(http)
        before = plane.memory.execute(Query()).rows
        body = {"segments": [{"type": "text", "text": "good"}, segment], "message_id": "m1"}
        response = await http.post(path.format(pod=pod["id"]), json=body)
        assert "segments.1" in check_problem(response, 422, "invalid")["detail"]
        assert plane.memory.execute(Query()).rows == before
        assert plane.memory.execute(FindMessage(pod["id"], "m1")).session is None


G07 = ["../x", "/etc/passwd", "a/b", "", "x" * 65, "..", "a\x00b", "0" * 8 + "-0000-7000-8000-000000000000", "a\\b"]


@pytest.mark.parametrize("name", G07)
async def test_G07_a_bad_name_is_refused_at_the_door(name: str) -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        check_problem(await http.post("/v1/pods", json={"name": name}), 422, "invalid")
        assert plane.memory.execute(Query()).rows == ()


@pytest.mark.parametrize("pod_id", ["..%2Fx", "%2E%2E", "../x", "a%00b", "x" * 2000, "%2Fetc%2Fpasswd", "nothing"])
async def test_G07_a_bad_id_names_no_pod(pod_id: str) -> None:
    async with client_of(FakePlane()) as http:
        check_problem(await http.get(f"/v1/pods/{pod_id}"), 404, "not-found")


RAW = [
    (b"{", "application/json", 400, "invalid"),
    (b'{"prompt": NaN}', "application/json", 400, "invalid"),
    (b'{"prompt": "\xff"}', "application/json", 400, "invalid"),
    (b'{"prompt": "\\ud800"}', "application/json", 400, "invalid"),
    (b"[" * 100_000, "application/json", 400, "invalid"),
    (b"{}", "text/plain", 415, "invalid"),
    (b'{"prompt": "' + b"x" * 5_000_000 + b'"}', "application/json", 413, "limit"),
]


@pytest.mark.parametrize(("raw", "kind", "status", "problem"), RAW, ids=lambda v: str(v)[:20])
async def test_V08_what_is_no_json_is_told(raw: bytes, kind: str, status: int, problem: str) -> None:
    async with client_of(FakePlane()) as http:
        response = await http.post("/v1/pods", content=raw, headers={"content-type": kind})
        check_problem(response, status, problem)


async def test_a_body_without_a_length_is_bounded_too() -> None:
    async def endless() -> Any:
        for _ in range(100):
            yield b" " * 100_000

    async with client_of(FakePlane()) as http:
        response = await http.post("/v1/pods", content=endless(), headers={"content-type": "application/json"})
        check_problem(response, 413, "limit")


async def test_unknown_paths_and_methods_are_problems() -> None:
    async with client_of(FakePlane()) as http:
        pod = await new_pod(http)
        check_problem(await http.get("/v2"), 404, "not-found")
        check_problem(await http.post(f"/v1/pods/{pod['id']}/shorten", json={}), 404, "not-found")
        check_problem(await http.get("/metrics/more"), 404, "not-found")
        check_problem(await http.get("/v1/pods/"), 404, "not-found")
        response = await http.delete(f"/v1/pods/{pod['id']}")
        check_problem(response, 405, "invalid")
        assert response.headers["allow"] == "GET"
        check_problem(await http.post("/healthz"), 405, "invalid")


BAD_QUERIES = ["?status=sleeping", "?limit=0", "?limit=x", "?statsu=idle", "?parent=../x", "?cursor=abc"]


@pytest.mark.parametrize("query", BAD_QUERIES)
async def test_a_bad_query_is_told(query: str) -> None:
    async with client_of(FakePlane()) as http:
        check_problem(await http.get(f"/v1/pods{query}"), 422, "invalid")


async def test_a_parameter_of_a_request_that_takes_none_is_told() -> None:
    async with client_of(FakePlane()) as http:
        pod = await new_pod(http)
        of_pod = f"/v1/pods/{pod['id']}"
        for path in ("/v1/inbox", of_pod, f"{of_pod}/tasks"):
            check_problem(await http.get(f"{path}?status=idle"), 422, "invalid")
        sent = await http.post(f"{of_pod}/messages?when_busy=reject", json={"content": "hi"})
        check_problem(sent, 422, "invalid")
        assert (await http.get(of_pod)).json()["queue"] == pod["queue"]


async def test_pods_are_listed_by_what_is_asked_and_in_pages() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        pods = [await new_pod(http, name=f"p{i}") for i in range(5)]
        owner = words.running(plane.memory, "boss")
        owner.spawn("kid-b")
        owner.spawn("kid-a")
        listed = (await http.get("/v1/pods", params={"limit": 2})).json()
        assert [p["name"] for p in listed["pods"]] == ["p0", "p1"]
        more = (await http.get("/v1/pods", params={"limit": 2, "cursor": listed["next"]})).json()
        assert [p["name"] for p in more["pods"]] == ["p2", "p3"]
        by_name = (await http.get("/v1/pods", params={"name": "p4"})).json()
        assert [p["id"] for p in by_name["pods"]] == [pods[4]["id"]]
        assert by_name["next"] is None
        kids = (await http.get("/v1/pods", params={"parent": "boss"})).json()["pods"]
        assert [p["id"] for p in kids] == ["kid-b", "kid-a"]
        assert [p["parent_id"] for p in kids] == ["boss", "boss"]
        tree = (await http.get("/v1/pods", params={"root": "boss", "status": "running"})).json()["pods"]
        assert [p["id"] for p in tree] == ["boss", "kid-b", "kid-a"]
        assert (await http.get("/v1/pods/boss")).json()["children"] == ["kid-b", "kid-a"]
        assert (await http.get("/v1/pods/boss")).json()["owner"] == "boss#1"


async def test_S06_accepted_means_durable_and_shown() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        pod = await new_pod(http)
        path = f"/v1/pods/{pod['id']}/messages"
        sent = await http.post(path, json={"content": "hello @here", "message_id": "m1"})
        assert sent.status_code == 202
        assert sent.json() == {"pod_id": pod["id"], "message_id": "m1", "status": "running", "existed": False}
        again = await http.post(path, json={"content": "hello @here", "message_id": "m1"})
        assert again.status_code == 202
        assert again.json()["existed"] is True
        # The process dies here: all that is left is the store. A new gateway shows the prompt with the Pod.
    async with client_of(FakePlane(plane.memory)) as http:
        assert (await http.get(f"/v1/pods/{pod['id']}")).json()["queue"] == 1
        owner = plane.owner(pod["id"])
        assert owner.seen == ["m1"]
        await asyncio.sleep(0)
        assert pod["id"] in plane.hints


async def test_nothing_is_accepted_that_is_not_durable() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        pod = await new_pod(http)
        plane.waiting.down = True
        response = await http.post(f"/v1/pods/{pod['id']}/messages", json={"content": "x"})
        check_problem(response, 503, None)
        assert response.headers["retry-after"] == "1"
        plane.waiting.down = False
        assert plane.row(pod["id"]).queue == 0


async def test_T06_a_client_that_asks_to_be_rejected_gets_a_conflict_and_nothing_is_recorded() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        pod = await new_pod(http, prompt="go")
        path = f"/v1/pods/{pod['id']}"
        response = await http.post(f"{path}/messages", json={"content": "x", "when_busy": "reject"})
        check_problem(response, 409, "busy")
        assert (await http.get(path)).json()["queue"] == 1
        owner = plane.owner(pod["id"])
        owner.begin(*owner.seen)
        owner.end()
        response = await http.post(f"{path}/messages", json={"content": "x", "when_busy": "reject"})
        assert response.status_code == 202


async def test_L11_a_finished_pod_can_be_messaged_and_a_stopped_one_says_ended() -> None:
    plane = FakePlane()
    boss = words.running(plane.memory, "boss")
    boss.spawn("kid")
    kid = plane.owner("kid")
    kid.begin(*kid.seen)
    kid.end()
    async with client_of(plane) as http:
        assert (await http.post("/v1/pods/kid/messages", json={"content": "more"})).status_code == 202
        stopped = await http.post("/v1/pods/kid/stop")
        assert stopped.status_code == 202
        kid.append(PodEnd("stopped"), consumes=("stop:kid",))
        ended = (await http.get("/v1/pods/kid")).json()
        assert (ended["status"], ended["owner"]) == ("ended", None)
        again = await http.post("/v1/pods/kid/stop", json={"reason": "sure"})
        assert again.status_code == 200
        assert again.json()["changed"] is False
        for path, body in (("messages", {"content": "x"}), ("notify", {"message": "x"}), ("cancel", {})):
            check_problem(await http.post(f"/v1/pods/kid/{path}", json=body), 409, "pod-ended")


@pytest.mark.parametrize("kind", ["pause", "resume", "cancel"])
async def test_controls_of_a_pod_at_rest_change_nothing_and_say_so(kind: str) -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        pod = await new_pod(http)
        response = await http.post(f"/v1/pods/{pod['id']}/{kind}")
        assert response.status_code == 200
        assert response.json()["changed"] is False
        assert response.json()["status"] == "idle"
        assert plane.row(pod["id"]).queue == 0


async def test_pause_is_durable_before_it_is_answered_and_pausing_twice_changes_nothing() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        owner = words.running(plane.memory, "p")
        paused = await http.post("/v1/pods/p/pause", json={"message_id": "c1"})
        assert paused.status_code == 202
        assert paused.json() == {"pod_id": "p", "changed": True, "status": "running", "message_id": "c1"}
        assert plane.row("p").queue == 1
        owner.end("paused", consumes=("c1",))
        again = await http.post("/v1/pods/p/pause")
        assert (again.status_code, again.json()["changed"]) == (200, False)
        resumed = await http.post("/v1/pods/p/resume")
        assert (resumed.status_code, resumed.json()["changed"]) == (202, True)
        assert resumed.json()["status"] == "running"


async def test_T03_a_resume_right_after_a_pause_takes_it_back() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        words.running(plane.memory, "p")
        assert (await http.post("/v1/pods/p/pause")).status_code == 202
        resumed = await http.post("/v1/pods/p/resume")
        assert (resumed.status_code, resumed.json()["changed"]) == (202, True)
        assert plane.row("p").queue == 2


async def test_a_resume_of_a_run_at_work_says_so_also_with_messages_waiting() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        words.running(plane.memory, "p")
        assert (await http.post("/v1/pods/p/messages", json={"content": "later"})).status_code == 202
        resumed = await http.post("/v1/pods/p/resume")
        assert (resumed.status_code, resumed.json()["changed"]) == (200, False)


def test_a_name_that_is_taken_is_a_conflict() -> None:
    assert problem_of(ControlPlaneError("name_taken", "The name 'a' is taken.")) == ("invalid", 409)
    assert problem_of(ControlPlaneError("limit", "Too many.")) == ("limit", 429)
    assert problem_of(ControlPlaneError("of tomorrow", "What?")) == ("invalid", 422)


def problem_of(error: Exception) -> tuple[str | None, int]:
    problem = from_error(error)
    assert problem is not None
    return problem.kind, problem.status


def ask(plane: FakePlane, pod_id: str, *labels: str) -> words.Owner:
    owner = words.running(plane.memory, pod_id)
    owner.ask("q1", *labels)
    return owner


async def test_a_question_stands_in_the_inbox_and_with_its_pod() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        assert (await http.get("/v1/inbox")).json() == {"questions": []}
        owner = words.running(plane.memory, "p")
        choices = (Choice("yes", "all of it"), Choice("no"))
        owner.append(Question("q1", "clarify", "sure?", choices), RunEnd(owner.run_id, "waiting_on_user"))
        ask(plane, "q")
        shown = (await http.get("/v1/inbox")).json()["questions"]
        assert [q["pod_id"] for q in shown] == ["p", "q"]
        asked_at = shown[0].pop("asked_at")
        assert asked_at.endswith("Z")
        assert shown[0] == {
            "question_id": "q1",
            "pod_id": "p",
            "pod_name": "",
            "kind": "clarify",
            "question": "sure?",
            "choices": [{"label": "yes", "description": "all of it"}, {"label": "no"}],
        }
        pod = (await http.get("/v1/pods/p")).json()
        assert pod["question"]["question_id"] == "q1"
        assert pod["last_outcome"] == "waiting_on_user"


async def test_Q04_an_answered_question_is_not_shown_again() -> None:
    plane = FakePlane()
    ask(plane, "p", "yes", "no")
    async with client_of(plane) as http:
        await http.post("/v1/pods/p/answer", json={"question_id": "q1", "choice": "yes"})
        pod = (await http.get("/v1/pods/p")).json()  # the answer is durable, and not taken up yet
        assert (pod["status"], "question" in pod) == ("running", False)
        assert (await http.get("/v1/inbox")).json() == {"questions": []}


async def test_who_waits_for_whom_is_shown() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    owner.append(RunEnd(owner.run_id, "waiting_on_children", waits_for=("c1", "c2"), mode="all"))
    ask(plane, "q")
    async with client_of(plane) as http:
        assert (await http.get("/v1/pods/p")).json()["waits_for"] == ["c1", "c2"]
        (pod,) = (await http.get("/v1/pods?status=waiting_on_user")).json()["pods"]
        assert (pod["id"], pod["question"]["question_id"], "waits_for" in pod) == ("q", "q1", False)


async def test_Q09_a_late_answer_is_told_what_became_of_the_question() -> None:
    plane = FakePlane()
    owner = ask(plane, "p", "yes", "no")
    owner.append(QuestionClosed("q1", "cancelled", "user"), PodEnd("stopped"))
    async with client_of(plane) as http:
        late = await http.post("/v1/pods/p/answer", json={"question_id": "q1", "choice": "yes"})
        assert "cancelled, stopped or rewound" in check_problem(late, 409, "question-closed")["detail"]


async def test_Q08_the_first_answer_wins_and_the_same_again_is_fine() -> None:
    plane = FakePlane()
    ask(plane, "p", "yes", "no")
    async with client_of(plane) as http:
        path = "/v1/pods/p/answer"
        unknown = await http.post(path, json={"question_id": "q1", "choice": "maybe"})
        assert "'yes', 'no'" in check_problem(unknown, 422, "invalid")["detail"]
        check_problem(await http.post(path, json={"question_id": "q9", "text": "x"}), 409, "question-closed")
        won = await http.post(path, json={"question_id": "q1", "choice": "yes"})
        assert won.status_code == 202
        assert (await http.post(path, json={"question_id": "q1", "choice": "yes"})).status_code == 200
        check_problem(await http.post(path, json={"question_id": "q1", "choice": "no"}), 409, "already-answered")
        assert plane.row("p").queue == 1


async def test_pod_events_are_taken_about_children_only() -> None:
    plane = FakePlane()
    boss = words.running(plane.memory, "boss")
    boss.spawn("kid")
    words.running(plane.memory, "stranger")

    def event(pod_id: str, seq: int) -> dict[str, Any]:
        about = {"pod_id": pod_id, "pod_name": pod_id, "event_id": f"{pod_id}:{seq}", "generation": 1}
        return {"event": {"kind": "turn_ended", "outcome": "finished", **about}}

    async with client_of(plane) as http:
        path = "/v1/pods/boss/pod_event"
        for other in ("stranger", "nobody", "boss"):
            check_problem(await http.post(path, json=event(other, 1)), 403, "forbidden")
        check_problem(await http.post(path, json=event("kid", 99)), 422, "invalid")
        accepted = await http.post(path, json=event("kid", 1))
        assert accepted.status_code == 202
        assert accepted.json()["message_id"] == "kid:1"


async def test_a_notice_that_does_not_wake_only_queues() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        pod = await new_pod(http)
        path = f"/v1/pods/{pod['id']}/notify"
        assert (await http.post(path, json={"message": "x", "wake": False})).json()["status"] == "idle"
        assert (await http.post(path, json={"message": "x"})).json()["status"] == "running"


async def test_the_log_is_read_from_a_cursor_in_pages() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    owner.append(words.text("line\u2028one"))
    owner.end()
    async with client_of(plane) as http:
        whole = (await http.get("/v1/pods/p/log")).json()
        assert [e["seq"] for e in whole["entries"]] == [1, 2, 3, 4, 5]
        assert whole["entries"][3]["items"][0]["text"] == "line\u2028one"
        page = (await http.get("/v1/pods/p/log", params={"after": 2, "limit": 2})).json()
        assert [e["seq"] for e in page["entries"]] == [3, 4]
        assert page["head_seq"] == 5
        assert (await http.get("/v1/pods/p/log", params={"after": 99})).json() == {"entries": [], "head_seq": 5}
        check_problem(await http.get("/v1/pods/p/log", params={"after": "x"}), 422, "invalid")
        check_problem(await http.get("/v1/pods/p/log", params={"after": -1}), 422, "invalid")


async def test_a_damaged_log_is_named_and_others_are_read() -> None:
    class Damaged(FakePlane):
        @property
        def store(self) -> Any:
            outer = self.waiting

            class Store:
                async def execute(self, request: Any) -> Any:
                    if type(request).__name__ == "Read" and request.session == "p":
                        raise StoreDamaged("the log of session p is damaged at entry 2", session="p", seq=2)
                    return await outer.execute(request)

            return Store()

    plane = Damaged()
    words.running(plane.memory, "p")
    words.running(plane.memory, "q")
    async with client_of(plane) as http:
        problem = check_problem(await http.get("/v1/pods/p/log"), 500, "store-damaged")
        assert (problem["session"], problem["seq"]) == ("p", 2)
        assert (await http.get("/v1/pods/q/log")).status_code == 200


async def test_an_unexpected_error_is_a_problem_without_its_words() -> None:
    class Broken(FakePlane):
        async def status(self) -> dict[str, Any]:
            raise ZeroDivisionError("secret")

    async with client_of(Broken()) as http:
        problem = check_problem(await http.get("/readyz"), 500, None)
        assert "secret" not in str(problem)


async def test_probes_tell_whether_it_lives_and_is_ready() -> None:
    plane = FakePlane()
    async with client_of(plane, QUICK) as http:
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        assert (await http.get("/readyz")).json() == {"ready": True, "pool": 2}
        plane.ready = False
        assert (await http.get("/readyz")).status_code == 503
