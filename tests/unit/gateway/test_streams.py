"""The event stream of one Pod, on a real socket."""

import asyncio
import random
import socket
import time
from contextlib import suppress
from dataclasses import replace

import httpx
import pytest

from orchestrator.gateway.reader import Start, start_of
from orchestrator.gateway.topic import TAIL_BYTES
from session_store.entries import AssistantItems, Rewound, SegmentEnd, SystemItems
from session_store.errors import StoreDamaged
from session_store.items import SystemItem, Text
from session_store.requests import Read
from tests.support import store as words
from tests.support.control_plane import FakePlane
from tests.support.gateway import QUICK, Event, Served, entries, served, stream, texts, until

STARTS = [
    (None, Start(0)),
    ("", Start(0)),
    ("0", Start(0)),
    ("7", Start(7)),
    ("8", Start(7, "beyond-head")),
    ("9" * 400, Start(7, "beyond-head")),
    ("-1", Start(7, "malformed-cursor")),
    ("x", Start(7, "malformed-cursor")),
    ("٣", Start(7, "malformed-cursor")),
    ("1.5", Start(7, "malformed-cursor")),
]


@pytest.mark.parametrize(("given", "expect"), STARTS)
def test_V02_what_a_cursor_means(given: str | None, expect: Start) -> None:
    assert start_of(given, 7) == expect


async def test_S15_a_fresh_client_sees_history_and_state_at_once() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    owner.append(words.text("done"))
    owner.end()
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events") as events:
        seen = await events.take(6)
        assert [e.name for e in seen] == ["entry"] * 5 + ["status"]
        assert entries(seen) == [1, 2, 3, 4, 5]
        assert [e.data["type"] for e in seen[:5]] == [
            "segment_start",
            "invoke",
            "user_input",
            "assistant_items",
            "run_end",
        ]
        assert seen[5].data == {"status": "idle", "generation": 1, "head_seq": 5}
        assert seen[5].id is None
        assert await events.quiet() == []


async def test_S15_a_pod_that_has_not_run_yet_is_seen_with_its_state() -> None:
    plane = FakePlane()
    boss = words.running(plane.memory, "boss")
    boss.spawn("kid")
    async with served(plane) as on, stream(on.http, "/v1/pods/kid/events") as events:
        first, status = await events.take(2)
        assert (first.id, first.data["type"]) == ("1", "segment_start")
        assert status.data == {"status": "running", "generation": 0, "head_seq": 1}


async def test_V08_a_bad_request_is_told_to_its_sender_only() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=3") as events:
        await events.until("status")
        for body in ({"content": 1}, {}, {"segments": [{"type": "nonsense"}]}):
            assert (await on.http.post("/v1/pods/p/messages", json=body)).status_code == 422
        assert (await on.http.get("/v1/pods/p/events/nothing")).status_code == 404
        owner.end()
        assert [e.name for e in await events.until("status", status="idle")] == ["entry", "status"]


async def test_entries_come_as_they_are_committed_and_status_follows_them() -> None:
    plane = FakePlane()
    words.create(plane.memory, "p")
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=1") as events:
        assert (await events.take(1))[0].data["status"] == "idle"
        words.deliver(plane.memory, "p", words.message("m1"))
        assert (await events.take(1))[0].data == {"status": "running", "generation": 0, "head_seq": 1}
        owner = plane.owner("p")
        owner.begin("m1")
        owner.end()
        seen = await events.until("status", status="idle")
        assert entries(seen) == [2, 3, 4]


async def test_a_system_item_is_one_event_of_its_own() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    item = SystemItem("notification", "n1", {"message": "hi"}, "<n>hi</n>")
    owner.append(SystemItems((item,)))
    owner.append(SystemItems((item, replace(item, item_id="n2"))))
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=3") as events:
        seen = (await events.take(4))[:3]
        assert [e.name for e in seen] == ["system_item"] * 3
        assert set(seen[0].data) == {"seq", "ts", "kind", "payload", "body"}
        assert seen[0].data["body"] == "<n>hi</n>"
        assert [e.id for e in seen] == ["4", None, "5"]


NASTY = "a\nb\r\nc\rd\u2028e\u2029f\u0085g\n\ndata: x\n\nevent: y\n: z\x00\x0b\x1e日本🙂 end"


async def test_V07_one_event_per_frame_and_the_exact_text() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    owner.append(AssistantItems("r", (Text(NASTY),)))
    live = plane.live(owner)
    live.text("s", "s.1.0", NASTY)
    async with served(plane) as on:
        async with stream(on.http, "/v1/pods/p/events?after=3") as events:
            seen = await events.until("delta")
            assert seen[0].data["items"][0]["text"] == NASTY
            assert seen[-1].data["text"] == NASTY
        async with on.http.stream("GET", "/v1/pods/p/events?after=3") as response:
            # A client that splits lines by Unicode's rules sees the same lines.
            async for line in response.aiter_lines():
                assert line == "" or line.startswith(("id: ", "event: ", "data: ", ":"))
                if line.startswith("event: status"):
                    break


async def test_V03_attach_in_mid_stream_gives_the_full_text_once() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    live = plane.live(owner)
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=3") as first:
        live.text("r", "r.1.0", "日本🙂")
        seen = await first.until("delta")
        assert seen[-1].data == {"request_id": "r", "block": "r.1.0", "offset": 0, "text": "日本🙂", "after": 3}
        async with stream(on.http, "/v1/pods/p/events?after=3") as late:
            one = await late.until("delta")
            assert one[-1].data["offset"] == 0
            live.text("r", "r.1.0", " and more")
            two = await late.until("delta")
            assert two[-1].data["offset"] == 3
            assert texts(one + two) == {"r.1.0": "日本🙂 and more"}
            owner.append(AssistantItems("r", (Text("日本🙂 and more", "r.1.0"),)))
            live.committed("r")
            done = await late.until("entry", seq=4)
            assert not [e for e in done if e.name in ("delta", "discard")]
        async with stream(on.http, "/v1/pods/p/events?after=3") as after:
            assert entries(await after.take(2)) == [4]
            assert await after.quiet() == []


async def test_V03_attach_to_a_new_session_and_send_at_once() -> None:
    plane = FakePlane()
    words.create(plane.memory, "p")
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events") as events:
        sent = await on.http.post("/v1/pods/p/messages", json={"content": "hello", "message_id": "m1"})
        assert sent.status_code == 202
        owner = plane.owner("p")
        owner.begin("m1")
        owner.end()
        seen = await events.until("status", status="idle", generation=1)
        mine = [e for e in seen if e.name == "entry" and e.data["type"] == "user_input"]
        assert [e.data["message_id"] for e in mine] == ["m1"]


async def test_text_that_is_not_committed_is_discarded() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    live = plane.live(owner)
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=3") as events:
        live.text("r", "r.1.0", "half")
        await events.until("delta")
        live.discard("r")
        live.retry("r", 2, 0.5, "overloaded")
        live.text("r", "r.2.0", "whole")
        seen = await events.until("delta")
        assert [e.name for e in seen] == ["discard", "retry", "delta"]
        assert seen[0].data == {"request_id": "r"}
        assert seen[1].data == {"request_id": "r", "attempt": 2, "wait": 0.5, "reason": "overloaded"}
        live.text("r", "r.2.1", "dropped")
        await events.until("delta")
        owner.append(AssistantItems("r", (Text("whole", "r.2.0"),)))
        live.committed("r")
        seen = await events.until("entry", seq=4)
        assert [e.name for e in seen] == ["discard", "entry"]


@pytest.mark.parametrize("earlier", [False, True])
async def test_M08_the_first_retry_is_told_to_one_who_attached_to_a_quiet_pod(earlier: bool) -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    live = plane.live(owner)
    if earlier:
        live.retry("old", 2, 0.5, "before anyone watched")
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=3") as events:
        await events.until("status")
        await asyncio.sleep(0.05)  # the first look has been
        live.retry("r", 2, 0.5, "overloaded")
        assert [e.data["request_id"] for e in await events.take(1)] == ["r"]


async def test_the_gateway_itself_discards_when_the_incarnation_changes() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    plane.live(owner).text("r", "r.1.0", "half")
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=3") as events:
        await events.until("delta")
        del plane.lives["p"]
        assert (await events.until("discard"))[-1].data == {"request_id": "r"}
        second = plane.owner("p")
        live = plane.live(second)
        for _ in range(3):
            live.text("s", "s.1.0", "x")
        seen = await events.take(2)
        assert {e.name for e in seen} == {"delta", "status"}
        assert {"status": "running", "generation": 2, "head_seq": 3} in [e.data for e in seen]
        assert texts(seen) == {"s.1.0": "xxx"}


@pytest.mark.parametrize(("cursor", "reason"), [("99", "beyond-head"), ("abc", "malformed-cursor")])
async def test_V02_a_bad_cursor_gets_one_resync_and_then_what_follows(cursor: str, reason: str) -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    async with served(plane) as on:
        async with stream(on.http, "/v1/pods/p/events", headers={"Last-Event-ID": cursor}) as events:
            first = (await events.take(1))[0]
            assert first.name == "resync"
            assert first.id is None
            assert first.data["reason"] == reason
            assert first.data["head_seq"] == 3
            assert first.data["snapshot"]["id"] == "p"
            assert first.data["snapshot"]["status"] == "running"
            owner.end()
            assert entries(await events.until("status", status="idle")) == [4]
        async with stream(on.http, "/v1/pods/p/events", params={"after": cursor}) as events:
            assert (await events.take(1))[0].data["reason"] == reason


async def test_V02_a_cursor_older_than_a_purge_gets_a_resync() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    owner.end()
    plane.waiting.purged = 3
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=1") as events:
        first = (await events.take(1))[0]
        assert (first.name, first.data["reason"], first.data["head_seq"]) == ("resync", "purged", 4)
        assert [e.name for e in await events.quiet()] == ["status"]


async def test_V02_a_cursor_before_a_purge_of_all_there_is_is_told_too() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    owner.end()
    plane.waiting.purged = 4
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=1") as events:
        assert [e.name for e in await events.until("status")] == ["resync", "status"]
        plane.owner("p").append(words.text("after it"))
        assert entries(await events.until("entry")) == [5]


async def test_V02_a_cursor_before_a_rewind_or_another_segment_is_an_ordinary_one() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    owner.append(words.text("old"))
    owner.end()
    owner.append(Rewound(3))
    owner.append(SegmentEnd(), replace(words.start("p"), history=()))
    async with served(plane) as on:
        for cursor in range(8):
            async with stream(on.http, f"/v1/pods/p/events?after={cursor}") as events:
                seen = await events.until("status")
                assert [e.data["seq"] for e in seen[:-1]] == list(range(cursor + 1, 9))
                assert {e.name for e in seen[:-1]} <= {"entry"}
        async with stream(on.http, "/v1/pods/p/events?after=5") as events:
            kinds = [e.data["type"] for e in await events.take(3)]
            assert kinds == ["rewound", "segment_end", "segment_start"]


async def test_V01_random_disconnects_lose_and_double_nothing() -> None:
    rng = random.Random(7)
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    live = plane.live(owner)
    total = 150
    told: list[str] = []

    async def work() -> None:
        for number in range(total):
            request_id, text = f"r{number}", f"{number}:日本🙂" * rng.randint(1, 3)
            for piece in (text[:3], text[3:]):
                live.text(request_id, f"{request_id}.1.0", piece)
                await asyncio.sleep(rng.random() * 0.004)
            owner.append(AssistantItems(request_id, (Text(text, f"{request_id}.1.0"),)))
            live.committed(request_id)
            told.append(text)
        owner.end()

    async def watch(on: Served, seed: int) -> tuple[list[int], int]:
        chance = random.Random(seed)
        seen: list[Event] = []
        cursor, connections = "3", 0
        while not seen or seen[-1].data.get("type") != "run_end":
            connections += 1
            this: list[Event] = []
            async with stream(on.http, "/v1/pods/p/events", headers={"Last-Event-ID": cursor}) as events:
                for _ in range(chance.randint(1, 25)):
                    event = await events.next()
                    assert event is not None
                    this.append(event)
                    texts(this)
                    if event.id is not None:
                        cursor = event.id
                        seen.append(event)
                        if event.data.get("type") == "run_end":
                            break
        return entries(seen), connections

    async with served(plane) as on, asyncio.timeout(60):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(work())
            watchers = [tasks.create_task(watch(on, seed)) for seed in range(3)]
        for watcher in watchers:
            seqs, connections = watcher.result()
            assert seqs == list(range(4, 4 + total + 1))
            assert connections > 5


async def test_V04_a_reader_that_stops_reading_is_dropped_and_slows_nobody() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    big = "x" * 200_000
    options = replace(QUICK, stall=0.4, linger=5.0)
    path = "/v1/pods/p/events?after=3"
    async with served(plane, options) as on, stream(on.http, path) as good, stream(on.http, path) as other:
        stopped = socket.create_connection(("127.0.0.1", on.server.port))
        stopped.sendall(b"GET /v1/pods/p/events?after=3 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await asyncio.sleep(0.1)
        topic = on.gateway.topics._open["p"]
        assert topic.readers == 3
        slowest = 0.0
        for number in range(60):
            began = time.monotonic()
            owner.append(AssistantItems(f"r{number}", (Text(big),)))
            await good.until("entry", seq=4 + number)
            await other.until("entry", seq=4 + number)
            slowest = max(slowest, time.monotonic() - began)
            assert topic.topic._tail_bytes <= TAIL_BYTES + 2 * len(big)  # nothing is queued for anybody
        assert slowest < 1.0
        await until(lambda: topic.readers == 2)
        # Dropped: nothing is kept for it. When it reads again, it finds out why, and can go on from its cursor.
        stopped.settimeout(5)
        raw = await asyncio.to_thread(_drain, stopped)
        stopped.close()
        assert raw.count("event: resync") == 1
        assert '"reason":"slow-reader"' in raw
        cursor = raw.rpartition("\nid: ")[2].partition("\n")[0]
        async with stream(on.http, f"/v1/pods/p/events?after={cursor}") as again:
            rest = await again.until("entry", seq=63)
            assert entries(rest) == list(range(int(cursor) + 1, 64))


def _drain(connection: socket.socket) -> str:
    raw = b""
    with suppress(TimeoutError):
        while b"slow-reader" not in raw:
            chunk = connection.recv(1 << 20)
            if not chunk:
                break
            raw += chunk
    return raw.decode()


async def test_V05_a_stuck_pod_can_still_be_read() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    plane.stuck.add("p")
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events") as events:
        await events.until("status")
        owner.end()
        assert entries(await events.until("status", status="idle")) == [4]
        assert len((await on.http.get("/v1/pods/p/log")).json()["entries"]) == 4
        assert len((await on.http.get("/v1/pods")).json()["pods"]) == 1


async def test_V08_a_disconnect_leaves_nothing_open() -> None:
    plane = FakePlane()
    words.running(plane.memory, "p")
    async with served(plane) as on:
        before = len(asyncio.all_tasks())
        async with stream(on.http, "/v1/pods/p/events") as one, stream(on.http, "/v1/pods/p/events") as two:
            await one.until("status")
            await two.until("status")
            assert plane.watching["p"] <= 1
            assert on.gateway.feed.listening
        abrupt = socket.create_connection(("127.0.0.1", on.server.port))
        abrupt.sendall(b"GET /v1/pods/p/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await asyncio.sleep(0.1)
        abrupt.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        abrupt.close()
        await until(lambda: not on.gateway.feed.listening and len(asyncio.all_tasks()) <= before)
        assert len(on.gateway.topics) == 0
        assert plane.watching["p"] == 0
        # Nobody watching costs nothing.
        calls = plane.waiting.calls.total()
        await asyncio.sleep(0.1)
        assert plane.waiting.calls.total() == calls


async def test_a_quiet_stream_is_kept_alive() -> None:
    plane = FakePlane()
    words.create(plane.memory, "p")
    async with served(plane, replace(QUICK, keepalive=0.05)) as on, stream(on.http, "/v1/pods/p/events") as events:
        await events.until("status")
        assert await events.quiet(0.3) == []
        assert events.comments >= 3


async def test_a_store_that_is_away_for_a_while_loses_nothing() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=3") as events:
        await events.until("status")
        plane.waiting.down = True
        owner.append(words.text("one"))
        await asyncio.sleep(0.3)
        plane.waiting.down = False
        owner.end()
        assert entries(await events.until("status", status="idle")) == [4, 5]
        async with asyncio.timeout(5):
            plane.waiting.down = True
            response = await on.http.get("/v1/pods/p/events")
            assert response.status_code == 503
            assert response.headers["content-type"] == "application/problem+json"
            plane.waiting.down = False


async def test_an_entry_reaches_a_client_soon_after_its_commit() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    took: list[float] = []
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events?after=3") as events:
        await events.until("status")
        for number in range(40):
            began = time.monotonic()
            owner.append(words.text("x", f"r{number}"))
            await events.until("entry", seq=4 + number)
            took.append(time.monotonic() - began)
    # Far above what it takes (docs/benchmarks.md has the figure), far below any polling.
    assert sorted(took)[len(took) // 2] < 0.1


async def test_a_damaged_log_ends_its_stream_with_the_reason() -> None:
    plane = FakePlane()
    words.running(plane.memory, "p")
    execute = plane.waiting.execute

    async def damaged(request):  # type: ignore[no-untyped-def]
        if isinstance(request, Read):
            raise StoreDamaged("the log of session p is damaged at entry 2", session="p", seq=2)
        return await execute(request)

    plane.waiting.execute = damaged  # type: ignore[method-assign]
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events") as events:
        seen = await events.until("resync")
        assert seen[-1].data["reason"] == "store-damaged"
        assert "entry 2" in seen[-1].data["detail"]
        assert await events.next() is None


async def test_S02_a_pod_that_cannot_start_for_damage_ends_its_stream_with_the_reason() -> None:
    plane = FakePlane()
    words.running(plane.memory, "p")
    plane.damaged["p"] = "the log of session p is damaged at entry 2"
    async with served(plane) as on, stream(on.http, f"/v1/pods/p/events?after={plane.row('p').head}") as events:
        seen = await events.until("resync")
        assert seen[-1].data["reason"] == "store-damaged"
        assert "entry 2" in seen[-1].data["detail"]


async def test_closing_the_gateway_ends_its_streams_at_once() -> None:
    plane = FakePlane()
    words.running(plane.memory, "p")
    async with served(plane) as on, stream(on.http, "/v1/pods/p/events") as events:
        await events.until("status")
        async with stream(on.http, "/v1/events") as tree:
            began = time.monotonic()
            await on.server.close()
            with suppress(httpx.RemoteProtocolError):
                assert await events.next() is None
                assert await tree.next() is None
            assert time.monotonic() - began < 2
