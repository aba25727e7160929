"""The HTTP seam as a client: plain blocking calls over the standard library, since commands must start fast."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

from orchestrator.cli.failure import GatewayProblem, OwnerLost
from orchestrator.event_lines import EventLines, EventTooLong
from orchestrator.events import Wire

_TYPE = "urn:polypod:"
_CHUNK = 64 << 10
_AGAIN = 0.5
"""Seconds between two tries of a read that the store could not answer."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """Calls to one gateway. Each call is a connection of its own, so calls may come from several threads.

    `patience`: seconds for which a read is repeated while the store cannot answer (503); it may be restarting.
    """

    address: str
    secret: str | None = None
    timeout: float = 60.0
    patience: float = 0.0

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        limit = time.monotonic() + self.patience
        while True:
            try:
                return self._call("GET", path, query, None)
            except GatewayProblem as problem:
                if problem.status != 503 or time.monotonic() > limit:
                    raise
            time.sleep(_AGAIN)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self._call("POST", path, None, body or {})

    def stream(
        self, path: str, query: Mapping[str, Any] | None = None, closed: Callable[[], bool] = lambda: False
    ) -> Iterator[Wire]:
        """Server-sent events until the server ends them, or until `closed`, which is looked at whenever anything comes;
        the comments of a quiet stream are something too. Raises `OwnerLost` when the connection breaks."""
        with closing(self._connect()) as connection:
            try:
                response = self._send(connection, "GET", _with_query(path, query), None, accept="text/event-stream")
                if response.status != 200:
                    raise _problem(response.status, response.read())
                lines = EventLines()
                while (chunk := response.read1(_CHUNK)) and not closed():
                    yield from lines.feed(chunk)
            except (OSError, HTTPException, EventTooLong) as error:
                raise self._lost(error) from None

    def _call(self, method: str, path: str, query: Mapping[str, Any] | None, body: Mapping[str, Any] | None) -> Any:
        with closing(self._connect()) as connection:
            try:
                response = self._send(connection, method, _with_query(path, query), body)
                data = response.read()
            except (OSError, HTTPException) as error:
                raise self._lost(error) from None
        if response.status >= 400:
            raise _problem(response.status, data)
        try:
            return json.loads(data) if data else None
        except ValueError:
            raise OwnerLost(f"{self.address} does not speak polypod's protocol: is another program there?") from None

    def _connect(self) -> HTTPConnection:
        parts = urlsplit(self.address)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        return kind(parts.hostname or "127.0.0.1", parts.port, timeout=self.timeout)

    def _send(
        self,
        connection: HTTPConnection,
        method: str,
        target: str,
        body: Mapping[str, Any] | None,
        accept: str = "application/json",
    ) -> HTTPResponse:
        headers = {"Accept": accept}
        if self.secret:
            headers["Authorization"] = f"Bearer {self.secret}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        connection.request(method, target, body=data, headers=headers)
        return connection.getresponse()

    def _lost(self, error: Exception) -> OwnerLost:
        reason = str(error) or type(error).__name__
        return OwnerLost(f"the owner of the home does not answer at {self.address} ({reason})")


def _with_query(path: str, query: Mapping[str, Any] | None) -> str:
    given = {k: _plain(v) for k, v in (query or {}).items() if v is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _problem(status: int, data: bytes) -> GatewayProblem:
    """A problem document (RFC 9457) as an error; anything else is told by its status."""
    try:
        plain = json.loads(data)
    except ValueError:
        plain = {}
    if not isinstance(plain, dict):
        plain = {}
    kind = str(plain.get("type", "")).removeprefix(_TYPE) or f"http-{status}"
    message = str(plain.get("detail") or plain.get("title") or f"the gateway answered {status}")
    return GatewayProblem(kind, status, message)
