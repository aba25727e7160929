"""A model that spoils another's replies: seeded faults, the same for the same seed, Pod and request number."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

from pydantic import BaseModel, ConfigDict, Field

from actors.models.retry import Failure, GiveUp, RetryPolicy, Wait, decide, final
from actors.models.timing import Timing
from actors.protocol.live import LiveSink, Unwatched
from actors.protocol.model import Model, ModelError, ModelReply, ModelRequest
from session_store.items import HistoryItem, Text, ToolCall


class Faults(BaseModel):
    """How often what goes wrong, each from 0 to 1.

    `error`: an attempt fails before its first byte and is retried. `broken`: the reply breaks off in mid-text. `empty`:
    an empty reply. `duplicate_ids`: all calls of the reply bear one id. `slow`: the reply comes `slow_ms` later.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    seed: int = 0
    error: float = Field(default=0.0, ge=0, le=1)
    broken: float = Field(default=0.0, ge=0, le=1)
    empty: float = Field(default=0.0, ge=0, le=1)
    duplicate_ids: float = Field(default=0.0, ge=0, le=1)
    slow: float = Field(default=0.0, ge=0, le=1)
    slow_ms: int = Field(default=1000, ge=0)


class ChaosModel:
    def __init__(
        self, inner: Model, faults: Faults, timing: Timing | None = None, policy: RetryPolicy | None = None
    ) -> None:
        self._inner = inner
        self._faults = faults
        self._timing = timing or Timing()
        self._policy = policy or RetryPolicy(base=0.05, cap=1.0)

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def context_window(self) -> int | None:
        return self._inner.context_window

    def encode(self, item: HistoryItem) -> bytes:
        return self._inner.encode(item)

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        failed = await self._fail(request, live)
        if self._strikes(self._faults.slow, request, "slow"):
            await self._timing.sleep(self._faults.slow_ms / 1000)
        if self._strikes(self._faults.empty, request, "empty"):
            raise ModelError("empty_reply", "chaos: the reply has neither text nor a tool call")
        if self._strikes(self._faults.broken, request, "broken"):
            raise await self._break(request, live)
        reply = await self._inner.reply(request, live)
        if self._strikes(self._faults.duplicate_ids, request, "duplicate_ids"):
            items = (replace(i, call_id="call_chaos") if isinstance(i, ToolCall) else i for i in reply.items)
            reply = replace(reply, items=tuple(items))
        return replace(reply, attempts=reply.attempts + failed)

    async def close(self) -> None:
        await self._inner.close()

    async def _fail(self, request: ModelRequest, live: LiveSink) -> int:
        """Attempts that fail before the first byte; gives how many, or raises when the policy gives up."""
        started, attempt = self._timing.monotonic(), 1
        while self._strikes(self._faults.error, request, f"error {attempt}"):
            error = ModelError("overloaded", "chaos: the server answers 503", status=503)
            failure = Failure(error, attempt, self._timing.monotonic() - started)
            match decide(self._policy, failure, self._draw(request, f"wait {attempt}")):
                case GiveUp(reason):
                    raise final(error, failure, reason)
                case Wait(seconds):
                    live.discard(request.request_id)
                    live.retry(request.request_id, attempt + 1, seconds, str(error))
                    await self._timing.sleep(seconds)
            attempt += 1
        return attempt - 1

    async def _break(self, request: ModelRequest, live: LiveSink) -> ModelError:
        """Show half of the reply's first text, and then its end as a broken stream."""
        reply = await self._inner.reply(request, Unwatched())
        text = next((i.text for i in reply.items if isinstance(i, Text)), "")
        half = text[: len(text) // 2]
        if half:
            live.text(request.request_id, f"{request.request_id}.{reply.attempts}.0", half)
        live.discard(request.request_id)
        return ModelError("broken_stream", "chaos: the reply broke off", broken=True)

    def _strikes(self, rate: float, request: ModelRequest, what: str) -> bool:
        return rate > 0 and self._draw(request, what) < rate

    def _draw(self, request: ModelRequest, what: str) -> float:
        key = f"{self._faults.seed}:{request.pod_name}:{request.number}:{what}"
        return int.from_bytes(blake2b(key.encode("utf-8", "replace"), digest_size=8).digest(), "big") / 2.0**64
