"""The stream over many Pods: headers only, and a cursor of the whole store."""

import asyncio
from dataclasses import replace

import pytest

from orchestrator.gateway.tree import TreeCursor
from tests.support import store as words
from tests.support.control_plane import FakePlane
from tests.support.gateway import QUICK, Event, served, stream


def told(events: list[Event]) -> list[tuple[str, int]]:
    return [(e.data["pod_id"], e.data["seq"]) for e in events]


async def test_headers_of_all_pods_come_and_no_words() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "old")
    async with served(plane) as on, stream(on.http, "/v1/events") as events:
        await asyncio.sleep(0.05)
        owner.append(words.text("secret words"))
        owner.end()
        words.create(plane.memory, "new", name="newcomer")
        seen = await events.take(3)
        assert sorted(told(seen)) == [("new", 1), ("old", 4), ("old", 5)]
        end = next(e for e in seen if e.data["type"] == "run_end")
        assert set(end.data) == {"pod_id", "pod_name", "seq", "ts", "type", "run_id", "outcome"}
        assert "secret" not in str([e.data for e in seen])
        assert await events.quiet() == []


async def test_a_tree_is_told_alone() -> None:
    plane = FakePlane()
    boss = words.running(plane.memory, "boss")
    other = words.running(plane.memory, "other")
    async with served(plane) as on, stream(on.http, "/v1/events?root=boss") as events:
        await asyncio.sleep(0.05)
        other.append(words.text("x"))
        boss.spawn("kid")
        boss.append(words.text("y"))
        assert sorted(told(await events.take(2))) == [("boss", 4), ("kid", 1)]
        assert await events.quiet() == []


@pytest.mark.parametrize("forgotten", [False, True])
async def test_V01_a_stream_goes_on_from_its_cursor(forgotten: bool) -> None:
    plane = FakePlane()
    one, two = words.running(plane.memory, "one"), words.running(plane.memory, "two")
    async with served(plane) as on:
        async with stream(on.http, "/v1/events") as events:
            await asyncio.sleep(0.05)
            one.append(words.text("a"))
            (first,) = await events.take(1)
            assert first.id is not None
        cursor = first.id
        for number in range(100):
            one.append(words.text("b", f"r{number}"))
            await asyncio.sleep(0.0005)
        two.append(words.text("c"))
        if forgotten:
            place = TreeCursor.read(cursor)
            assert place is not None
            cursor = str(replace(place, place=0))  # as after a restart of the store
        async with stream(on.http, "/v1/events", headers={"Last-Event-ID": cursor}) as events:
            seen = await events.quiet(0.5)
            assert sorted(set(told(seen)) - {("one", 4)}) == sorted([("one", s) for s in range(5, 105)] + [("two", 4)])
            assert len(told(seen)) == len(set(told(seen)))
            assert seen[-1].id is not None


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        ("x.y", "malformed-cursor"),
        ("0x1.2", "malformed-cursor"),
        ("1_0.1", "malformed-cursor"),
        ("1.2.3", "malformed-cursor"),
        (f"{'f' * 16}.0", "malformed-cursor"),
        ("1.ffffffffffff", "beyond-head"),
    ],
)
async def test_V02_a_cursor_that_is_none_gets_a_resync_and_then_what_follows(cursor: str, reason: str) -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    async with served(plane) as on, stream(on.http, "/v1/events", params={"after": cursor}) as events:
        first = (await events.take(1))[0]
        assert (first.name, first.data["reason"]) == ("resync", reason)
        assert first.id is not None
        owner.end()
        assert told(await events.take(1)) == [("p", 4)]


async def test_V06_events_of_another_tenant_are_not_told() -> None:
    plane = FakePlane()
    options = replace(QUICK, tenants={"tok-a": "acme", "tok-b": "bolt"})
    acme, bolt = ({"authorization": f"Bearer tok-{t}"} for t in "ab")
    async with served(plane, options) as on, stream(on.http, "/v1/events", headers=acme) as events:
        await asyncio.sleep(0.05)
        await on.http.post("/v1/pods", json={"prompt": "x"}, headers=bolt)
        mine = (await on.http.post("/v1/pods", json={"prompt": "x"}, headers=acme)).json()
        assert told(await events.take(1)) == [(mine["id"], 1)]
        assert await events.quiet() == []
