"""Deaths and ends: what becomes of sessions whose process is gone, or that must end whatever their Pod does. Pure."""

from __future__ import annotations

from orchestrator.directory import actions as do
from orchestrator.directory import facts as at
from orchestrator.directory.restarts import after_death
from orchestrator.directory.state import FOREVER, CloseKind, Phase, Placement, Table

START_DELAY = 0.5
LONGEST_START_DELAY = 30.0
"""Seconds before the next actor is started after one that died at its start; doubling."""
PASSING_WAIT = 0.3
"""Seconds before a bind is tried again that the store could not answer."""


def actor_lost(table: Table, fact: at.ActorLost, now: float) -> list[do.Action]:
    """Its sessions go on elsewhere: at once if the death is proven, else when the lease has surely run out."""
    actor = table.actors.pop(fact.actor_id, None)
    if actor is None:
        return []
    if not actor.was_ready:
        return _failed_start(table, fact.cause, now)
    gone = [p for s in sorted(actor.sessions) if (p := table.placements.get(s)) and p.actor_id == actor.actor_id]
    asked = []
    for placement in gone:
        if not fact.proven:
            table.fence(placement.session, actor.last_beat)
        if placement.phase is Phase.CLOSING:
            continue  # whoever writes its end has seen to the process
        at_rest = placement.phase is Phase.PARKING or placement.resting_since is not None
        if not at_rest:
            note_death(table, placement, fact.cause, now)
        _in_question(placement, now)
        asked.append(placement.session)
    return [do.Look(tuple(asked))] if asked else []


def note_death(table: Table, placement: Placement, cause: str, now: float) -> None:
    verdict = after_death(table.deaths.get(placement.session, ()), now, table.settings)
    table.deaths[placement.session] = verdict.deaths
    placement.cause = cause
    placement.not_before = FOREVER if verdict.wait is None else now + verdict.wait
    table.restarts += verdict.wait is not None


def shell_failed(table: Table, placement: Placement, cause: str, now: float) -> list[do.Action]:
    """The Pod's shell let go without being asked: like a death, but the process may go on."""
    free(table, placement, now)
    note_death(table, placement, cause, now)
    _in_question(placement, now)
    return [do.Look((placement.session,))]


def not_now(table: Table, placement: Placement, now: float) -> list[do.Action]:
    """The store could not answer, or knows another epoch: ask the catalogue, then try again."""
    free(table, placement, now)
    _in_question(placement, now)
    placement.not_before = now + PASSING_WAIT
    return [do.Look((placement.session,))]


def give_up(table: Table, placement: Placement, now: float) -> list[do.Action]:
    """No further start: whoever spawned it is told, or the Directory writes its end."""
    deaths = len(table.deaths.get(placement.session, ()))
    times = f"It died {deaths} times within {table.settings.restart_window:g} s; the last cause: " if deaths else ""
    cause = f"{times}{placement.cause or 'unknown'}"
    if placement.spawning:
        placement.phase, placement.not_before = Phase.WAITING, FOREVER
        return [do.Settled(placement.session, False, "died", cause)]
    table.given_up += 1
    alert = do.RaiseAlert("error", "pod-given-up", placement.session, cause)
    return [alert, *close(table, placement.session, "died", cause, now)]


def close_asked(table: Table, fact: at.CloseAsked, now: float) -> list[do.Action]:
    placement = table.placements.get(fact.session)
    if placement is not None and placement.phase is Phase.CLOSING:
        return []
    return close(table, fact.session, fact.kind, fact.cause, now)


def close(table: Table, session: str, kind: CloseKind, cause: str, now: float) -> list[do.Action]:
    """Have the session's end written; it stays owed until it is."""
    table.doomed[session] = (kind, cause)
    placement = table.placements.get(session)
    if placement is None:
        placement = table.placements[session] = Placement(session, Phase.CLOSING, now)
    held_by, binding = placement.actor_id, placement.phase is Phase.BINDING
    placement.phase, placement.since, placement.spawning = Phase.CLOSING, now, False
    return [do.Close(session, held_by, kind, cause, table.fences.get(session, 0.0), binding)]


def closed(table: Table, session: str, now: float) -> list[do.Action]:
    """The end is written; what still lies in the inbox may start something new, with a clean record."""
    table.doomed.pop(session, None)
    table.deaths.pop(session, None)
    return [*_close_over(table, session, now), do.Look((session,))]


def close_failed(table: Table, fact: at.CloseFailed, now: float) -> list[do.Action]:
    """It stays owed: the next sweep that finds the session tries again."""
    out = _close_over(table, fact.session, now)
    if fact.final:
        table.doomed.pop(fact.session, None)
        table.blocked[fact.session] = fact.message
        out.append(do.TellParent(fact.session, "store_damaged", fact.message))
    return [*out, do.RaiseAlert("error", "end-not-written", fact.session, fact.message)]


def forget(table: Table, placement: Placement, now: float) -> None:
    """The session has no place any more."""
    free(table, placement, now)
    del table.placements[placement.session]


def free(table: Table, placement: Placement, now: float) -> None:
    """The actor does not hold the session any more."""
    actor = table.actor_of(placement)
    placement.actor_id, placement.resting_since = None, None
    if actor is not None:
        actor.sessions.discard(placement.session)
        if not actor.sessions:
            actor.idle_since, actor.alone = now, False


def _in_question(placement: Placement, now: float) -> None:
    placement.phase, placement.since = Phase.LOOKING, now
    placement.actor_id, placement.resting_since, placement.left = None, None, None
    placement.again = False


def _close_over(table: Table, session: str, now: float) -> list[do.Action]:
    placement = table.placements.pop(session, None)
    if placement is None:
        return []
    actor = table.actor_of(placement)
    free(table, placement, now)
    out: list[do.Action] = [do.Gone(session)]
    if actor is not None and actor.phase == "ready":
        actor.tainted = True  # it would not let go of a Pod: it is ended when it is empty
    return out


def _failed_start(table: Table, cause: str, now: float) -> list[do.Action]:
    table.failed_starts += 1
    wait = min(LONGEST_START_DELAY, START_DELAY * 2.0 ** (table.failed_starts - 1))
    table.no_start_before = now + wait
    alert = do.RaiseAlert("warning", "actor-start-failed", "", f"An actor did not start: {cause}")
    return [alert, do.WakeAt(table.no_start_before)]
