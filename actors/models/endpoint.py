"""A model behind an address: one request over a wire and a transport, with retries and shared limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count

from actors.models.first_text import FirstText
from actors.models.limits import TTL, Ask
from actors.models.limits_client import Limits
from actors.models.retry import Failure, GiveUp, RetryPolicy, Wait, decide, final, retry_after
from actors.models.secrets import Redactor
from actors.models.timing import Timing
from actors.models.transport import Post, Response, Transport, TransportError
from actors.models.wire.blocks import LiveText
from actors.models.wire.refusals import error_response
from actors.models.wire.shape import Decoder, Wire, broken_stream, estimated_usage, prompt_tokens
from actors.models.wire.sse import SseDecoder, SseEvent, StreamTooLarge
from actors.protocol.live import LiveSink
from actors.protocol.model import ModelError, ModelReply, ModelRequest
from session_store.items import HistoryItem

MAX_ERROR_BODY = 64 << 10
MAX_WHOLE_REPLY = 32 << 20


@dataclass(frozen=True, slots=True)
class Endpoint:
    """All that is fixed about a model behind an address. `post` is a request without its body.

    `limits` is an ask without its particulars, or None when the model has no limits.
    """

    name: str
    wire: Wire
    post: Post
    context_window: int | None = None
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    limits: Ask | None = None
    redactor: Redactor = field(default_factory=Redactor)


@dataclass(frozen=True, slots=True)
class _Failed:
    error: ModelError
    retry_after: float | None = None


class EndpointModel:
    """Safe for many requests at once; holds no history."""

    def __init__(
        self, endpoint: Endpoint, transport: Transport, limits: Limits | None = None, timing: Timing | None = None
    ) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._limits = limits if endpoint.limits is not None else None
        self._timing = timing or Timing()
        self._asks = count()
        self._releases: set[asyncio.Future[None]] = set()

    @property
    def name(self) -> str:
        return self._endpoint.name

    @property
    def context_window(self) -> int | None:
        return self._endpoint.context_window

    def encode(self, item: HistoryItem) -> bytes:
        return self._endpoint.wire.encode(item)

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        post = replace(self._endpoint.post, body=self._endpoint.wire.assemble(request))
        started, attempt = self._timing.monotonic(), 1
        while True:
            async with self._let_through(request, attempt) as settle:
                outcome = await self._attempt(post, request, attempt, live)
                settle(outcome)
            if isinstance(outcome, ModelReply):
                return outcome
            error = self._endpoint.redactor.clean_error(outcome.error)
            failure = Failure(error, attempt, self._timing.monotonic() - started, outcome.retry_after)
            match decide(self._endpoint.policy, failure, self._timing.chance()):
                case GiveUp(reason):
                    if not error.kept:
                        live.discard(request.request_id)
                    raise final(error, failure, reason)
                case Wait(seconds):
                    live.discard(request.request_id)
                    live.retry(request.request_id, attempt + 1, seconds, str(error))
                    await self._timing.sleep(seconds)
            attempt += 1

    async def close(self) -> None:
        if self._releases:
            await asyncio.wait(self._releases, timeout=1)
        await self._transport.close()

    async def _attempt(self, post: Post, request: ModelRequest, attempt: int, live: LiveSink) -> ModelReply | _Failed:
        sent, shown = self._timing.monotonic(), FirstText(live, self._timing)
        decoder = self._endpoint.wire.decoder(f"{request.request_id}.{attempt}")

        def show(texts: list[LiveText]) -> None:
            for piece in texts:
                shown.text(request.request_id, piece.block, piece.text)

        try:
            async with self._transport.post(post) as response:
                if response.status != 200:
                    return await self._refused(response)
                await _read(response, decoder, show)
            decoded, rest = decoder.end()
        except TransportError as error:
            return _Failed(decoder.fail(error.as_model_error()))
        except StreamTooLarge as error:
            return _Failed(decoder.fail(broken_stream(str(error))))
        except ModelError as error:
            return _Failed(decoder.fail(error))
        show(rest)
        usage = decoded.usage or estimated_usage(request, decoded.items)
        model = decoded.model or self._endpoint.name
        return ModelReply(decoded.items, usage, decoded.stop, self._timing.since(sent), model, attempt, shown.ms)

    async def _refused(self, response: Response) -> _Failed:
        wait = retry_after(response.headers, self._timing.now_ms())
        if 300 <= response.status < 400:
            target = response.headers.get("location", "elsewhere")
            return _Failed(ModelError("bad_request", f"the server redirects to {target}: set `base_url` to it"))
        try:
            body = await _whole(response, MAX_ERROR_BODY)
        except TransportError:
            body = b""  # the status says enough
        error = error_response(response.status, body)
        if (
            self._limits is not None
            and self._endpoint.limits is not None
            and error.type in ("rate_limited", "overloaded")
        ):
            await self._limits.penalise(
                self._endpoint.limits.key, wait if wait is not None else self._endpoint.policy.base
            )
        return _Failed(error, wait)

    @asynccontextmanager
    async def _let_through(
        self, request: ModelRequest, attempt: int
    ) -> AsyncIterator[Callable[[ModelReply | _Failed], None]]:
        """Hold a grant of the shared limits, renewed while it is held; `settle` says what the attempt used."""
        if self._limits is None or self._endpoint.limits is None:
            yield lambda outcome: None
            return
        limits = self._limits
        ask = replace(
            self._endpoint.limits,
            ask_id=f"{request.session}.{request.epoch}.{request.request_id}.{attempt}.{next(self._asks)}",
            session=request.session,
            epoch=request.epoch,
            tokens=prompt_tokens(request),
        )
        used: int | None = None

        def settle(outcome: ModelReply | _Failed) -> None:
            nonlocal used
            used = outcome.usage.input + outcome.usage.output if isinstance(outcome, ModelReply) else None

        await limits.acquire(ask)
        renewing = asyncio.create_task(_renew(limits, ask))
        try:
            yield settle
        finally:
            renewing.cancel()
            # Beside this task: neither a reply nor a cancel waits for it.
            release = asyncio.ensure_future(limits.release(ask, used))
            self._releases.add(release)
            release.add_done_callback(self._releases.discard)


async def _renew(limits: Limits, ask: Ask) -> None:
    """Until cancelled, or the session's epoch is over (its owner learns that from the store)."""
    while True:
        await asyncio.sleep(TTL / 3)
        if not await limits.renew(ask):
            return


async def _read(response: Response, decoder: Decoder, show: Callable[[list[LiveText]], None]) -> None:
    """Feed the reply to the decoder until its end marker or its end. What breaks once the reply is whole is ignored."""
    if "json" in response.headers.get("content-type", ""):
        whole = (await _whole(response, MAX_WHOLE_REPLY)).decode("utf-8", "replace")
        show(decoder.feed(SseEvent("message", whole)))
        return
    events = SseDecoder()
    try:
        while chunk := await response.read():
            for event in events.feed(chunk):
                show(decoder.feed(event))
            if decoder.done:
                return
        for event in events.end():
            show(decoder.feed(event))
    except (TransportError, StreamTooLarge):
        if not decoder.complete:
            raise


async def _whole(response: Response, limit: int) -> bytes:
    """The body, at most about `limit` bytes of it."""
    body = bytearray()
    while chunk := await response.read():
        body += chunk
        if len(body) >= limit:
            break
    return bytes(body)
