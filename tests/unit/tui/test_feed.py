"""The thread that reads a stream: each event once over broken connections, bounded, and told when there is none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from orchestrator.cli.failure import OwnerLost
from orchestrator.cli.seam import Gateway
from orchestrator.events import EntryEvent, Wire
from orchestrator.tui.feed import NO_OWNER, WAITING, Away, Connected, Feed

LIMIT = 20.0


class Stream(Gateway):
    """A gateway whose connections end after some events each."""

    def __init__(self, length: int, each: int) -> None:
        super().__init__("http://nowhere")
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "each", each)
        object.__setattr__(self, "asked", [])

    length: int
    each: int
    asked: list[int]
    last: Wire | None = None

    def stream(self, path: str, query: Any = None, closed: Any = None) -> Iterator[Wire]:
        after = int(query["after"])
        self.asked.append(after)
        for seq in range(after + 1, min(after + self.each, self.length) + 1):
            yield Wire("entry", str(seq), {"seq": seq, "ts": "", "type": "segment_end"})
        if self.last is not None:
            yield self.last
        raise OwnerLost("it broke")


def taken(feed: Feed, count: int) -> list[Any]:
    """What comes, until there are `count` entries."""
    came: list[Any] = []
    limit = time.monotonic() + LIMIT
    while sum(isinstance(one, EntryEvent) for one in came) < count:
        assert time.monotonic() < limit, came
        came += feed.take(100)
    return came


def test_V01_it_goes_on_from_its_cursor() -> None:
    stream = Stream(length=7, each=3)
    feed = Feed(lambda: stream, "p", 0)
    came = taken(feed, 7)
    feed.close()
    assert [one.seq for one in came if isinstance(one, EntryEvent)] == list(range(1, 8))
    assert stream.asked[:3] == [0, 3, 6]
    assert came[0] == Connected()
    assert Away("it broke") in came


def test_a_home_that_nobody_owns_is_told() -> None:
    feed = Feed(lambda: None, "p", 0)
    limit = time.monotonic() + LIMIT
    while not (came := list(feed.take(1))):
        assert time.monotonic() < limit
    feed.close()
    assert came == [Away(NO_OWNER)]


def test_V05_a_log_that_cannot_be_read_on_is_told_in_its_words() -> None:
    stream = Stream(length=2, each=2)
    words = "the log of p is damaged at entry 3"
    damage = {"reason": "store-damaged", "head_seq": 9, "snapshot": None, "detail": words}
    object.__setattr__(stream, "last", Wire("resync", None, damage))
    feed = Feed(lambda: stream, "p", 0)
    came = taken(feed, 2)
    limit = time.monotonic() + LIMIT
    while Away(words) not in came:
        assert time.monotonic() < limit, came
        came += feed.take(100)
    feed.close()
    assert Away("it broke") not in came


def test_V04_a_screen_that_does_not_follow_costs_no_memory() -> None:
    stream = Stream(length=3 * WAITING, each=3 * WAITING)
    feed = Feed(lambda: stream, "p", 0)
    came = taken(feed, 3 * WAITING)
    feed.close()
    assert [one.seq for one in came if isinstance(one, EntryEvent)] == list(range(1, 3 * WAITING + 1))
    assert feed._queue.maxsize == WAITING
