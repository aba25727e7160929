"""Which actor takes a Pod, how many stand ready, and which have served. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.directory.state import Actor, Phase, Placement, Table

MAX_STARTING = 8
"""Processes that start at one time."""
EVICT_AFTER = 1.0
"""Seconds a Pod must have rested before it makes room for one with work."""
IDLE_FOR = 5.0
"""Seconds a spare actor is kept beyond the warm pool."""
ALONE_FROM = 2
"""Deaths from which on a Pod is started in an actor of its own, so that it takes no other with it."""


def choose(table: Table, placement: Placement) -> Actor | None:
    """The actor to bind it to: the fullest with room, so that others fall empty. None: there is none."""
    alone = needs_own_actor(table, placement.session)
    fits = [a for a in table.actors.values() if takes(table, a) and (not alone or not a.sessions)]
    return max(fits, key=lambda a: (len(a.sessions), a.bindings), default=None)


def needs_own_actor(table: Table, session: str) -> bool:
    return len(table.deaths.get(session, ())) >= ALONE_FROM


def takes(table: Table, actor: Actor) -> bool:
    """Whether the actor may be bound once more."""
    room = len(actor.sessions) < table.settings.pods_per_actor and not (actor.alone and actor.sessions)
    return actor.phase == "ready" and room and not has_served(table, actor)


def has_served(table: Table, actor: Actor) -> bool:
    """Whether the process is to be ended once it is empty."""
    return actor.tainted or actor.bindings >= table.settings.retire_after


def to_start(table: Table, starved: int) -> int:
    """How many actors to start, so that those without one get one and the warm pool stands again."""
    starting = sum(a.phase == "starting" for a in table.actors.values())
    spare = sum(1 for _ in _spare(table))
    hosts = -(-starved // table.settings.pods_per_actor)
    missing = hosts + table.settings.warm_pool - spare - starting
    alive = len(table.actors)
    return max(0, min(missing, MAX_STARTING - starting, table.settings.max_actors - alive))


def to_evict(table: Table, starved: int, now: float) -> list[Placement]:
    """Pods at rest, longest first, that make room for those without an actor."""
    under_way = sum(p.phase is Phase.PARKING for p in table.placements.values())
    resting = [(p.resting_since, p) for p in table.placements.values() if _rests_for(p, EVICT_AFTER, now)]
    resting.sort(key=lambda pair: pair[0] or 0.0)
    return [p for _, p in resting[: max(0, starved - under_way)]]


def to_park(table: Table, now: float) -> list[Placement]:
    return [p for p in table.placements.values() if _rests_for(p, table.settings.park_after, now)]


def to_end(table: Table, now: float) -> list[tuple[Actor, str]]:
    """Empty actors that have served, and one spare actor too many."""
    empty = [a for a in table.actors.values() if a.phase == "ready" and not a.sessions]
    ends = [(a, "it was unclean" if a.tainted else "it has served") for a in empty if has_served(table, a)]
    spare = sorted(_spare(table), key=lambda a: a.idle_since)
    if len(spare) > table.settings.warm_pool and now - spare[0].idle_since > IDLE_FOR:
        ends.append((spare[0], "it is not needed"))
    return ends


def _spare(table: Table) -> Iterator[Actor]:
    return (a for a in table.actors.values() if not a.sessions and takes(table, a))


def _rests_for(placement: Placement, seconds: float, now: float) -> bool:
    since = placement.resting_since
    return placement.phase is Phase.LIVE and since is not None and now - since >= seconds
