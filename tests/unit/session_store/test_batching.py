"""Group commit: together, in bounded queues, each with its own answer."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from session_store.batching import MOST_IN_ONE_COMMIT, GroupCommit
from session_store.errors import StoreUnavailable
from session_store.requests import Release


class Slow:
    """Answers every request with its epoch, once the gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.sizes: list[int] = []
        self.busy = 0

    def execute_batch(self, requests: Sequence[Any]) -> list[Any]:
        self.busy += 1
        assert self.busy == 1, "two at once"
        self.entered.set()
        self.gate.wait(10)
        self.sizes.append(len(requests))
        self.busy -= 1
        return [r.epoch for r in requests]


def started(commits: GroupCommit, numbers: Sequence[int], got: dict[int, Any]) -> list[threading.Thread]:
    def ask(number: int) -> None:
        try:
            got[number] = commits.execute([Release("s", number)])[0]
        except StoreUnavailable as error:
            got[number] = error

    threads = [threading.Thread(target=ask, args=(n,)) for n in numbers]
    for thread in threads:
        thread.start()
    return threads


def until(condition: Any) -> None:
    limit = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.001)


def test_what_arrives_during_a_commit_goes_into_the_next_one() -> None:
    store, got = Slow(), {}
    commits = GroupCommit(store)
    threads = started(commits, [0], got)
    store.entered.wait(5)
    threads += started(commits, range(1, 20), got)
    until(lambda: commits._waiting == 19)
    store.gate.set()
    for thread in threads:
        thread.join(5)
    assert store.sizes == [1, 19]
    assert got == {n: n for n in range(20)}


def test_under_load_nobody_is_forgotten_and_one_commits_at_a_time() -> None:
    store, got = Slow(), {}
    store.gate.set()
    commits = GroupCommit(store)

    def ask(base: int) -> None:
        for n in range(base, base + 100):
            got[n] = commits.execute([Release("s", n), Release("s", -n)])

    threads = [threading.Thread(target=ask, args=(base,)) for base in range(0, 1600, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert got == {n: [n, -n] for n in range(1600)}
    assert max(store.sizes) <= MOST_IN_ONE_COMMIT


def test_a_full_queue_refuses_and_a_long_wait_ends() -> None:
    store, got = Slow(), {}
    commits = GroupCommit(store, most_waiting=2, wait=0.2)
    threads = started(commits, [0], got)
    store.entered.wait(5)
    threads += started(commits, [1, 2], got)
    until(lambda: commits._waiting == 2)
    with pytest.raises(StoreUnavailable, match="2 requests waiting"):
        commits.execute([Release("s", 3)])
    for thread in threads[1:]:
        thread.join(5)
    assert isinstance(got[1], StoreUnavailable)
    assert isinstance(got[2], StoreUnavailable)
    store.gate.set()
    threads[0].join(5)
    assert got[0] == 0
    assert commits.execute([Release("s", 9)]) == [9]
    assert store.sizes == [1, 1]


def test_a_store_that_breaks_tells_each_caller() -> None:
    class Broken:
        def execute_batch(self, requests: Sequence[Any]) -> list[Any]:
            raise OSError("gone")

    commits = GroupCommit(Broken())
    (answer,) = commits.execute([Release("s", 1)])
    assert isinstance(answer, OSError)
