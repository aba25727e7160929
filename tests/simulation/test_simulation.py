"""Many Pods over one store, by seed. A failing seed prints the command that shows it again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from actors.pod.transitions import TRANSITIONS
from tests.simulation.run import Summary, simulate

LONG = os.environ.get("POLYPOD_TEST_SIZE", "short") == "long"
SEEDS = 5_000 if LONG else 200
CHUNK = 50
KEPT = tuple(
    int(line.split()[0])
    for line in (Path(__file__).parent / "seeds.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
)


@pytest.mark.parametrize("seed", KEPT)
def test_a_seed_that_once_failed_holds(seed: int) -> None:
    simulate(seed)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_the_laws_hold(first: int) -> None:
    done = [simulate(seed) for seed in range(first, first + CHUNK)]
    assert sum(len(d.moves) for d in done) > CHUNK  # the worlds are not empty


def test_the_same_seed_tells_the_same_story() -> None:
    one, other = simulate(7), simulate(7)
    assert isinstance(one, Summary)
    assert one == other


def test_every_move_seen_is_in_the_table() -> None:
    moves = set().union(*(simulate(seed).moves for seed in range(30)))
    table = {(phase, kind.__name__, after) for (phase, kind), afters in TRANSITIONS.items() for after in afters}
    assert moves <= table
