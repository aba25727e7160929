"""Whether an extraction is due, and of what; how long to leave a session alone that failed. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from actors.extractor.activity import Activity
from actors.extractor.ranges import Range

FIRST_PAUSE = 30.0
"""Seconds for which a session is left alone after a failed extraction; doubling with each failure in a row."""
LONGEST_PAUSE = 3600.0


@dataclass(frozen=True, slots=True)
class Due:
    """Entries to extract. `fixed`: the range stands in the log already and must be finished as it is."""

    start: int
    through: int
    fixed: Range | None = None


def due(activity: Activity, threshold: int | None, through: int | None = None) -> Due | None:
    """What is to be extracted now, or None.

    First what was begun: a fixed range, then the rest of a slice that was cut. Else the entries after the pointer, up
    to the last rest of the session (or to `through`, before a rotation), once their activity reaches `threshold`.
    A threshold of None or 0 turns extraction off.
    """
    if not threshold:
        return None
    if activity.open is not None:
        return Due(activity.open.start, activity.open.through, activity.open)
    start = activity.processed + 1
    if activity.goal is not None:
        return Due(start, activity.goal)
    end = activity.rest if through is None else through
    if end < start or activity.tokens(end) < threshold:
        return None
    return Due(start, end)


def pause(failures: int, first: float = FIRST_PAUSE) -> float:
    """Seconds to leave a session alone after `failures` (from 1) failed extractions in a row."""
    return min(LONGEST_PAUSE, first * 2.0 ** min(failures - 1, 20))
