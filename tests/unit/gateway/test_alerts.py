"""Alerts reach people by the streams and by `GET /v1/alerts`: each once, whatever becomes of the Pod's process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from orchestrator.gateway.alerts import Ring
from tests.support import store as words
from tests.support.control_plane import FakePlane
from tests.support.gateway import QUICK, Event, Stream, client_of, served, stream, until


def ids(events: list[Event]) -> list[str]:
    return [e.data["alert_id"] for e in events if e.name == "alert"]


async def upto(events: Stream, last: str) -> list[str]:
    """The alerts up to this one."""
    return ids(await events.until("alert", alert_id=last))


async def test_E10_an_alert_is_told_once_and_to_those_who_come_later() -> None:
    plane = FakePlane()
    words.running(plane.memory, "p")
    plane.alert("a0", "p", ts=1_790_000_000_000)
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=3") as events:
        seen = await events.until("alert")
        assert seen[-1].data == {
            "alert_id": "a0",
            "level": "warning",
            "code": "test",
            "message": "mind this",
            "ts": "2026-09-21T14:13:20.000Z",
        }
        assert seen[-1].id is None
        plane.alert("a1", "p")
        plane.alert("b1", "another Pod")
        plane.alert("c1", None)
        assert await upto(events, "a1") == ["a1"]
        async with stream(on.http, "/v1/pods/p/events?after=3") as late:
            assert await upto(late, "a1") == ["a0", "a1"]
            plane.alert("a2", "p")
            assert await upto(late, "a2") == ["a2"]
            assert await upto(events, "a2") == ["a2"]
            assert ids(await late.quiet() + await events.quiet()) == []
    assert [e.type for e in plane.log("p")] == ["segment_start", "invoke", "user_input"]


async def test_alerts_of_a_pod_without_a_process_are_kept() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    plane.live(owner)
    plane.alert("a1", "p")
    owner.end()
    plane.lives.clear()  # parked, or dead
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events") as events:
        assert await upto(events, "a1") == ["a1"]
        # One of the Directory about that Pod, while it has no process.
        plane.alert("directory:1", "p")
        assert await upto(events, "directory:1") == ["directory:1"]


async def test_a_control_plane_that_is_away_keeps_no_entry_back_and_loses_no_alert() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    hear, plane.alerts = plane.alerts, _away  # type: ignore[method-assign]
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=3") as events:
        owner.end()
        await events.until("status", status="idle")
        plane.alert("a1", "p")
        plane.alerts = hear  # type: ignore[method-assign]
        assert await upto(events, "a1") == ["a1"]


async def _away(*_: Any) -> Any:
    raise OSError("the Directory is away")


async def test_alerts_of_many_pods_come_with_their_pod_and_those_of_no_pod_to_the_owner() -> None:
    plane = FakePlane()
    boss = words.running(plane.memory, "boss")
    boss.spawn("kid")
    words.create(plane.memory, "other")
    plane.alert("k0", "kid")
    async with (
        served(plane) as on,
        stream(on.http, "/v1/events") as everything,
        stream(on.http, "/v1/events?root=boss") as tree,
    ):
        (first,) = await everything.take(1)
        assert (first.name, first.id, first.data["pod_id"]) == ("alert", None, "kid")
        plane.alert("o1", "other")
        plane.alert("n1", None)
        plane.alert("k1", "kid")
        plane.alert("g1", "gone")
        assert await upto(everything, "k1") == ["o1", "n1", "k1"]
        assert await upto(tree, "k1") == ["k0", "k1"]


async def test_V06_alerts_of_another_tenant_and_of_the_control_plane_are_not_told() -> None:
    plane = FakePlane()
    options = replace(QUICK, tenants={"tok-a": "acme", "tok-b": "bolt"})
    acme, bolt = ({"authorization": f"Bearer tok-{t}"} for t in "ab")
    async with served(plane, options) as on:
        theirs = (await on.http.post("/v1/pods", json={"prompt": "x"}, headers=bolt)).json()["id"]
        mine = (await on.http.post("/v1/pods", json={"prompt": "x"}, headers=acme)).json()["id"]
        plane.alert("b", theirs)
        plane.alert("d", None)
        plane.alert("a", mine)
        async with stream(on.http, "/v1/events", headers=acme) as events:
            seen = [e for e in [*await events.until("alert"), *await events.quiet()] if e.name == "alert"]
            assert ids(seen) == ["a"]
        told = (await on.http.get("/v1/alerts", headers=acme)).json()
        assert [a["alert_id"] for a in told["alerts"]] == ["a"]
        for path in (f"/v1/alerts?pod={theirs}", f"/v1/alerts?root={theirs}"):
            assert (await on.http.get(path, headers=acme)).status_code == 404


async def test_the_kept_alerts_can_be_read() -> None:
    plane = FakePlane()
    boss = words.running(plane.memory, "boss")
    boss.spawn("kid")
    for number in range(3):
        plane.alert(f"k{number}", "kid")
    plane.alert("b", "boss")
    plane.alert("d", None)
    async with client_of(plane) as http:

        async def told(query: str = "") -> list[str]:
            return [a["alert_id"] for a in (await http.get(f"/v1/alerts{query}")).json()["alerts"]]

        assert await told() == ["k0", "k1", "k2", "b", "d"]
        assert await told("?pod=kid&limit=2") == ["k1", "k2"]
        assert await told("?root=boss") == ["k0", "k1", "k2", "b"]
        assert (await http.get("/v1/alerts")).json()["alerts"][0]["pod_id"] == "kid"
        assert "pod_id" not in (await http.get("/v1/alerts")).json()["alerts"][-1]
        for query in ("?pod=nobody", "?limit=0", "?limit=513", "?pod=../x"):
            assert (await http.get(f"/v1/alerts{query}")).status_code in (404, 422), query


async def test_a_flood_that_a_reader_cannot_take_is_told_as_a_number() -> None:
    plane = FakePlane()
    words.running(plane.memory, "p")
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=3") as events:
        await events.until("status")
        topic = on.gateway.topics._open["p"].topic
        await until(lambda: bool(topic.watchers))
        watchers, topic.watchers = topic.watchers, set()  # as one that is not scheduled for a while
        for number in range(600):
            plane.alert(f"a{number}", "p")
            if number % 100 == 99:
                await until(lambda number=number: topic.alerts.count == number + 1)  # type: ignore[misc]
        topic.watchers = watchers
        topic.wake()
        seen = ids(await events.until("alert", alert_id="a599"))
        assert len(seen) == 513
        assert seen[0].startswith("missed:")
        assert seen[1:] == [f"a{n}" for n in range(88, 600)]


def test_a_ring_is_read_by_position() -> None:
    ring: Ring[int] = Ring(3)
    assert (ring.after(0), ring.missed(0)) == ([], 0)
    for number in range(5):
        ring.add(number)
    assert (ring.after(0), ring.missed(0)) == ([2, 3, 4], 2)
    assert (ring.after(4), ring.missed(4)) == ([4], 0)
    assert (ring.after(5), ring.missed(5)) == ([], 0)
