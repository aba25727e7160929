"""What one scrape is made of, and distributions read from counters. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from session_store.counters import SEPARATOR, SUM, Family
from session_store.items import Json
from session_store.rows import CensusFigures


@dataclass(frozen=True, slots=True)
class Sample:
    """`counters` and `census` None: the store did not answer. `status` None: the Directory did not; else what
    `ControlPlane.status` gives. `now`: ms since the epoch."""

    now: int
    version: str
    counters: Mapping[str, int] | None = None
    census: CensusFigures | None = None
    status: Mapping[str, Json] | None = None


@dataclass(slots=True)
class Spread:
    """A distribution: how many fell into each bucket (one more than there are bounds), and the sum in ms."""

    buckets: list[int] = field(default_factory=list)
    total_ms: int = 0

    def quantile(self, family: Family, share: float) -> int | None:
        """The upper bound in ms of the bucket that this share of them lies below; None without any, or beyond."""
        rank, seen = share * sum(self.buckets), 0
        for bound, number in zip(family.bounds, self.buckets, strict=False):
            seen += number
            if seen and seen >= rank:
                return bound
        return None


def counted(family: Family, counters: Mapping[str, int]) -> dict[tuple[str, ...], int]:
    """A plain family's numbers by their labels."""
    found: dict[tuple[str, ...], int] = {}
    for key, number in counters.items():
        name, *labels = key.split(SEPARATOR)
        if name == family.name and len(labels) == len(family.labels):
            found[tuple(labels)] = number
    return found


def spreads(family: Family, counters: Mapping[str, int]) -> dict[tuple[str, ...], Spread]:
    """A family's distributions by their labels."""
    found: dict[tuple[str, ...], Spread] = {}
    for key, number in counters.items():
        name, *labels = key.split(SEPARATOR)
        if name != family.name or len(labels) != len(family.labels) + 1:
            continue
        spread = found.setdefault(tuple(labels[:-1]), Spread([0] * (len(family.bounds) + 1)))
        if labels[-1] == SUM:
            spread.total_ms = number
        elif labels[-1].isdecimal() and int(labels[-1]) < len(spread.buckets):
            spread.buckets[int(labels[-1])] = number
    return found
