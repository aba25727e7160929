"""Activity tokens and the trigger, as tables: what a log says is due (X01-X07)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid5

import pytest

from actors.extractor.activity import FOLDED, Activity
from actors.extractor.ranges import NAMESPACE, Range, staging_id
from actors.extractor.trigger import FIRST_PAUSE, LONGEST_PAUSE, Due, due, pause
from session_store.codec import encode_entry
from session_store.entries import Extension, LogEntry, SegmentEnd
from tests.unit.extractor.logs import (
    fixed,
    folded,
    forked,
    guessed,
    other_model,
    placed,
    pointer,
    prompt,
    rest,
    rewound,
    run,
    said,
    start,
    used,
)


@dataclass(frozen=True)
class Case:
    """Activity at the log's last rest."""

    name: str
    log: list[LogEntry]
    tokens: int


CACHED = used(100_000, cache_read=90_000)
WRITTEN = used(100_000, cache_read=60_000, cache_write=30_000)

CASES = [
    Case("X01 cached tokens are part of the prompt", [start(), CACHED, rest()], 100_000),
    Case("X01 so are those written to a cache", [start(), WRITTEN, rest()], 100_000),
    Case(
        "X02 growth since the pointer, not the sum",
        [start(), used(19_000), rest(), pointer(3), *map(used, range(20_000, 30_000, 1_000)), rest()],
        10_000,
    ),
    Case("base 0 without a pointer", [start(), used(4_000), used(7_000), rest()], 7_000),
    Case("what follows the last rest waits", [start(), used(4_000), rest(), used(9_000)], 4_000),
    Case(
        "the pointer's base is at the end of its range, not where it was written",
        [start(), used(10_000), rest(), used(14_000), pointer(3), rest()],
        4_000,
    ),
    Case(
        "old tool output left out of the prompt takes no growth back",
        [start(), used(50_000), rest(), pointer(3), used(60_000), used(40_000), used(45_000), rest()],
        15_000,
    ),
    Case(
        "X05 compaction: unspent growth is kept, then measured anew",
        [start(), used(50_000), rest(), pointer(3), used(58_000), SegmentEnd(), start(), used(20_000), rest()],
        8_000,
    ),
    Case(
        "X05 and goes on from the new occupancy",
        [start(), used(50_000), rest(), pointer(3), SegmentEnd(), start(), used(20_000), used(26_000), rest()],
        6_000,
    ),
    Case(
        "X06 a rewind to before the pointer: measured from what is left",
        [start(), prompt("a"), used(50_000), prompt("b"), used(80_000), rest(), pointer(6), rewound(4)],
        0,
    ),
    Case(
        "X06 and then from there",
        [start(), used(50_000), prompt("b"), used(80_000), rest(), pointer(5), rewound(3), used(56_000), rest()],
        6_000,
    ),
    Case(
        "X06 a rewind to after the pointer keeps the growth of what is left",
        [start(), used(40_000), rest(), pointer(3), used(50_000), prompt("b"), used(80_000), rest(), rewound(6)],
        10_000,
    ),
    Case("X07 a fork starts at its origin's occupancy", [forked(), used(80_000), rest()], 0),
    Case("X07 and counts what it adds", [forked(), used(80_000), used(83_000), rest()], 3_000),
    Case("another model counts otherwise", [start(), used(10_000), other_model(), used(14_000), rest()], 10_000),
    Case("estimates where nothing else is known", [start(), guessed(5_000), guessed(9_000), rest()], 9_000),
    Case(
        "a figure of the provider covers what was estimated before it",
        [start(), used(10_000), guessed(40_000), used(12_000), rest()],
        12_000,
    ),
    Case("a malformed pointer is none", [start(), used(10_000), rest(), pointer(0), pointer(2, 7), rest()], 10_000),
    Case(
        "the newest well-formed pointer counts",
        [start(), used(10_000), rest(), pointer(2), used(11_000), pointer(5), pointer(99), rest()],
        0,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_X01_X02_X05_X06_X07_activity_by_table(case: Case) -> None:
    activity = folded(*case.log)
    assert activity.tokens(activity.rest) == case.tokens


def test_X01_providers_with_equal_totals_fire_at_the_same_request() -> None:
    ours = folded(start(), used(100_000, cache_read=90_000), rest())
    theirs = folded(start(), used(100_000), rest())
    for threshold in (99_999, 100_000, 100_001):
        assert (due(ours, threshold) is None) == (due(theirs, threshold) is None)


@pytest.mark.parametrize(
    ("threshold", "fires"), [(9_999, True), (10_000, True), (10_001, False), (0, False), (None, False)]
)
def test_X03_exactly_at_the_threshold_fires_after_the_turn_and_unset_or_0_is_off(
    threshold: int | None, fires: bool
) -> None:
    running = [start(), prompt("go"), used(10_000), said("done")]
    assert due(folded(*running), threshold) is None
    assert (due(folded(*running, rest()), threshold) is not None) == fires
    assert due(folded(*running, rest(), fixed(1, 5)), 0) is None


def test_X04_what_came_while_an_extraction_ran_is_one_range() -> None:
    first = [start(), *run([10_000])]
    during = [fixed(1, 6), *run([20_000]), *run([30_000]), pointer(6)]
    activity = folded(*first, *during)
    assert due(activity, 10_000) == Due(7, activity.rest)
    assert activity.tokens(activity.rest) == 20_000


def test_X05_extraction_after_a_compaction_takes_new_entries_only() -> None:
    log = [start(), *run([50_000]), fixed(1, 6), pointer(6), SegmentEnd(), start(), *run([20_000, 31_000])]
    assert due(folded(*log), 10_000) == Due(7, 16)


def test_X05_before_a_rotation_in_mid_run_the_range_ends_where_it_is_asked_to() -> None:
    activity = folded(start(), prompt("go"), used(10_000), said("and"), used(20_000))
    assert due(activity, 15_000) is None
    assert due(activity, 15_000, through=5) == Due(1, 5)


def test_X06_after_a_rewind_only_new_entries_are_due_and_a_range_of_removed_ones_is_void() -> None:
    log = [start(), *run([50_000]), *run([80_000]), fixed(1, 11), rewound(8)]
    activity = folded(*log)
    assert (activity.open, activity.voided) == (None, [Range(1, 11, 11)])
    assert due(activity, 60_000) is None
    again = folded(*log, *run([62_000]))
    assert due(again, 60_000) == Due(1, again.rest)
    assert [seq for seq in range(1, 12) if again.removed(seq)] == [8, 9, 10, 11]


def test_X06_a_rewind_behind_the_range_leaves_it_open() -> None:
    activity = folded(start(), *run([50_000]), fixed(1, 6), *run([60_000]), rewound(9))
    assert activity.open == Range(1, 6, 6)
    assert not activity.voided


def test_X11_a_fixed_range_is_finished_first() -> None:
    activity = folded(start(), *run([50_000]), fixed(1, 3), *run([90_000]))
    assert due(activity, 10**9) == Due(1, 3, Range(1, 3, 3))


def test_X12_the_rest_of_a_cut_slice_is_due_whatever_its_size() -> None:
    begun = [start(), *run([50_000]), fixed(1, 3, through=6)]
    assert due(folded(*begun), 50_000) == Due(1, 6, Range(1, 3, 6))
    assert due(folded(*begun, pointer(3)), 50_000) == Due(4, 6)
    done = folded(*begun, pointer(3), fixed(4, 6), pointer(6))
    assert due(done, 50_000) is None


def test_of_two_ranges_fixed_side_by_side_the_first_counts() -> None:
    log = [start(), *run([50_000]), *run([60_000]), fixed(1, 6), fixed(1, 11)]
    assert folded(*log).open == Range(1, 6, 6)
    assert folded(*log, pointer(6)).open is None
    assert folded(*log, pointer(6), fixed(1, 12)).open is None


MALFORMED = [{}, {"start": 1}, {"start": 0, "end": 3}, {"start": 4, "end": 3}, {"start": 1, "end": 50}]


@pytest.mark.parametrize("payload", [*MALFORMED, {"start": True, "end": 3}, {"start": 1, "end": 3, "through": 2}])
def test_a_malformed_range_is_none(payload: dict[str, object]) -> None:
    assert folded(start(), *run([10]), Extension("memory.extract.range", payload)).open is None


def test_the_fold_misses_nothing_when_it_is_given_what_the_filter_lets_through() -> None:
    log = [start(), *run([50_000]), fixed(1, 3), pointer(3), SegmentEnd(), start(), *run([9]), rewound(13), rest()]
    whole, filtered = folded(*log), Activity()
    for entry in placed(log):
        if any(word in encode_entry(entry) for word in FOLDED):
            filtered.apply(entry)
    assert filtered == whole


def test_pauses_double_and_are_bounded() -> None:
    assert [pause(n) for n in (1, 2, 3)] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pause(10_000) == LONGEST_PAUSE


def test_a_staging_id_is_a_uuid5_that_follows_from_session_and_range() -> None:
    one = staging_id("s", 1, 9)
    assert one == str(uuid5(UUID(bytes=NAMESPACE), "s:1:9")) == "88cae55b-0f3c-50d0-83cc-4974c30ae5be"
    assert one not in (staging_id("s", 1, 10), staging_id("t", 1, 9), staging_id("s", 2, 9))
