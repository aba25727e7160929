"""How full the context is, where the estimate of what nobody can shorten is above the limit by itself (C02)."""

from __future__ import annotations

import pytest

from actors.pod.occupancy import Occupancy
from session_store.entries import LlmUsage, Origin, SegmentStart, UserInput
from session_store.items import Segment

FRAME = "y" * 13_200
"""About 4,000 tokens."""


def begun(origin: Origin | None) -> Occupancy:
    fold = Occupancy()
    fold.apply(SegmentStart("s", {}, FRAME, (), 1, (), origin, seq=1))
    return fold


@pytest.mark.parametrize("origin", [None, Origin("s", 9), Origin("other", 9)])
def test_C02_what_is_only_estimated_above_the_limit_is_measured_before_anything_is_concluded(
    origin: Origin | None,
) -> None:
    fold = begun(origin)
    assert (fold.over(2_000), fold.over(4_000), fold.over(9_000)) == (False, False, False)
    fold.apply(UserInput((Segment("text", "z" * 4_000),), "m", "user", seq=2))
    assert (fold.over(2_000), fold.over(9_000)) == (True, False)  # what came since counts in full (C07)
    fold.apply(LlmUsage("r", 2, 2_000, 0, 0, 5, 1, seq=4))
    assert (fold.over(2_000), fold.over(2_001)) == (True, False)
