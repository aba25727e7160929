"""The gateway on a socket: uvicorn as a task of the caller's loop, without signals, ended within a bound."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from orchestrator.gateway.access import check_exposure
from orchestrator.gateway.app import build_app
from orchestrator.gateway.context import Gateway

CLOSE_LIMIT = 5.0
"""Seconds that requests in flight are given when the server closes."""
BACKLOG = 512


class CannotListen(Exception):
    """The address cannot be had; the message says why and what to do."""


@dataclass(slots=True)
class GatewayServer:
    """A running gateway. `address` is what clients call."""

    host: str
    port: int
    _gateway: Gateway
    _server: uvicorn.Server
    _task: asyncio.Task[None]

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def wait(self) -> None:
        """Return when the server has ended; raises what ended it."""
        await asyncio.shield(self._task)

    async def close(self) -> None:
        """End streams at once and other requests within `CLOSE_LIMIT`. May be called again."""
        await self._gateway.close()
        self._server.should_exit = True
        done, _ = await asyncio.wait({self._task}, timeout=CLOSE_LIMIT + 2)
        if not done:
            self._server.force_exit = True
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


async def serve(gateway: Gateway, host: str, port: int) -> GatewayServer:
    """Listen on `host`; port 0 takes a free one. Returns once it answers.

    Raises `NotLoopback` beyond loopback without a token, and `CannotListen`.
    """
    check_exposure(host, gateway.options)
    listener = _listen(host, port, gateway.options.stall + gateway.options.linger)
    config = uvicorn.Config(
        build_app(gateway),
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=round(CLOSE_LIMIT),
    )
    server = _Server(config)
    task = asyncio.create_task(_serve(server, listener), name="gateway-server")
    while not server.started:
        if task.done():
            task.result()
            raise CannotListen(f"The gateway did not start on {host}:{port}.")
        await asyncio.sleep(0.005)
    return GatewayServer(host, listener.getsockname()[1], gateway, server, task)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Takes none: the process's signals belong to whoever runs the gateway."""
        yield


async def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    try:
        await server.serve([listener])
    finally:
        listener.close()


def _listen(host: str, port: int, stall: float) -> socket.socket:
    name = host.strip("[]")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotListen(f"The gateway cannot listen on {host}: {error.strerror or error}.") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _drop_stalled(listener, stall)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(
            f"The gateway cannot listen on {host}:{port}: {error.strerror or error}. Free the port or choose another"
            " ([gateway] port, --port)."
        ) from None
    listener.setblocking(False)
    return listener


def _drop_stalled(listener: socket.socket, seconds: float) -> None:
    """Have the kernel end connections whose peer takes nothing: a closing one would else keep its buffer for ever."""
    option: Any = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None:
        listener.setsockopt(socket.IPPROTO_TCP, option, round(seconds * 1000))
