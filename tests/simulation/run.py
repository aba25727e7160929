"""One seed from start to rest, with every law checked."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation import laws, orders
from tests.simulation.directory import Directory
from tests.simulation.people import People
from tests.simulation.world import LawBroken, World

MAX_STEPS = 40_000
CALM_STEPS = 30_000


@dataclass(frozen=True, slots=True)
class Summary:
    """What one run came to."""

    seed: int
    steps: int
    sessions: int
    entries: int
    requests: int
    opened: int
    moves: frozenset[tuple[str, str, str]]


class SimulationFailed(AssertionError):
    """A seed that breaks a law. `trace` is the whole story."""

    def __init__(self, seed: int, cause: BaseException, trace: list[str]) -> None:
        tail = "\n".join(trace[-25:])
        super().__init__(
            f"{type(cause).__name__}: {cause}\nthe last steps:\n{tail}\n"
            f"again: python -m tests.simulation --seed {seed} --trace"
        )
        self.seed = seed
        self.trace = trace


def simulate(seed: int) -> Summary:
    """Raises `SimulationFailed`."""
    world = World(seed)
    try:
        return _simulate(world)
    except Exception as cause:
        raise SimulationFailed(seed, cause, world.trace) from cause


def _simulate(world: World) -> Summary:
    directory = Directory(world)
    people = People(world, directory)
    watch = orders.Watch(world)
    world.before_append, world.after_append = watch.before, watch.after
    for _ in range(world.rng.choice((1, 1, 2))):
        people.new_root()
    steps = _chaos(world, people)
    world.calm = True
    for p in directory.processes:  # those that were cut off and know nothing of it yet
        p.poll()
    steps += _come_to_rest(world, directory, people)
    laws.check_all(world)
    entries = sum(len(r.entries) for r in world.references.values())
    return Summary(
        world.seed, steps, len(world.sessions), entries, world.requests, directory.opened, frozenset(world.moves)
    )


def _chaos(world: World, people: People) -> int:
    for step in range(MAX_STEPS):
        dice = world.rng.random()
        if dice < 0.03 and people.acts_left:
            people.act()
        elif dice < 0.045 and people.faults_left:
            people.fault()
        elif dice < 0.06:
            people.park_some()
        elif not world.step() or not people.acts_left:
            if not people.acts_left:
                return step
            people.act()
    raise LawBroken("people do not come to an end")


def _come_to_rest(world: World, directory: Directory, people: People) -> int:
    for step in range(CALM_STEPS):
        if world.step():
            continue
        directory.sweep()
        if all(e.recurring for e in world.events) and not (people.resume_paused() or people.answer_open()):
            return step
    raise LawBroken("the world does not come to rest")
