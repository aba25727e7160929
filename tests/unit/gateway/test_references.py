"""References at the HTTP seam: taken as typed segments, refused before anything is recorded, completed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.directory.settings import DirectorySettings
from orchestrator.door import DiskDoor
from orchestrator.runtime import RuntimeSettings
from orchestrator.sigils import parse
from session_store.codec import to_plain
from session_store.entries import UserInput
from session_store.requests import FindMessage, Pending, Query
from tests.support.control_plane import FakePlane, RunningPlane
from tests.support.gateway import check_problem, client_of, new_pod, served, stream, until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path.resolve()
    (folder / ".polypod/workflows").mkdir(parents=True)
    (folder / "memory/knowledge").mkdir(parents=True)
    (folder / "notes.md").write_text("buy milk")
    (folder / "memory/knowledge/style.md").write_text("---\ndescription: how we write\n---\nBe kind.")
    (folder / ".polypod/workflows/review.md").write_text("Look at it.")
    return folder


def door_of(folder: Path) -> DiskDoor:
    settings = RuntimeSettings({}, {}, DirectorySettings(), str(folder), str(folder / "memory"))
    return DiskDoor.of(settings, folder / "home")


async def alert_codes(plane: FakePlane, pod: str) -> list[str]:
    return [alert.code for alert in (await plane.alerts(pod, 0, 0)).alerts]


def sent(text: str) -> list[dict[str, Any]]:
    return [piece.segment for piece in parse(text)]


async def test_E10_what_a_prompt_refers_to_is_one_entry_and_one_event_each(folder: Path) -> None:
    plane = RunningPlane(folder, [{"text": "done"}])
    prompt = sent("/review @notes.md by #style, see @gone.md")
    async with served(plane, door=door_of(folder)) as on:
        made = await on.http.post("/v1/pods", json={"segments": prompt, "message_id": "m"})
        assert made.status_code == 201
        pod = made.json()["id"]
        await plane.pods.until(pod, "idle")
        log = (await on.http.get(f"/v1/pods/{pod}/log")).json()["entries"]
        async with stream(on.http, f"/v1/pods/{pod}/events") as events:
            heard = await events.until("status")
    (asked,) = [e for e in log if e["type"] == "user_input"]
    assert asked["segments"][0] == {"type": "workflow_invoke", "text": "/review", "data": {"slug": "review"}}
    items = [i for e in log if e["type"] == "system_items" for i in e["items"]]
    assert [(i["kind"], i["payload"]) for i in items] == [
        ("workflow", {"slug": "review", "body": "Look at it."}),
        ("file_attachment", {"path": "notes.md", "content": "buy milk"}),
        ("knowledge", {"slug": "style", "body": "Be kind."}),
    ]
    told = [e.data for e in heard if e.name == "system_item"]
    assert [(t["kind"], t["payload"], t["body"]) for t in told] == [(i["kind"], i["payload"], i["body"]) for i in items]
    assert [t["seq"] for t in told] == [asked["seq"] + n for n in (1, 2, 3)]
    assert await alert_codes(plane, pod) == ["reference"]
    assert "gone.md" not in str(items)
    await plane.pods.close()


FORMS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "file_ref", "path": "a b"}, {"type": "file_ref", "text": '@"a b"', "data": {"path": "a b"}}),
    ({"type": "file_ref", "data": {"path": "x"}}, {"type": "file_ref", "text": "@x", "data": {"path": "x"}}),
    (
        {"type": "knowledge_ref", "slug": "設計", "text": "#設計"},
        {"type": "knowledge_ref", "text": "#設計", "data": {"slug": "設計"}},
    ),
    ({"type": "paste", "text": "log"}, {"type": "paste", "text": "log"}),
]


@pytest.mark.parametrize(("given", "kept"), FORMS)
async def test_the_fields_of_each_segment(folder: Path, given: dict[str, Any], kept: dict[str, Any]) -> None:
    plane = FakePlane()
    async with client_of(plane, door=door_of(folder)) as http:
        pod = await new_pod(http)
        assert (await http.post(f"/v1/pods/{pod['id']}/messages", json={"segments": [given]})).status_code == 202
        # What is given back can be sent again as it is.
        assert (await http.post(f"/v1/pods/{pod['id']}/messages", json={"segments": [kept]})).status_code == 202
        queued = plane.memory.execute(Pending(pod["id"])).messages
        assert [m.body["segments"] for m in queued] == [[kept], [kept]]


MALFORMED: list[dict[str, Any]] = [
    {"type": "hologram", "text": "x"},
    {"type": "file_ref", "path": ""},
    {"type": "file_ref", "path": "a\0"},
    {"type": "file_ref", "path": "x" * 4097},
    {"type": "file_ref", "path": "x", "slug": "x"},
    {"type": "file_ref", "path": "x", "data": {"depth": 1}},
    {"type": "knowledge_ref", "slug": "../x"},
    {"type": "knowledge_ref", "slug": "a/b"},
    {"type": "workflow_invoke", "slug": ""},
    {"type": "workflow_invoke", "slug": "x" * 129},
    {"type": "text", "text": "x", "path": "x"},
    {"type": "paste"},
]


@pytest.mark.parametrize("segment", [*MALFORMED, {"type": "workflow_invoke", "slug": "gone"}], ids=str)
async def test_T10_a_bad_prompt_is_refused_before_anything_is_recorded(folder: Path, segment: dict[str, Any]) -> None:
    plane = RunningPlane(folder, [{"text": "done"}])
    async with client_of(plane, door=door_of(folder)) as http:
        pod = await new_pod(http)
        before = plane.memory.execute(Query()).rows
        for path in ("/v1/pods", f"/v1/pods/{pod['id']}/messages"):
            body = {"segments": [{"type": "text", "text": "good"}, segment], "message_id": "m1"}
            detail = check_problem(await http.post(path, json=body), 422, "invalid")["detail"]
            assert "segments.1" in detail
        assert plane.memory.execute(Query()).rows == before
        assert plane.memory.execute(FindMessage(pod["id"], "m1")).session is None
    await plane.pods.close()


async def test_a_prompt_that_was_taken_is_not_refused_when_it_is_sent_again(folder: Path) -> None:
    plane = RunningPlane(folder, [{"text": "done"}])
    async with client_of(plane, door=door_of(folder)) as http:
        pod = await new_pod(http)
        path = f"/v1/pods/{pod['id']}/messages"
        body = {"segments": sent("/review"), "message_id": "m1"}
        first = await http.post(path, json=body)
        await plane.pods.until(pod["id"], "idle")
        (folder / ".polypod/workflows/review.md").unlink()
        again = await http.post(path, json=body)
        assert (first.status_code, again.status_code) == (202, 202)
        assert again.json()["existed"] is True
        check_problem(await http.post(path, json={**body, "message_id": "m2"}), 422, "invalid")
    await plane.pods.close()


async def test_a_pod_that_was_made_is_not_refused_when_it_is_asked_for_again(folder: Path) -> None:
    plane = RunningPlane(folder, [{"text": "done"}])
    async with client_of(plane, door=door_of(folder)) as http:
        body = {"segments": sent("/review"), "message_id": "m1"}
        first = await http.post("/v1/pods", json=body)
        await plane.pods.until(first.json()["id"], "idle")
        (folder / ".polypod/workflows/review.md").unlink()
        again = await http.post("/v1/pods", json=body)
        assert (first.status_code, again.status_code) == (201, 200)
        assert again.json()["id"] == first.json()["id"]
        check_problem(await http.post("/v1/pods", json={**body, "message_id": "m2"}), 422, "invalid")
    await plane.pods.close()


async def test_T10_a_workflow_that_goes_between_door_and_run_is_told_and_the_next_prompt_follows(folder: Path) -> None:
    plane = RunningPlane(folder, [{"text": "done"}])
    async with client_of(plane, door=door_of(folder)) as http:
        pod = (await http.post("/v1/pods", json={})).json()["id"]
        hint, plane.pods.parts.directory.hint = plane.pods.parts.directory.hint, ignore  # type: ignore[method-assign]
        first = {"segments": sent("/review"), "message_id": "m1"}
        assert (await http.post(f"/v1/pods/{pod}/messages", json=first)).status_code == 202
        assert (await http.post(f"/v1/pods/{pod}/messages", json={"content": "next"})).status_code == 202
        (folder / ".polypod/workflows/review.md").unlink()
        await hint((pod,))
        await until(lambda: any(isinstance(e, UserInput) for e in plane.log(pod)))
        await plane.pods.until(pod, "idle")
        result = (await http.get(f"/v1/pods/{pod}/result?message_id=m1")).json()
        assert (result["outcome"], result["error"]["type"]) == ("withdrawn", "invalid_prompt")
        assert "no workflow `review`" in result["error"]["message"]
    types = [e.type for e in plane.log(pod)]
    assert types[:4] == ["segment_start", "withdrawn", "invoke", "user_input"]
    assert await alert_codes(plane, pod) == ["prompt_refused"]
    await plane.pods.close()


async def ignore(sessions: tuple[str, ...]) -> None:
    return None


async def test_prompt_and_content_strings_stay_literal(folder: Path) -> None:
    plane = RunningPlane(folder, [{"text": "done"}])
    async with client_of(plane, door=door_of(folder)) as http:
        made = await http.post("/v1/pods", json={"prompt": "/gone @gone #gone"})
        pod = made.json()["id"]
        await plane.pods.until(pod, "idle")
        (asked,) = [e for e in plane.log(pod) if isinstance(e, UserInput)]
        assert to_plain(asked.segments) == [{"type": "text", "text": "/gone @gone #gone"}]
        assert await alert_codes(plane, pod) == []
    await plane.pods.close()


async def test_completions_are_of_the_pods_own_scope(folder: Path) -> None:
    plane = RunningPlane(folder, [])
    (folder / "my notes.md").write_text("x")
    async with client_of(plane, door=door_of(folder)) as http:
        pod = (await http.post("/v1/pods", json={})).json()["id"]

        async def found(sigil: str, prefix: str = "") -> Any:
            asked = await http.get(f"/v1/pods/{pod}/completions", params={"sigil": sigil, "prefix": prefix})
            assert asked.status_code == 200
            return asked.json()

        assert await found("@", "my") == {
            "completions": [{"text": '@"my notes.md"', "target": "my notes.md", "kind": "file"}],
            "more": False,
        }
        assert (await found("#"))["completions"] == [
            {"text": "#style", "target": "style", "kind": "knowledge", "description": "how we write"}
        ]
        assert [c["text"] for c in (await found("/", "re"))["completions"]] == ["/review"]
        assert (await found("@", "../"))["completions"] == []
        for bad in (
            {"sigil": "!"},
            {},
            {"sigil": "@", "limit": 0},
            {"sigil": "@", "limit": 101},
            {"sigil": "@", "x": 1},
        ):
            check_problem(await http.get(f"/v1/pods/{pod}/completions", params=bad), 422, "invalid")
        check_problem(await http.get("/v1/pods/nobody/completions?sigil=@"), 404, "not-found")
    await plane.pods.close()
