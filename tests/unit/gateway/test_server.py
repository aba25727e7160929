"""The gateway on a socket."""

import asyncio
import signal
import socket
from dataclasses import replace

import httpx
import pytest

from orchestrator.gateway.access import NotLoopback
from orchestrator.gateway.context import Gateway
from orchestrator.gateway.server import CannotListen, serve
from tests.support.control_plane import FakePlane
from tests.support.gateway import QUICK


async def test_it_takes_a_free_port_and_no_signals() -> None:
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    server = await serve(Gateway(FakePlane(), QUICK), "127.0.0.1", 0)
    assert {s: signal.getsignal(s) for s in before} == before
    assert server.port > 0
    async with httpx.AsyncClient() as http:
        assert (await http.get(f"{server.address}/healthz")).status_code == 200
    await server.close()
    await server.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", server.port)


async def test_a_taken_port_is_told_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port}.*--port"):
            await serve(Gateway(FakePlane(), QUICK), "127.0.0.1", port)


async def test_an_unknown_host_is_told() -> None:
    options = replace(QUICK, tenants={"t": "acme"})
    with pytest.raises(CannotListen, match=r"nowhere\.invalid"):
        await serve(Gateway(FakePlane(), options), "nowhere.invalid", 0)


async def test_beyond_loopback_it_does_not_start_without_a_token() -> None:
    with pytest.raises(NotLoopback):
        await serve(Gateway(FakePlane(), QUICK), "0.0.0.0", 0)


async def test_closing_waits_for_requests_in_flight() -> None:
    plane = FakePlane()
    gateway = Gateway(plane, QUICK)
    server = await serve(gateway, "127.0.0.1", 0)
    async with httpx.AsyncClient(base_url=server.address) as http:
        pod = (await http.post("/v1/pods", json={"prompt": "x"})).json()
        waiting = asyncio.create_task(http.get(f"/v1/pods/{pod['id']}/result", params={"wait": 30}))
        await asyncio.sleep(0.1)
        async with asyncio.timeout(5):
            await server.close()
            assert (await waiting).json()["outcome"] is None
