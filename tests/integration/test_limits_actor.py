"""The limits behind their Ray actor: shared between processes, there again after the actor's process was killed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from actors.models.limits import Ask
from actors.models.limits_client import RemoteLimits
from actors.models.registry import build_model
from actors.protocol.config import ModelSpec
from tests.support.model_requests import Live, request
from tests.support.model_server import Answer, serve, text_events

pytestmark = pytest.mark.usefixtures("ray_cluster")
NAME = "limits-test"


@pytest.fixture
async def limits() -> AsyncIterator[RemoteLimits]:
    import ray

    from actors.models.limits_actor import start_limits

    yield start_limits(NAME, detached=False)
    ray.kill(ray.get_actor(NAME))
    while True:
        try:
            ray.get_actor(NAME)
        except ValueError:
            return
        await asyncio.sleep(0.05)


ONE = Ask("1", "k", "s1", 1, 0, max_concurrency=1)
TWO = replace(ONE, ask_id="2", session="s2")


async def is_waiting(task: asyncio.Future[None], seconds: float = 0.5) -> bool:
    await asyncio.wait([task], timeout=seconds)
    return not task.done()


async def test_two_clients_share_one_limit(limits: RemoteLimits) -> None:
    from actors.models.limits_actor import named_limits

    other = named_limits(NAME)
    await limits.acquire(ONE)
    second = asyncio.ensure_future(other.acquire(TWO))
    assert await is_waiting(second)
    await limits.release(ONE)
    await asyncio.wait_for(second, 5)
    await other.release(TWO)


async def test_T05_a_cancelled_wait_gives_its_place_back_across_processes(limits: RemoteLimits) -> None:
    await limits.acquire(ONE)
    second = asyncio.ensure_future(limits.acquire(TWO))
    assert await is_waiting(second)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(second, 1)
    third = asyncio.ensure_future(limits.acquire(replace(ONE, ask_id="3", session="s3")))
    assert await is_waiting(third)
    await limits.release(ONE)
    await asyncio.wait_for(third, 5)


async def test_a_killed_actor_comes_back_and_learns_who_holds_what(limits: RemoteLimits) -> None:
    import ray

    await limits.acquire(ONE)
    second = asyncio.ensure_future(limits.acquire(TWO))
    assert await is_waiting(second)
    pid = await ray.get_actor(NAME).pid.remote()
    os.kill(pid, signal.SIGKILL)
    assert await asyncio.wait_for(limits.renew(ONE), 30)
    await limits.release(ONE)
    await asyncio.wait_for(second, 30)


async def test_requests_of_many_pods_keep_the_limit(limits: RemoteLimits) -> None:
    most = 0

    async with serve([Answer(events=text_events(), before=0.05)]) as server:

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, server.open)
                await asyncio.sleep(0.005)

        watching = asyncio.create_task(watch())
        spec = ModelSpec("m", "openai", "served", base_url=server.url, max_concurrency=2)
        model = build_model(spec, {}, limits)
        replies = await asyncio.wait_for(
            asyncio.gather(
                *(model.reply(replace(request(model, number=n), session=f"s{n}"), Live()) for n in range(8))
            ),
            30,
        )
        await model.close()
        watching.cancel()
    assert len(replies) == 8
    assert most == 2
