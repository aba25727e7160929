"""`GET /metrics` and `GET /v1/top`: who may, and what they hold."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.gateway.options import GatewayOptions
from session_store.entries import LlmUsage
from tests.support import store as words
from tests.support.control_plane import FakePlane
from tests.support.gateway import QUICK, check_problem, client_of, new_pod
from tests.support.prometheus import check_metrics, series

TENANTS: GatewayOptions = replace(QUICK, tenants={"op": "default", "tok-a": "acme"}, home_secret="home")


async def test_metrics_are_of_what_was_committed() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        pod = await new_pod(http, prompt="go")
        owner = plane.owner(pod["id"])
        owner.append(LlmUsage("r1", 1, 70, 20, 0, 5, 1))
        response = await http.get("/metrics")
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        check_metrics(response.text)
        found = series(response.text)
        assert found['polypod_tokens_total{kind="input",model="unknown",worker="pod"}'] == 70
        assert found['polypod_tokens_total{kind="cache_read",model="unknown",worker="pod"}'] == 20
        assert found['polypod_spawns_total{how="root"}'] == 1
        assert found['polypod_pods{profile="default",status="running"}'] == 1
        assert found['polypod_messages_waiting{kind="prompt"}'] == 1


async def test_no_series_is_added_by_more_pods() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        await new_pod(http, prompt="go", name="first")
        before = set(series((await http.get("/metrics")).text))
        for n in range(20):
            await new_pod(http, prompt="go", name=f"more-{n}")
        assert set(series((await http.get("/metrics")).text)) == before


async def test_metrics_are_the_operators_and_name_no_tenant() -> None:
    plane = FakePlane()
    async with client_of(plane, TENANTS) as http:
        acme = {"authorization": "Bearer tok-a"}
        made = await http.post("/v1/pods", json={"prompt": "secret plan", "name": "zeppelin"}, headers=acme)
        assert made.status_code == 201
        for path in ("/metrics", "/v1/top"):
            check_problem(await http.get(path), 401, "forbidden")
            check_problem(await http.get(path, headers={"authorization": "Bearer wrong"}), 401, "forbidden")
            check_problem(await http.get(path, headers=acme), 403, "forbidden")
            for token in ("op", "home"):
                response = await http.get(path, headers={"authorization": f"Bearer {token}"})
                assert response.status_code == 200
                assert not [w for w in ("acme", "zeppelin", "secret", made.json()["id"], "tok-a") if w in response.text]


async def test_a_store_that_is_away_is_told_by_a_gauge_and_by_top() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        plane.waiting.down = True
        found = series((await http.get("/metrics")).text)
        assert found['polypod_part_up{part="store"}'] == 0
        assert found['polypod_part_up{part="directory"}'] == 1
        told = (await http.get("/v1/top")).json()
        assert told["store"] is None
        assert told["pool"]["ready"] == 2


async def test_top_in_figures() -> None:
    plane = FakePlane()
    async with client_of(plane) as http:
        pod = await new_pod(http, prompt="go")
        words.Owner.of(plane.memory, pod["id"]).append(LlmUsage("r1", 1, 70, 20, 0, 5, 1))
        told = (await http.get("/v1/top")).json()
        assert told["pods"]["by_status"]["running"] == 1
        assert told["store"]["requests"] == 1
        assert told["queue"]["by_kind"] == {"prompt": 1}
