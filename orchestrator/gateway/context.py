"""What all routes share: the gateway, one call to it, and how an error becomes an answer."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from orchestrator.gateway.access import Caller, caller_of
from orchestrator.gateway.bodies import NoQuery, is_pod_id
from orchestrator.gateway.door import EmptyDoor
from orchestrator.gateway.feed import Feed
from orchestrator.gateway.options import GatewayOptions
from orchestrator.gateway.problems import (
    HttpProblem,
    from_error,
    from_validation,
    invalid,
    pod_not_found,
    problem_response,
)
from orchestrator.gateway.sse import json_bytes, json_text
from orchestrator.gateway.task_books import TaskBooks
from orchestrator.gateway.topic import Topics
from orchestrator.gateway.usage_book import UsageBook
from orchestrator.gateway.views import JsonObject, pod_view
from orchestrator.ports import ControlPlane, PromptDoor
from session_store.entries import LogEntry
from session_store.reading import decoded
from session_store.requests import Query, Read
from session_store.rows import PodRow

log = logging.getLogger(__name__)

BodyT = TypeVar("BodyT", bound=BaseModel)
FoundT = TypeVar("FoundT")

CHILDREN_SHOWN = 1000
PAGE = 500


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def fresh_id() -> str:
    return secrets.token_hex(12)


@dataclass(slots=True)
class Gateway:
    """The state of one gateway."""

    plane: ControlPlane
    options: GatewayOptions
    door: PromptDoor = field(default_factory=EmptyDoor)
    now_ms: Callable[[], int] = wall_ms
    new_id: Callable[[], str] = fresh_id
    feed: Feed = field(init=False)
    topics: Topics = field(init=False)
    tasks: TaskBooks = field(init=False)
    usage: UsageBook = field(default_factory=UsageBook)
    _hints: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.feed = Feed(self.plane, self.options)
        self.topics = Topics(self.feed)
        self.tasks = TaskBooks(self.pages)

    async def row(self, pod_id: str, tenant: str) -> PodRow:
        """Raises `HttpProblem` not-found, also for a Pod of another tenant."""
        if not is_pod_id(pod_id):
            raise pod_not_found(pod_id)
        found = await self.feed.ask(Query(ids=(pod_id,), tenant=tenant))
        if not found.rows:
            raise pod_not_found(pod_id)
        return found.rows[0]

    async def show(self, row: PodRow) -> JsonObject:
        """A Pod with the ids of its children."""
        if not row.children:
            return pod_view(row, ())
        found = await self.feed.ask(Query(parent=row.id, tenant=row.tenant, limit=CHILDREN_SHOWN))
        return pod_view(row, [child.id for child in found.rows])

    async def entries(self, pod_id: str, after: int) -> list[LogEntry]:
        """All entries after `after`."""
        return [entry async for page in self.pages(pod_id, after) for entry in page]

    async def pages(self, pod_id: str, after: int) -> AsyncIterator[Sequence[LogEntry]]:
        """All entries after `after`, some at a time."""
        while True:
            found = await self.feed.ask(Read(pod_id, after, PAGE))
            page = decoded(pod_id, found.entries)
            yield page
            if len(page) < PAGE:
                return
            after = page[-1].seq

    async def until(self, session: str, check: Callable[[], Awaitable[FoundT | None]], seconds: float) -> FoundT | None:
        """What `check` finds, asked again whenever the session changed; None after `seconds`."""
        changed = asyncio.Event()
        limit = time.monotonic() + seconds
        async with self.feed.listen(session, lambda _: changed.set()):
            while True:
                changed.clear()
                found = await check()
                left = limit - time.monotonic()
                if found is not None or left <= 0 or self.feed.closed.is_set():
                    return found
                try:
                    async with asyncio.timeout(left):
                        await changed.wait()
                except TimeoutError:
                    return await check()

    def hint(self, pod_id: str) -> None:
        """Pass it on without waiting: the message is durable, and the sweep finds what a lost hint leaves."""
        task = asyncio.create_task(self._hint(pod_id), name="gateway-hint")
        self._hints.add(task)
        task.add_done_callback(self._hints.discard)

    async def _hint(self, pod_id: str) -> None:
        try:
            async with asyncio.timeout(self.options.store_wait):
                await self.plane.hint((pod_id,))
        except Exception as error:
            # Whatever it is, the caller's message is safe: a hint may be lost.
            log.info("a hint for Pod %s was lost: %s", pod_id, str(error) or type(error).__name__)

    async def close(self) -> None:
        await self.feed.close()
        for task in tuple(self._hints):
            task.cancel()
        await asyncio.gather(*self._hints, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, by whom."""

    gateway: Gateway
    request: Request
    caller: Caller

    async def row(self) -> PodRow:
        """The Pod that the path names. Raises `HttpProblem` not-found."""
        return await self.gateway.row(self.request.path_params["pod_id"], self.caller.tenant)

    async def body(self, model: type[BodyT]) -> BodyT:
        """The checked body; none counts as `{}`. Such a request has no query. Raises `HttpProblem`."""
        self.query(NoQuery)
        raw = await self._raw()
        if not raw.strip():
            plain: Any = {}
        else:
            kind = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json" and not kind.endswith("+json"):
                raise invalid("Send the body as `Content-Type: application/json`.", 415)
            plain = parse_json(raw)
        if not isinstance(plain, dict):
            raise invalid("The body must be a JSON object.", 422)
        try:
            return model.model_validate(plain)
        except ValidationError as error:
            raise from_validation(error, "body") from None

    def query(self, model: type[BodyT]) -> BodyT:
        """The checked query. Raises `HttpProblem`."""
        try:
            return model.model_validate(dict(self.request.query_params))
        except ValidationError as error:
            raise from_validation(error, "query") from None

    async def _raw(self) -> bytes:
        limit = self.gateway.options.body_limit
        length = self.request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            raise _too_large(limit)
        raw = bytearray()
        async for chunk in self.request.stream():
            raw += chunk
            if len(raw) > limit:
                raise _too_large(limit)
        return bytes(raw)


Handler = Callable[[Call], Awaitable[Response]]


class Endpoint:
    """A handler as an ASGI app: finds the caller, and answers every error as a problem."""

    def __init__(self, gateway: Gateway, handler: Handler, open_to_all: bool = False) -> None:
        self._gateway = gateway
        self._handler = handler
        self._open = open_to_all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        request = Request(scope, receive)
        try:
            response = await self._handler(Call(self._gateway, request, self._caller(request)))
            await response(scope, receive, sending)
        except ClientDisconnect:
            return  # nobody is there to be told
        except Exception as error:
            problem = from_error(error)
            if problem is None:
                log.exception("%s %s failed", request.method, request.url.path)
                problem = HttpProblem(None, "polypod made a mistake; its log tells more.", 500)
            if started:
                raise  # a stream that breaks: the connection's end is all that can be told
            await problem_response(problem)(scope, receive, send)

    def _caller(self, request: Request) -> Caller:
        try:
            return caller_of(request.headers, self._gateway.options)
        except HttpProblem:
            if self._open:
                return Caller(tenant="")
            raise


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(json_bytes(value), status, headers, "application/json")


def parse_json(raw: bytes) -> Any:
    """Raises `HttpProblem`; what JSON does not know (NaN, Infinity) is refused too."""
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
        if b"\\u" in raw:
            json_text(value).encode()
        return value
    except UnicodeEncodeError:
        raise invalid("The body holds half a character (a lone surrogate).", 400) from None
    except UnicodeDecodeError as error:
        raise invalid(f"The body is not UTF-8 (byte {error.start}).", 400) from None
    except RecursionError:
        raise invalid("The body is nested too deeply.", 400) from None
    except ValueError as error:
        raise invalid(f"The body is no JSON: {error}.", 400) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _too_large(limit: int) -> HttpProblem:
    return HttpProblem("limit", f"The body is larger than {limit} bytes.", 413)
