"""`GET /v1/usage`: what was spent, by tenant, tree and the rest."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from actors.protocol.usage import NEVER_REFUSED, WorkerUsage
from orchestrator.gateway.feed import Feed
from orchestrator.gateway.usage_book import UsageBook
from session_store.entries import LlmUsage
from session_store.requests import Annotate
from tests.support import store as words
from tests.support.control_plane import FakePlane
from tests.support.gateway import QUICK, client_of


async def test_usage_is_reported_and_goes_on_where_the_last_report_ended() -> None:
    plane = FakePlane()
    async with client_of(plane, replace(QUICK, prices={"m": {"input": 1.0}})) as http:
        pod = (await http.post("/v1/pods", json={"prompt": "go", "name": "boss"})).json()["id"]
        owner = words.Owner.of(plane.memory, pod)
        owner.append(LlmUsage("r1", 1, 2_000_000, 0, 0, 5, 1, model="m"))
        told = (await http.get("/v1/usage")).json()
        [row] = told["rows"]
        assert (row["pod_id"], row["pod_name"], row["worker"]) == (pod, "boss", "pod")
        assert (row["requests"], row["input"], row["output"]) == (1, 2_000_000, 5)
        assert told["unread"] == []
        spent = WorkerUsage("extract", "w1", "small", 70, 0, 0, 7, 1)
        plane.memory.execute(Annotate(pod, spent.entry(), "w1", NEVER_REFUSED))
        told = (await http.get("/v1/usage", params={"by": "worker", "pod": pod})).json()
        assert [(r["worker"], r["requests"]) for r in told["rows"]] == [("pod", 1), ("extract", 1)]
        assert told["total"]["input"] == 2_000_070


async def test_usage_is_the_callers_own_and_asks_for_what_is_known() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        assert (await http.get("/v1/usage")).json()["rows"] == []
        assert (await http.get("/v1/usage", params={"by": "moon"})).status_code == 422
        unknown = await http.get("/v1/usage", params={"pod": "01990000-0000-7000-8000-000000000009"})
        assert unknown.status_code == 404


async def test_usage_reads_on_behind_a_hole_in_the_log() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        pod = (await http.post("/v1/pods", json={"prompt": "go"})).json()["id"]
        owner = words.Owner.of(plane.memory, pod)
        owner.append(LlmUsage("r1", 1, 100, 0, 0, 1, 1))
        owner.append(LlmUsage("r2", 1, 10, 0, 0, 1, 1))
        plane.waiting.purged = 2
        told = (await asyncio.wait_for(http.get("/v1/usage"), 20)).json()
        assert (told["total"]["requests"], told["total"]["input"]) == (1, 10)


async def test_usage_keeps_so_many_folds_as_their_requests_allow_and_counts_the_same() -> None:
    plane, book = FakePlane(), UsageBook(requests_kept=5)
    async with client_of(plane) as http:
        pods = [(await http.post("/v1/pods", json={"prompt": "go"})).json()["id"] for _ in range(3)]
    for pod in pods:
        owner = words.Owner.of(plane.memory, pod)
        for number in range(2):
            owner.append(LlmUsage(f"r{number}", 1, 10, 0, 0, 1, 1))
    feed = Feed(plane, QUICK)
    for _ in range(2):
        for pod in pods:
            fold = await book.of(feed, plane.row(pod))
            assert fold is not None
            assert fold.requests == 2
            assert len(book) <= 2
