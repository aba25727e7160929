"""The Directory's mind: a fact in, actions out. No Ray, no I/O, no clock: `now` (monotonic seconds) is given.

One session has one `Placement` in one phase at a time, so what happens to it happens in series; the rest is levels:
after every fact `_assign` gives actors to those that wait and keeps the pool.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.directory import actions as do
from orchestrator.directory import facts as at
from orchestrator.directory import losses, pool
from orchestrator.directory.state import FOREVER, Actor, Phase, Placement, Table

MISSED_BEATS = 3
"""Heartbeats that must leave a live session out before it counts as not held."""
TICK_GAP = 2.0
"""Seconds without a tick after which the Directory takes it that it slept itself, and blames no actor."""


def decide(table: Table, fact: at.Fact, now: float) -> list[do.Action]:
    """Take one fact: changes `table`, says what to do."""
    out = _take(table, fact, now)
    out += _assign(table, now)
    return out


def _take(table: Table, fact: at.Fact, now: float) -> list[do.Action]:
    match fact:
        case at.Looked():
            return _looked(table, fact, now)
        case at.Hinted(sessions):
            return _hinted(table, sessions)
        case at.NotHeld(actor_id, sessions):
            held = [p for s in sessions if (p := _live_on(table, s, actor_id)) is not None]
            return _look_again(table, held, now)
        case at.ActorReady(actor_id):
            return _actor_ready(table, actor_id, now)
        case at.ActorLost():
            return losses.actor_lost(table, fact, now)
        case at.Bound():
            return _bound(table, fact, now)
        case at.BindRefused():
            return _bind_refused(table, fact, now)
        case at.Unbound():
            return _unbound(table, fact, now)
        case at.Left():
            return _left(table, fact, now)
        case at.Rested(session, epoch, actor_id):
            placement = _live_on(table, session, actor_id)
            if placement is not None and placement.epoch == epoch:
                placement.resting_since = now
            return []
        case at.Beat():
            return _beat(table, fact, now)
        case at.CloseAsked():
            return losses.close_asked(table, fact, now)
        case at.Closed(session):
            return losses.closed(table, session, now)
        case at.CloseFailed():
            return losses.close_failed(table, fact, now)
        case at.Adopted():
            return _adopted(table, fact, now)
        case at.Tick():
            return _tick(table, now)


def _looked(table: Table, fact: at.Looked, now: float) -> list[do.Action]:
    """Those that need a Pod and have none get in line; those that were in question and need none are forgotten."""
    out: list[do.Action] = []
    wanted = {w.session for w in fact.wants}
    for session in fact.asked:
        placement = table.placements.get(session)
        if session not in wanted and placement is not None and placement.phase is Phase.LOOKING:
            del table.placements[session]
            out += [do.Gone(session), do.Settled(session, True)]  # a new child's task is not in its inbox any more
            if placement.again:
                out.append(do.Look((session,)))
    hints: dict[str, list[str]] = {}
    for want in fact.wants:
        placement = table.placements.get(want.session)
        if placement is None or placement.phase is Phase.LOOKING:
            out += _line_up(table, want, placement, now)
        elif placement.phase in (Phase.BINDING, Phase.WAITING):
            placement.spawning |= want.spawning
        elif want.spawning and placement.phase is not Phase.CLOSING:
            out.append(do.Settled(want.session, True))
        elif placement.phase is Phase.LIVE and placement.resting_since is not None:
            hints.setdefault(placement.actor_id or "", []).append(want.session)
    return [*out, *(do.PassHint(actor_id, tuple(sessions)) for actor_id, sessions in hints.items())]


def _line_up(table: Table, want: at.Want, placement: Placement | None, now: float) -> list[do.Action]:
    session = want.session
    foreign = table.roots is not None and want.root not in table.roots
    if foreign or session in table.blocked:
        table.placements.pop(session, None)
        return [do.Settled(session, False, "invalid", table.blocked.get(session, "Its tree is not continued here."))]
    if session in table.doomed:
        kind, cause = table.doomed[session]
        return [do.Settled(session, False, kind, cause), *losses.close(table, session, kind, cause, now)]
    if placement is None:
        placement = table.placements[session] = Placement(session, Phase.WAITING, now)
        if want.owned and now < table.leases_until:
            table.fences[session] = table.leases_until
    placement.phase, placement.epoch, placement.since = Phase.WAITING, want.epoch, now
    placement.spawning |= want.spawning
    out: list[do.Action] = []
    if placement.spawning and want.started:
        placement.spawning = False
        out.append(do.Settled(session, True))
    if placement.not_before == FOREVER:
        out += losses.give_up(table, placement, now)
    elif table.ready_at(placement) > now:
        out.append(do.WakeAt(table.ready_at(placement)))
    return out


def _hinted(table: Table, sessions: Iterable[str]) -> list[do.Action]:
    strangers: list[str] = []
    passed: dict[str, list[str]] = {}
    for session in dict.fromkeys(sessions):
        placement = table.placements.get(session)
        if placement is None:
            strangers.append(session)
        elif placement.phase is Phase.LIVE:
            placement.resting_since = None
            passed.setdefault(placement.actor_id or "", []).append(session)
        else:
            placement.again = True
    out: list[do.Action] = [do.PassHint(actor_id, tuple(found)) for actor_id, found in passed.items()]
    return [*out, do.Look(tuple(strangers))] if strangers else out


def _actor_ready(table: Table, actor_id: str, now: float) -> list[do.Action]:
    actor = table.actors.get(actor_id)
    if actor is not None and actor.phase == "starting":
        actor.phase = "ready"
        actor.last_beat = actor.idle_since = now
        table.failed_starts = 0
    return []


def _bound(table: Table, fact: at.Bound, now: float) -> list[do.Action]:
    placement = table.placements.get(fact.session)
    if placement is None or placement.phase is not Phase.BINDING or placement.actor_id != fact.actor_id:
        return [do.Drop(fact.session, fact.actor_id)]
    placement.phase, placement.epoch, placement.since = Phase.LIVE, fact.epoch, now
    placement.missed, placement.spawning, placement.cause = 0, False, ""
    placement.resting_since = None
    out: list[do.Action] = [do.Settled(fact.session, True)]
    if placement.left is not None and placement.left[0] == fact.epoch:
        return out + _left(table, at.Left(fact.session, fact.epoch, fact.actor_id, placement.left[1]), now)
    if placement.again:
        placement.again = False
        out.append(do.PassHint(fact.actor_id, (fact.session,)))
    return out


def _bind_refused(table: Table, fact: at.BindRefused, now: float) -> list[do.Action]:
    placement = table.placements.get(fact.session)
    if placement is None or placement.phase is not Phase.BINDING or placement.actor_id != fact.actor_id:
        return []
    refused = do.Settled(fact.session, False, fact.code, fact.message)
    match fact.code:
        case "store" | "stale_epoch" | "head_moved":
            return losses.not_now(table, placement, now)
        case "unknown_session":
            losses.forget(table, placement, now)
            return [refused]
        case "store_damaged" | "newer_schema":
            losses.forget(table, placement, now)
            table.blocked[fact.session] = fact.message
            told = do.TellParent(fact.session, fact.code, fact.message)
            return [refused, do.RaiseAlert("error", fact.code, fact.session, fact.message), told]
        case "settings":
            losses.free(table, placement, now)
            placement.cause = fact.message
            return losses.give_up(table, placement, now)
        case _:
            return losses.shell_failed(table, placement, fact.message, now)


def _unbound(table: Table, fact: at.Unbound, now: float) -> list[do.Action]:
    placement = table.placements.get(fact.session)
    actor = table.actors.get(fact.actor_id)
    out: list[do.Action] = []
    if actor is not None and not fact.clean:
        actor.tainted = True
        out += _end(actor, f"it did not let go of {fact.session} cleanly")
    if placement is None or placement.phase is not Phase.PARKING or placement.actor_id != fact.actor_id:
        return out
    again, placement.again = placement.again, False
    if fact.parked:
        losses.forget(table, placement, now)
        return [*out, do.Look((fact.session,))] if again else out
    placement.phase, placement.since, placement.resting_since = Phase.LIVE, now, None
    return [*out, do.PassHint(fact.actor_id, (fact.session,))] if again and not out else out


def _left(table: Table, fact: at.Left, now: float) -> list[do.Action]:
    placement = table.placements.get(fact.session)
    if placement is None or placement.actor_id != fact.actor_id or placement.phase is Phase.CLOSING:
        return []
    if placement.phase is Phase.BINDING:
        placement.left = (fact.epoch, fact.reason)
        return []
    if placement.epoch != fact.epoch or (placement.phase is Phase.PARKING and fact.reason == "parked"):
        return []
    actor = table.actor_of(placement)
    if fact.reason == "tainted" and actor is not None:
        actor.tainted = True
        lost = losses.shell_failed(table, placement, "its shell failed", now)
        return [*lost, *_end(actor, "a Pod's shell failed in it")]
    if fact.reason == "store":
        return losses.not_now(table, placement, now)
    if fact.reason.startswith("fenced"):  # refused under the newest epoch: over and over it must not be
        return losses.shell_failed(table, placement, fact.reason, now)
    losses.forget(table, placement, now)
    if fact.reason == "ended":
        table.deaths.pop(fact.session, None)
    out: list[do.Action] = [do.Gone(fact.session)]
    return out if fact.reason == "ended" and not placement.again else [*out, do.Look((fact.session,))]


def _beat(table: Table, fact: at.Beat, now: float) -> list[do.Action]:
    actor = table.actors.get(fact.actor_id)
    if actor is None:
        return []
    actor.last_beat = now
    held = {h.session: h for h in fact.held}
    out: list[do.Action] = []
    lost: list[Placement] = []
    for session in list(actor.sessions):
        placement = _live_on(table, session, actor.actor_id)
        if placement is None:
            continue
        seen = held.get(session)
        if seen is not None and seen.epoch == placement.epoch:
            placement.missed = 0
            placement.resting_since = None if seen.resting is None else now - seen.resting
        else:
            placement.missed += 1
            if placement.missed >= MISSED_BEATS:
                lost.append(placement)
    return [*out, *_look_again(table, lost, now)]


def strangers(table: Table, actor_id: str, held: Iterable[at.Holding]) -> list[str]:
    """What an actor holds although it is placed elsewhere, or nowhere: to be dropped there."""
    placed = ((h.session, table.placements.get(h.session)) for h in held)
    return [s for s, p in placed if p is None or p.actor_id != actor_id]


def _adopted(table: Table, fact: at.Adopted, now: float) -> list[do.Action]:
    actor = Actor(fact.actor_id, now, "ready", set(), fact.bindings, now, now, fact.tainted)
    table.actors[fact.actor_id] = actor
    for h in fact.held:
        since = None if h.resting is None else now - h.resting
        table.placements[h.session] = Placement(h.session, Phase.LIVE, now, h.epoch, fact.actor_id, resting_since=since)
        actor.sessions.add(h.session)
    return []


def _tick(table: Table, now: float) -> list[do.Action]:
    settings, slept = table.settings, now - table.last_tick
    if table.last_tick and slept > TICK_GAP:
        for actor in table.actors.values():
            actor.since += slept
            if actor.was_ready:
                actor.last_beat += slept
    table.last_tick = now
    out: list[do.Action] = []
    for actor in list(table.actors.values()):
        if actor.phase == "ready" and now - actor.last_beat > settings.lease:
            out += _end(actor, f"no heartbeat for {settings.lease:g} s")
        elif actor.phase == "starting" and now - actor.since > settings.start_timeout:
            out += _end(actor, f"not ready within {settings.start_timeout:g} s")
    for actor, reason in pool.to_end(table, now):
        out += _end(actor, reason)
    for placement in pool.to_park(table, now):
        out.append(_park(placement, now))
    for session in [s for s, until in table.fences.items() if until <= now]:
        del table.fences[session]
    window = settings.restart_window
    for session in [s for s, deaths in table.deaths.items() if now - deaths[-1] > window]:
        del table.deaths[session]
    return out


def _assign(table: Table, now: float) -> list[do.Action]:
    """Actors for those that wait, in order of arrival; then room for those that got none; then the pool."""
    out: list[do.Action] = []
    starved = 0
    waiting = [p for p in table.placements.values() if p.phase is Phase.WAITING and table.ready_at(p) <= now]
    for placement in sorted(waiting, key=lambda p: p.since):
        actor = pool.choose(table, placement)
        if actor is None:
            starved += 1
            continue
        actor.alone = pool.needs_own_actor(table, placement.session)
        actor.sessions.add(placement.session)
        actor.bindings += 1
        placement.phase, placement.actor_id, placement.since = Phase.BINDING, actor.actor_id, now
        placement.again, placement.left = False, None
        out.append(do.Bind(placement.session, actor.actor_id, placement.epoch))
    if starved:
        out += [_park(p, now) for p in pool.to_evict(table, starved, now)]
    if now < table.no_start_before:
        return out
    for _ in range(pool.to_start(table, starved)):
        table.started += 1
        actor_id = f"{table.epoch}-{table.started}"
        table.actors[actor_id] = Actor(actor_id, now)
        out.append(do.StartActor(actor_id))
    return out


def _park(placement: Placement, now: float) -> do.Action:
    placement.phase, placement.since = Phase.PARKING, now
    return do.Unbind(placement.session, placement.actor_id or "")


def _end(actor: Actor, reason: str) -> list[do.Action]:
    if actor.phase == "ending":
        return []
    actor.phase = "ending"
    return [do.EndActor(actor.actor_id, reason)]


def _look_again(table: Table, placements: Iterable[Placement], now: float) -> list[do.Action]:
    """They are not where they were thought to be: the catalogue says whether they need a Pod."""
    sessions = []
    for placement in placements:
        losses.forget(table, placement, now)
        sessions.append(placement.session)
    return [do.Look(tuple(sessions))] if sessions else []


def _live_on(table: Table, session: str, actor_id: str) -> Placement | None:
    placement = table.placements.get(session)
    if placement is None or placement.phase is not Phase.LIVE or placement.actor_id != actor_id:
        return None
    return placement
