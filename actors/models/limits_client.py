"""The limits port, and its two ways: in this process, or through calls to wherever the state lives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Protocol

from actors.models.limits import Answer, Ask, Granted, LimitsCore, Stale, Waiting
from actors.models.timing import Timing
from actors.protocol.model import ModelError
from session_store.items import Json

MAX_POLL = 4.0
"""A waiting ask is repeated after at most so many seconds: a dead asker leaves the queue, a restarted actor learns."""
_PATIENCE = 60.0
_CALL_TIMEOUT = MAX_POLL + 5.0


class Limits(Protocol):
    """Lets attempts through. A model without limits needs none of it."""

    async def acquire(self, ask: Ask) -> None:
        """Wait until granted. Cancelling gives the place back. Raises `ModelError` (`connection`) if the limits give no
        answer for a minute, and if the session's epoch is over."""

    async def renew(self, ask: Ask) -> bool:
        """Keep the grant; False if the session's epoch is over."""

    async def release(self, ask: Ask, used: int | None = None) -> None:
        """Give the grant back; `used` tokens replace the estimate."""

    async def penalise(self, key: str, seconds: float) -> None:
        """Let no attempt of the key through for `seconds`."""


class LimitsUnavailable(Exception):
    """The call got no answer: the holder of the state is away or being restarted."""


class LocalLimits:
    """The state in this process; also what the limits actor holds."""

    def __init__(self, timing: Timing | None = None) -> None:
        self._core = LimitsCore()
        self._timing = timing or Timing()
        self._changed = asyncio.Event()

    async def acquire(self, ask: Ask) -> None:
        try:
            while True:
                match await self.poll(ask, MAX_POLL):
                    case Granted():
                        return
                    case Stale():
                        raise epoch_over(ask)
                    case Waiting():
                        pass
        except asyncio.CancelledError:
            await self.release(ask)
            raise

    async def poll(self, ask: Ask, wait: float) -> Answer:
        """Ask, and wait up to `wait` seconds for something better than `Waiting`."""
        end = self._timing.monotonic() + wait
        while True:
            now = self._timing.monotonic()
            answer = self._core.ask(now, ask)
            if not isinstance(answer, Waiting):
                self._tell()  # who was behind may be first now
                return answer
            if now >= end:
                return answer
            await self._change(min(answer.seconds, end - now))

    async def renew(self, ask: Ask) -> bool:
        return self._core.renew(self._timing.monotonic(), ask)

    async def release(self, ask: Ask, used: int | None = None) -> None:
        self._core.release(self._timing.monotonic(), ask, used)
        self._tell()

    async def penalise(self, key: str, seconds: float) -> None:
        self._core.penalise(self._timing.monotonic(), key, seconds)

    def under_way(self, key: str) -> int:
        return self._core.under_way(self._timing.monotonic(), key)

    def figures(self) -> dict[str, tuple[int, int]]:
        return self._core.figures(self._timing.monotonic())

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _change(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.001, seconds)):
                await self._changed.wait()
        except TimeoutError:
            pass


Call = Callable[[str, dict[str, Json]], Awaitable[Json]]
"""Carries one method call to the state and its plain answer back. Raises `LimitsUnavailable`."""


class RemoteLimits:
    """The state elsewhere. Every call may be repeated: asks are known by their id."""

    def __init__(self, call: Call, timing: Timing | None = None, patience: float = _PATIENCE) -> None:
        self._call = call
        self._timing = timing or Timing()
        self._patience = patience
        self._last_calls: set[asyncio.Future[None]] = set()

    async def acquire(self, ask: Ask) -> None:
        plain = asdict(ask)
        try:
            while True:
                answer = await self._reach("poll", {"ask": plain, "wait": MAX_POLL})
                if answer == "granted":
                    return
                if answer == "stale":
                    raise epoch_over(ask)
        except asyncio.CancelledError:
            # Beside the cancelled task, which must not wait for it.
            task = asyncio.ensure_future(self._try("release", {"ask": plain, "used": None}))
            self._last_calls.add(task)
            task.add_done_callback(self._last_calls.discard)
            raise

    async def renew(self, ask: Ask) -> bool:
        return bool(await self._reach("renew", {"ask": asdict(ask)}))

    async def release(self, ask: Ask, used: int | None = None) -> None:
        await self._try("release", {"ask": asdict(ask), "used": used})

    async def penalise(self, key: str, seconds: float) -> None:
        await self._try("penalise", {"key": key, "seconds": seconds})

    async def figures(self) -> dict[str, tuple[int, int]]:
        """By key: requests under way, and asks that wait. Raises `LimitsUnavailable`."""
        told = await self._answer("figures", {})
        return {str(key): (int(under_way), int(waiting)) for key, (under_way, waiting) in told.items()}

    async def _reach(self, method: str, arguments: dict[str, Json]) -> Json:
        """Call until there is an answer, at most `patience` seconds."""
        started, wait = self._timing.monotonic(), 0.05
        while True:
            try:
                return await self._answer(method, arguments)
            except LimitsUnavailable as error:
                if self._timing.monotonic() - started > self._patience:
                    raise ModelError(
                        "connection", f"the shared limits gave no answer for {self._patience:g} s: {error}"
                    ) from None
            await self._timing.sleep(wait)
            wait = min(2.0, wait * 2)

    async def _try(self, method: str, arguments: dict[str, Json]) -> None:
        """Call once: what is lost here the state finds out by itself (a grant expires, the next refusal penalises)."""
        try:
            await self._answer(method, arguments)
        except LimitsUnavailable:
            return

    async def _answer(self, method: str, arguments: dict[str, Json]) -> Json:
        try:
            async with asyncio.timeout(_CALL_TIMEOUT):
                return await self._call(method, arguments)
        except TimeoutError:
            raise LimitsUnavailable(f"no answer within {_CALL_TIMEOUT:g} s") from None


async def serve(limits: LocalLimits, method: str, arguments: dict[str, Json]) -> Json:
    """Answer one call of a `RemoteLimits`."""
    match method:
        case "poll":
            answer = await limits.poll(Ask(**arguments["ask"]), arguments["wait"])
            return {Granted: "granted", Stale: "stale", Waiting: "waiting"}[type(answer)]
        case "renew":
            return await limits.renew(Ask(**arguments["ask"]))
        case "release":
            return await limits.release(Ask(**arguments["ask"]), arguments["used"])
        case "penalise":
            return await limits.penalise(arguments["key"], arguments["seconds"])
        case "figures":
            return limits.figures()
        case _:
            raise ValueError(f"unknown method {method!r}")


def epoch_over(ask: Ask) -> ModelError:
    words = f"the ask is over: session {ask.session} goes on under a newer epoch than {ask.epoch}"
    return ModelError("connection", words)
