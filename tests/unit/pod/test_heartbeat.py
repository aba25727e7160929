"""Law 3: work starts, and tool guards are fed, only while the last answered beat is younger than the lease."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from actors.pod.heartbeat import Heartbeat, Rhythm
from tests.support.clock import HandClock

LEASE = 4.0


class Directory:
    """Answers a beat after `takes` seconds of the clock; not at all while it is `away`."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.away = False
        self.takes = 0.0
        self.fed = 0
        self.beaten = threading.Event()
        self.heartbeat = Heartbeat(Rhythm(0.002, LEASE), clock, self._beat, self._feed)

    def turn(self) -> None:
        """Wait until two more beats are over, so that one has seen all that was set before."""
        for _ in range(2):
            self.beaten.clear()
            assert self.beaten.wait(5)

    def _beat(self) -> None:
        self.clock.now += self.takes
        self.beaten.set()
        if self.away:
            raise TimeoutError("no answer")

    def _feed(self) -> None:
        self.fed += 1


@pytest.fixture
def directory() -> Iterator[Directory]:
    made = Directory(HandClock())
    made.heartbeat.start()
    yield made
    made.heartbeat.stop()


async def test_work_is_held_back_while_the_lease_is_old_and_goes_on_with_the_next_reply(directory: Directory) -> None:
    directory.turn()
    await asyncio.wait_for(directory.heartbeat.fresh(), 1)
    directory.away = True
    directory.turn()
    directory.clock.now += LEASE
    held = asyncio.create_task(directory.heartbeat.fresh())
    await asyncio.wait([held], timeout=0.1)
    assert not held.done()
    assert "no answer" in directory.heartbeat.last_error
    directory.away = False
    await asyncio.wait_for(held, 2)
    directory.turn()
    assert directory.heartbeat.last_error == ""


async def test_a_directory_away_for_less_than_the_lease_is_not_noticed(directory: Directory) -> None:
    directory.turn()
    directory.away = True
    directory.turn()
    directory.clock.now += LEASE - 0.1
    await asyncio.wait_for(directory.heartbeat.fresh(), 1)
    fed = directory.fed
    directory.turn()
    assert directory.fed > fed


def test_guards_are_not_fed_while_the_lease_is_old(directory: Directory) -> None:
    directory.away = True
    directory.turn()
    directory.clock.now += LEASE
    directory.turn()
    fed = directory.fed
    directory.turn()
    assert directory.fed == fed


async def test_a_reply_is_as_old_as_its_beat(directory: Directory) -> None:
    """What the Directory said while it was still ours may come when it is long over."""
    directory.takes = LEASE + 1
    directory.turn()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(directory.heartbeat.fresh(), 0.05)
