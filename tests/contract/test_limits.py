"""One contract for every way to the shared limits: in this process, and through calls that may get lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from actors.models.limits import TTL, Ask, key_of, model_of
from actors.models.limits_client import Limits, LimitsUnavailable, LocalLimits, RemoteLimits, serve
from actors.models.timing import Timing
from actors.protocol.model import ModelError
from session_store.items import Json


@dataclass
class Clock:
    now: float = 1000.0

    def timing(self) -> Timing:
        return Timing(monotonic=lambda: self.now)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass for the limits, and let whoever waits look at it."""
        self.now += seconds
        await asyncio.sleep(0.02)


@dataclass
class Setup:
    limits: Limits
    clock: Clock
    local: Callable[[], LocalLimits]


def in_process(clock: Clock) -> Setup:
    local = LocalLimits(clock.timing())
    return Setup(local, clock, lambda: local)


def by_calls(clock: Clock) -> Setup:
    local = LocalLimits(clock.timing())

    async def call(method: str, arguments: dict[str, Json]) -> Json:
        await asyncio.sleep(0)
        return json.loads(json.dumps(await serve(local, method, json.loads(json.dumps(arguments)))))

    return Setup(RemoteLimits(call), clock, lambda: local)


def by_lossy_calls(clock: Clock) -> Setup:
    """Every second answer gets lost after the work is done."""
    local, count = LocalLimits(clock.timing()), 0

    async def call(method: str, arguments: dict[str, Json]) -> Json:
        nonlocal count
        count += 1
        answer = await serve(local, method, arguments)
        if count % 2:
            raise LimitsUnavailable("lost")
        return answer

    return Setup(RemoteLimits(call, Timing(sleep=lambda _: asyncio.sleep(0.001))), clock, lambda: local)


@pytest.fixture(params=[in_process, by_calls, by_lossy_calls])
def setup(request: pytest.FixtureRequest) -> Setup:
    made: Setup = request.param(Clock())
    return made


def ask(name: str, **more: Json) -> Ask:
    plain = Ask(name, "key", f"session-{name}", 1, 0)
    return replace(plain, **more)


async def soon(work: Awaitable[None]) -> bool:
    """Whether it is done at once."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0.03)
    if task.done():
        task.result()
        return True
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0.01)
    return False


async def test_concurrency_is_limited_and_a_release_lets_the_next_in(setup: Setup) -> None:
    one, two, three = (ask(n, max_concurrency=2) for n in "123")
    await setup.limits.acquire(one)
    await setup.limits.acquire(two)
    waiting = asyncio.ensure_future(setup.limits.acquire(three))
    await asyncio.sleep(0.03)
    assert not waiting.done()
    await setup.limits.release(one)
    await asyncio.wait_for(waiting, 1)
    assert setup.local().under_way("key") == 2


async def test_requests_of_any_minute_are_limited(setup: Setup) -> None:
    limited = {"requests_per_minute": 2}
    for name in "12":
        await setup.limits.acquire(ask(name, **limited))
        await setup.limits.release(ask(name, **limited))
        await setup.clock.pass_time(10)
    assert not await soon(setup.limits.acquire(ask("3", **limited)))
    await setup.clock.pass_time(41)  # 61 s after the first
    assert await soon(setup.limits.acquire(ask("4", **limited)))
    assert not await soon(setup.limits.acquire(ask("5", **limited)))


async def test_tokens_of_any_minute_are_limited_and_settled(setup: Setup) -> None:
    limited = {"tokens_per_minute": 1000}
    await setup.limits.acquire(ask("1", tokens=900, **limited))
    assert not await soon(setup.limits.acquire(ask("2", tokens=200, **limited)))
    await setup.limits.release(ask("1", tokens=900, **limited), used=100)
    assert await soon(setup.limits.acquire(ask("3", tokens=200, **limited)))


async def test_an_ask_beyond_the_limit_goes_when_nothing_else_is_spent(setup: Setup) -> None:
    limited = {"tokens_per_minute": 100}
    assert await soon(setup.limits.acquire(ask("1", tokens=5000, **limited)))
    assert not await soon(setup.limits.acquire(ask("2", tokens=1, **limited)))


async def test_asks_are_granted_in_order_of_arrival(setup: Setup) -> None:
    await setup.limits.acquire(ask("0", max_concurrency=1))
    order: list[str] = []

    async def one(name: str) -> None:
        await setup.limits.acquire(ask(name, max_concurrency=1))
        order.append(name)
        await setup.limits.release(ask(name, max_concurrency=1))

    tasks = []
    for name in "abcdef":
        tasks.append(asyncio.ensure_future(one(name)))
        await asyncio.sleep(0.005)
    await setup.limits.release(ask("0", max_concurrency=1))
    await asyncio.wait_for(asyncio.gather(*tasks), 5)
    assert order == list("abcdef")


async def test_T05_a_cancelled_wait_gives_its_place_back(setup: Setup) -> None:
    await setup.limits.acquire(ask("0", max_concurrency=1))
    first = asyncio.ensure_future(setup.limits.acquire(ask("1", max_concurrency=1)))
    await asyncio.sleep(0.02)
    second = asyncio.ensure_future(setup.limits.acquire(ask("2", max_concurrency=1)))
    await asyncio.sleep(0.02)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(first, 1)
    await setup.limits.release(ask("0", max_concurrency=1))
    await asyncio.wait_for(second, 1)


async def test_a_grant_that_is_not_renewed_expires(setup: Setup) -> None:
    kept, lost = ask("kept", max_concurrency=2), ask("lost", max_concurrency=2)
    await setup.limits.acquire(kept)
    await setup.limits.acquire(lost)
    await setup.clock.pass_time(TTL - 1)
    assert await setup.limits.renew(kept)
    await setup.clock.pass_time(2)
    assert setup.local().under_way("key") == 1
    assert await soon(setup.limits.acquire(ask("next", max_concurrency=2)))


async def test_a_newer_epoch_ends_what_an_older_one_holds(setup: Setup) -> None:
    old = ask("a", session="s", epoch=3, max_concurrency=1)
    await setup.limits.acquire(old)
    assert await soon(setup.limits.acquire(ask("b", session="s", epoch=4, max_concurrency=1)))
    assert not await setup.limits.renew(old)
    with pytest.raises(ModelError, match="newer epoch"):
        await setup.limits.acquire(ask("c", session="s", epoch=3, max_concurrency=1))


async def test_M08_one_refusal_slows_all_of_the_key(setup: Setup) -> None:
    await setup.limits.penalise("key", 30)
    await setup.limits.penalise("key", 30)  # the lossy way may lose one
    assert not await soon(setup.limits.acquire(ask("1", requests_per_minute=100)))
    assert await soon(setup.limits.acquire(ask("2", key="other", requests_per_minute=100)))
    await setup.clock.pass_time(31)
    assert await soon(setup.limits.acquire(ask("3", requests_per_minute=100)))


async def test_an_ask_that_arrives_after_its_release_takes_no_place(setup: Setup) -> None:
    late = ask("late", max_concurrency=1)
    await setup.limits.release(late)
    with pytest.raises(ModelError):
        await setup.limits.acquire(late)
    assert await soon(setup.limits.acquire(ask("next", max_concurrency=1)))


async def test_asking_twice_is_one_ask(setup: Setup) -> None:
    one = ask("1", max_concurrency=1, requests_per_minute=2)
    await setup.limits.acquire(one)
    await setup.limits.acquire(one)
    assert setup.local().under_way("key") == 1
    await setup.limits.release(one)
    assert await soon(setup.limits.acquire(ask("2", max_concurrency=1, requests_per_minute=2)))


async def test_a_restarted_holder_learns_of_grants_by_their_renewal() -> None:
    clock, held = Clock(), ask("held", max_concurrency=1)
    state = [LocalLimits(clock.timing())]

    async def call(method: str, arguments: dict[str, Json]) -> Json:
        return await serve(state[0], method, arguments)

    limits = RemoteLimits(call)
    await limits.acquire(held)
    state[0] = LocalLimits(clock.timing())
    assert await limits.renew(held)
    assert not await soon(limits.acquire(ask("next", max_concurrency=1)))


async def test_limits_that_give_no_answer_are_an_error_after_a_while() -> None:
    async def call(method: str, arguments: dict[str, Json]) -> Json:
        raise LimitsUnavailable("gone")

    with pytest.raises(ModelError, match="gave no answer") as caught:
        await asyncio.wait_for(RemoteLimits(call, patience=0.1).acquire(ask("1")), 5)
    assert caught.value.type == "connection"


async def test_figures_are_told_by_key(setup: Setup) -> None:
    one, two = (replace(ask(n, max_concurrency=1), key=key_of("openai", "https://x", "gpt 5", "KEY")) for n in "12")
    await setup.limits.acquire(one)
    waiting = asyncio.ensure_future(setup.limits.acquire(two))
    await asyncio.sleep(0.03)
    figures = await serve(setup.local(), "figures", {})
    assert {model_of(key): tuple(numbers) for key, numbers in figures.items()} == {"gpt 5": (1, 1)}
    await setup.limits.release(one)
    await asyncio.wait_for(waiting, 1)
    if isinstance(setup.limits, RemoteLimits):
        try:
            told = await setup.limits.figures()
        except LimitsUnavailable:  # the answer was lost; who asks has another look
            told = await setup.limits.figures()
        assert list(told.values()) == [(1, 0)]
