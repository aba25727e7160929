"""Who may ask: tokens, tenants, and pages of other sites."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from orchestrator.gateway.access import Caller, NotLoopback, caller_of, check_exposure, is_loopback
from orchestrator.gateway.options import GatewayOptions
from orchestrator.gateway.problems import HttpProblem
from tests.support import store as words
from tests.support.control_plane import FakePlane
from tests.support.gateway import QUICK, client_of

TENANTS = GatewayOptions(tenants={"tok-a": "acme", "tok-b": "bolt"}, home_secret="home")
ALONE = GatewayOptions(home_secret="home")
HERE = {"host": "127.0.0.1:7420"}


@dataclass(frozen=True)
class Case:
    options: GatewayOptions
    headers: dict[str, str]
    expect: Caller | int


CASES = [
    Case(ALONE, HERE, Caller()),
    Case(ALONE, {"host": "localhost:1"}, Caller()),
    Case(ALONE, {"host": "[::1]:1"}, Caller()),
    Case(ALONE, {**HERE, "authorization": "Bearer home"}, Caller(owner=True)),
    Case(ALONE, {**HERE, "authorization": "Bearer old"}, 401),
    Case(ALONE, {"host": "evil.example:7420"}, 403),
    Case(ALONE, {**HERE, "origin": "http://evil.example"}, 403),
    Case(ALONE, {**HERE, "origin": "null"}, 403),
    Case(ALONE, {**HERE, "origin": "http://127.0.0.1:7420"}, Caller()),
    Case(TENANTS, HERE, 401),
    Case(TENANTS, {**HERE, "authorization": "Bearer tok-a"}, Caller("acme")),
    Case(TENANTS, {"host": "pods.example", "authorization": "bearer tok-b"}, Caller("bolt")),
    Case(TENANTS, {**HERE, "authorization": "Bearer home"}, Caller(owner=True)),
    Case(TENANTS, {**HERE, "authorization": "Bearer tok"}, 401),
    Case(TENANTS, {**HERE, "authorization": "Bearer "}, 401),
    Case(TENANTS, {**HERE, "authorization": "Basic tok-a"}, 401),
    Case(TENANTS, {**HERE, "authorization": "Bearer töken"}, 401),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: str(c.headers))
def test_who_sends_these_headers(case: Case) -> None:
    if isinstance(case.expect, Caller):
        assert caller_of(case.headers, case.options) == case.expect
        return
    with pytest.raises(HttpProblem) as caught:
        caller_of(case.headers, case.options)
    assert caught.value.status == case.expect
    assert caught.value.kind == "forbidden"


HOSTS = [
    ("127.0.0.1", True),
    ("127.8.9.1", True),
    ("::1", True),
    ("[::1]", True),
    ("localhost", True),
    ("0.0.0.0", False),
    ("::", False),
    ("10.0.0.1", False),
    ("localhost.evil.example", False),
    ("", False),
]


@pytest.mark.parametrize(("host", "expect"), HOSTS)
def test_what_is_loopback(host: str, expect: bool) -> None:
    assert is_loopback(host) is expect


def test_beyond_loopback_a_token_is_needed() -> None:
    check_exposure("127.0.0.1", ALONE)
    check_exposure("0.0.0.0", TENANTS)
    with pytest.raises(NotLoopback, match="POLYPOD__GATEWAY__TOKEN"):
        check_exposure("0.0.0.0", ALONE)


def test_G06_no_token_shows_in_the_options() -> None:
    assert "tok-a" not in repr(TENANTS)
    assert "home" not in repr(replace(TENANTS, home_secret="home"))


async def test_only_the_homes_secret_sets_a_workspace() -> None:
    plane = FakePlane()
    async with client_of(plane, replace(QUICK, home_secret="home")) as http:
        refused = await http.post("/v1/pods", json={"prompt": "x", "workspace": "/w"})
        assert refused.status_code == 403
        taken = await http.post(
            "/v1/pods", json={"prompt": "x", "workspace": "/w"}, headers={"authorization": "Bearer home"}
        )
        assert taken.status_code == 201
        assert plane.row(taken.json()["id"]).config["workspace"] == "/w"


async def test_V06_pods_of_another_tenant_are_not_found() -> None:
    plane = FakePlane()
    options = replace(QUICK, tenants={"tok-a": "acme", "tok-b": "bolt"})
    acme, bolt = ({"authorization": f"Bearer tok-{t}"} for t in "ab")
    async with client_of(plane, options) as http:
        assert (await http.get("/v1/pods")).status_code == 401
        assert (await http.get("/v1/pods")).headers["www-authenticate"] == "Bearer"
        pod = (await http.post("/v1/pods", json={"prompt": "x", "message_id": "m"}, headers=acme)).json()
        other = (await http.post("/v1/pods", json={"prompt": "x", "message_id": "m"}, headers=bolt)).json()
        assert pod["id"] != other["id"]
        calls: list[tuple[str, str, Any]] = [
            ("GET", "", None),
            ("GET", "/log", None),
            ("GET", "/events", None),
            ("GET", "/result?wait=0", None),
            ("POST", "/messages", {"content": "x"}),
            ("POST", "/stop", {}),
            ("POST", "/cancel", {}),
            ("POST", "/answer", {"question_id": "q", "text": "x"}),
        ]
        for method, path, body in calls:
            for pod_id in (other["id"], "nothing"):
                response = await http.request(method, f"/v1/pods/{pod_id}{path}", json=body, headers=acme)
                assert response.status_code == 404, path
                assert response.json()["detail"] == f"There is no Pod {pod_id!r}."
        assert [p["id"] for p in (await http.get("/v1/pods", headers=acme)).json()["pods"]] == [pod["id"]]
        assert (await http.get("/v1/events", params={"root": other["id"]}, headers=acme)).status_code == 404
        owner = plane.owner(other["id"])
        owner.begin(*owner.seen)
        words.Owner.ask(owner, "q")
        assert (await http.get("/v1/inbox", headers=acme)).json() == {"questions": []}
        assert len((await http.get("/v1/inbox", headers=bolt)).json()["questions"]) == 1


async def test_probes_need_no_token_and_tell_strangers_little() -> None:
    async with client_of(FakePlane(), replace(QUICK, tenants={"t": "acme"})) as http:
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.get("/readyz")).json() == {"ready": True}
        assert (await http.get("/readyz", headers={"authorization": "Bearer t"})).json() == {"ready": True, "pool": 2}
