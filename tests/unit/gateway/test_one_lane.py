"""What the system tells a model goes one lane: an entry, and an event of the same content. Alerts take neither."""

from __future__ import annotations

import json
from pathlib import Path

from actors.protocol.live import LiveSink
from actors.protocol.model import ModelReply, ModelRequest
from orchestrator.events import SystemItemEvent, parse_event
from session_store.codec import entry_json
from session_store.entries import SystemItems
from session_store.items import SystemItem
from session_store.requests import Query
from tests.support import store as words
from tests.support.control_plane import FakePlane, HeldModel, RunningPlane
from tests.support.gateway import Event, served, stream

SPAWN = {"name": "SpawnPod", "arguments": {"task": "part", "name": "kid"}}
LINES = [
    {"match": {"pod": "root", "request": 1}, "tool_calls": [SPAWN, {"name": "WaitForPods", "arguments": {}}]},
    {"match": {"pod": "root"}, "text": "noted", "repeat": True},
    {"match": {"pod": "kid"}, "text": "part done"},
]


class ListeningModel(HeldModel):
    """Keeps what it was sent."""

    def __init__(self, plane: RunningPlane) -> None:
        super().__init__(LINES, plane.free)
        self.sent: list[str] = []

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        self.sent.append(request.system_prompt + b"".join(request.history).decode())
        return await super().reply(request, live)


def told(events: list[Event]) -> list[SystemItemEvent]:
    parsed = [parse_event(e.name, e.id, e.data) for e in events]
    return [e for e in parsed if isinstance(e, SystemItemEvent)]


async def test_E10_a_live_notice_and_a_childs_event_are_once_in_log_stream_and_request_and_an_alert_in_the_stream(
    tmp_path: Path,
) -> None:
    plane = RunningPlane(tmp_path, LINES)
    model = plane.pods.parts.models["scripted"] = ListeningModel(plane)
    async with served(plane) as on:
        pod = (await on.http.post("/v1/pods", json={"name": "root"})).json()["id"]
        async with stream(on.http, f"/v1/pods/{pod}/events") as events:
            sent = await on.http.post(f"/v1/pods/{pod}/notify", json={"message": "mind the gap", "message_id": "n1"})
            assert sent.status_code == 202
            plane.alert("a1", pod, message="for people only")
            seen = await events.until("system_item", kind="pod_event")
            plane.alert("a2", pod, message="for people only")
            seen += await events.until("alert", alert_id="a2")
            await plane.pods.until(pod, "idle")
    items = [(e.seq, i) for e in plane.log(pod) if isinstance(e, SystemItems) for i in e.items]
    assert [i.kind for _, i in items] == ["notification", "pod_event"]
    assert [(e.seq, e.kind, e.payload, e.body) for e in told(seen)] == [
        (seq, i.kind, i.payload, i.body) for seq, i in items
    ]
    assert items[0][1].payload == {"message": "mind the gap"}
    assert model.sent[-1].count("mind the gap") == 1
    assert [e.data["alert_id"] for e in seen if e.name == "alert"] == ["a1", "a2"]
    logged = json.dumps([entry_json(e) for row in plane.memory.execute(Query()).rows for e in plane.log(row.id)])
    assert "for people only" not in logged
    assert not [request for request in model.sent if "for people only" in request]
    assert {e.name for e in seen} <= {"entry", "system_item", "delta", "status", "alert"}
    await plane.pods.close()


async def test_E10_each_kind_is_one_entry_and_one_event_of_the_same_content() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    made = [
        SystemItem("notification", "n", {"message": "hi"}, "<notification>hi</notification>"),
        SystemItem("pod_event", "e", {"event": {"kind": "turn_ended"}}, "kid has ended"),
        SystemItem("file_attachment", "f", {"path": "a.txt", "content": "日本\u2028"}, "a.txt:\n日本\u2028"),
        SystemItem("reminder", "r", {"tasks": []}, "<system-reminder></system-reminder>"),
        SystemItem("from-the-future", "x", {"any": [1]}, "new"),
    ]
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=3") as events:
        await events.until("status")
        owner.append(*(SystemItems((item,)) for item in made))
        owner.end()
        seen = await events.until("status", status="idle")
    assert [(e.kind, e.payload, e.body) for e in told(seen)] == [(i.kind, i.payload, i.body) for i in made]
    assert [e.id for e in seen if e.name == "system_item"] == ["4", "5", "6", "7", "8"]
