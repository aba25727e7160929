"""The Directory's book of alerts: rings, numbers, and waiting."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as some

from actors.protocol.alerts import KEPT, LONGEST, Alert
from orchestrator.directory.alerts import MOST_CODES, AlertBook


def alert(number: int, pod_id: str | None = "p", message: str = "m") -> Alert:
    return Alert(f"{pod_id}:{number}", "warning", "test", message, number, pod_id)


def test_a_pods_last_512_are_kept_and_another_pods_flood_takes_none_of_them() -> None:
    book = AlertBook()
    book.add(alert(n) for n in range(KEPT + 88))
    book.add([alert(0, "quiet"), alert(0, None)])
    book.add(alert(n, "loud") for n in range(3 * KEPT))
    assert [a.ts for a in book.since(0, "p")[1]] == list(range(88, KEPT + 88))
    assert len(book.since(0, "loud")[1]) == KEPT
    assert [a.pod_id for a in book.since(0)[1] if a.pod_id in (None, "quiet")] == ["quiet", None]


def test_memory_is_bounded_over_all_pods_and_in_each_message() -> None:
    book = AlertBook(kept=4, kept_in_all=10)
    book.add(alert(1, f"p{n}", "x" * (LONGEST + 1)) for n in range(1000))
    assert len(book) == 10
    assert len(book._rings) == len(book._ids) == 10
    assert {a.pod_id for a in book.since(0)[1]} == {f"p{n}" for n in range(990, 1000)}
    assert all(len(a.message) == LONGEST and a.message.endswith("…") for a in book.since(0)[1])


def test_what_is_told_again_is_kept_once() -> None:
    book = AlertBook()
    book.add([alert(1), alert(1), alert(2)])
    book.add([alert(2)])
    assert [a.ts for a in book.since(0, "p")[1]] == [1, 2]


def test_L02_numbers_go_on_above_those_of_a_directory_that_died() -> None:
    old, new = AlertBook(), AlertBook()
    old.begin(6)
    old.add([alert(1)])
    cursor, _ = old.since(0)
    new.begin(7)
    new.add([alert(2), alert(3)])
    cursor, found = new.since(cursor)
    assert [a.ts for a in found] == [2, 3]
    assert new.since(cursor) == (cursor, ())
    assert new.next_id() != old.next_id()


@given(some.lists(some.tuples(some.sampled_from(["a", "b", None]), some.booleans()), max_size=60))
def test_snapshot_then_follow_has_no_gap_and_no_double(steps: list[tuple[str | None, bool]]) -> None:
    book = AlertBook(kept=100, kept_in_all=100)
    cursors: dict[str | None, int] = {}
    heard: dict[str | None, list[Alert]] = {"a": [], "b": [], None: []}
    raised: list[Alert] = []
    for number, (pod_id, looks) in enumerate(steps):
        raised.append(alert(number, pod_id))
        book.add(raised[-1:])
        if looks:
            for who in heard:
                cursors[who], found = book.since(cursors.get(who, 0), who)
                heard[who] += found
    for who, told in heard.items():
        told += book.since(cursors.get(who, 0), who)[1]
        assert told == [a for a in raised if who is None or a.pod_id == who]


async def test_who_waits_is_woken_by_its_own_pod_only_and_leaves_nothing() -> None:
    book = AlertBook()
    mine = asyncio.create_task(book.wait(0, "p", 60))
    everyone = asyncio.create_task(book.wait(0, None, 60))
    await asyncio.sleep(0)
    book.add([alert(1, "q")])
    await everyone
    assert not mine.done()
    book.add([alert(1)])
    await mine
    await book.wait(0, "p", 60)  # there is something: no wait
    await book.wait(book.since(0)[0], "p", 0.001)
    assert book._waiting == {}


def test_alerts_are_counted_once_each_by_level_and_code_and_the_codes_are_bounded() -> None:
    book = AlertBook()
    book.add([alert(1), alert(1), alert(2)])
    assert book.raised == {("warning", "test"): 2}
    book.add(Alert(f"d:{n}", "error", f"code-{n}", "m", n, None) for n in range(3 * MOST_CODES))
    assert len(book.raised) <= MOST_CODES + 1
    assert sum(book.raised.values()) == 2 + 3 * MOST_CODES
