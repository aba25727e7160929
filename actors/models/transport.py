"""The transport port: one POST, answered as it comes. `http` carries it over the network; tests give their own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from actors.protocol.model import ModelError


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds for each phase of one attempt.

    `connect`: until the connection stands. `first_byte`: from the start until the first byte of the body, since servers
    send headers early and then think. `idle`: between two pieces of the body. `total`: the whole attempt.
    """

    connect: float = 10.0
    first_byte: float = 120.0
    idle: float = 60.0
    total: float = 1800.0


@dataclass(frozen=True, slots=True)
class Post:
    """`headers` may hold a key and are never shown."""

    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    proxy: str | None = field(default=None, repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)


class Response(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""

    async def read(self) -> bytes:
        """The next piece of the body; empty at its end. Raises `TransportError`."""


class Transport(Protocol):
    def post(self, post: Post) -> AbstractAsyncContextManager[Response]:
        """Send, and enter once the headers are there. Leaving, also by cancellation, closes a connection whose body was
        not read to its end. Raises `TransportError`."""

    async def close(self) -> None: ...


class TransportError(Exception):
    """The network failed: `kind` as in `ModelError`, `message` without addresses of keys or headers."""

    def __init__(self, kind: Literal["connection", "timeout", "broken_stream"], message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message

    def as_model_error(self) -> ModelError:
        return ModelError(self.kind, self.message)
