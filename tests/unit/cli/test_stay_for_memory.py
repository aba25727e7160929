"""An owning run gives the extractions of its own tree a moment (X13: bounded, and Ctrl-C leaves)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from orchestrator.cli import running
from orchestrator.cli.running import MEMORY_GRACE, QUIET_MOMENT, Journey


@dataclass
class Owner:
    extracts_from: int
    left: list[Any]
    asked: list[tuple[list[str], float]] = field(default_factory=list)

    def extract(self, sessions: Iterable[str], limit: float) -> int:
        self.asked.append((list(sessions), limit))
        found = self.left.pop(0)
        if isinstance(found, BaseException):
            raise found
        return int(found)


@dataclass
class Link:
    owner: Owner | None


@dataclass
class Audience:
    said: list[str] = field(default_factory=list)

    def say(self, words: str) -> None:
        self.said.append(words)


PODS = [{"id": "small", "usage": {"input": 9}}, {"id": "grown", "usage": {"input": 10}}]


def stay(owner: Owner | None) -> list[str]:
    audience = Audience()
    journey: Any = Journey(None, Link(owner), audience, "root")  # type: ignore[arg-type]
    running._stay_for_memory(journey, PODS)
    return audience.said


@pytest.mark.parametrize("owner", [None, Owner(0, [])])
def test_who_owns_nothing_or_extracts_nothing_does_not_stay(owner: Owner | None) -> None:
    assert stay(owner) == []
    assert owner is None or owner.asked == []


def test_only_sessions_that_may_have_something_due_are_waited_for_and_quietly_at_first() -> None:
    owner = Owner(10, [0])
    assert stay(owner) == []
    assert owner.asked == [(["grown"], QUIET_MOMENT)]


def test_X13_the_wait_is_told_and_bounded() -> None:
    owner = Owner(10, [1, 1])
    assert len(stay(owner)) == 1
    assert [limit for _, limit in owner.asked] == [QUIET_MOMENT, MEMORY_GRACE]


def test_X13_ctrl_c_leaves() -> None:
    assert len(stay(Owner(10, [1, KeyboardInterrupt()]))) == 1
