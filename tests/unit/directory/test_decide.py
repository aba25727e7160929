"""The Directory's mind, fact by fact."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from orchestrator.directory import actions as do
from orchestrator.directory import facts as at
from orchestrator.directory.decide import decide, strangers
from orchestrator.directory.restarts import after_death
from orchestrator.directory.settings import LEASE_MARGIN, DirectorySettings
from orchestrator.directory.state import Phase, Table

SETTINGS = DirectorySettings(warm_pool=1)
S, T = "session-a", "session-b"


class Mind:
    """A table and its clock; `tell` gives the actions."""

    def __init__(self, settings: DirectorySettings = SETTINGS, actors: int = 1) -> None:
        self.table = Table(settings, epoch=7)
        self.now = 100.0
        self.tell(at.Tick())
        self.ready(actors)

    def tell(self, fact: at.Fact, later: float = 0.0) -> list[do.Action]:
        self.now += later
        return decide(self.table, fact, self.now)

    def ready(self, count: int = 1) -> None:
        for actor_id in [a.actor_id for a in self.table.actors.values() if a.phase == "starting"][:count]:
            self.tell(at.ActorReady(actor_id))

    def want(self, session: str = S, **fields: object) -> list[do.Action]:
        want = replace(at.Want(session, session, 0), **fields)  # type: ignore[arg-type]
        return self.tell(at.Looked((), (want,)))

    def live(self, session: str = S) -> str:
        """Bind the session; the actor's id."""
        (bind,) = of(self.want(session), do.Bind)
        self.tell(at.Bound(session, bind.actor_id, 1))
        return bind.actor_id

    def phase(self, session: str = S) -> Phase | None:
        placement = self.table.placements.get(session)
        return None if placement is None else placement.phase


def of(actions: Sequence[do.Action], kind: type) -> list:
    return [a for a in actions if isinstance(a, kind)]


def test_the_pool_is_filled_and_refilled() -> None:
    mind = Mind(actors=0)
    assert [a.actor_id for a in mind.table.actors.values()] == ["7-1"]
    mind.ready()
    assert of(mind.want(), do.StartActor) == [do.StartActor("7-2")]


def test_a_want_is_bound_at_once_and_only_once() -> None:
    mind = Mind()
    assert of(mind.want(epoch=3), do.Bind) == [do.Bind(S, "7-1", 3)]
    assert of(mind.want(epoch=3), do.Bind) == []
    assert of(mind.tell(at.Bound(S, "7-1", 4)), do.Settled) == [do.Settled(S, True)]
    assert of(mind.want(epoch=4), do.Bind) == []
    assert mind.phase() is Phase.LIVE


def test_a_want_waits_for_an_actor() -> None:
    mind = Mind(actors=0)
    assert of(mind.want(), do.Bind) == []
    assert of(mind.tell(at.ActorReady("7-1")), do.Bind) == [do.Bind(S, "7-1", 0)]


def test_a_hint_goes_to_the_actor_and_a_strange_one_to_the_catalogue() -> None:
    mind = Mind()
    actor = mind.live()
    out = mind.tell(at.Hinted((S, T, S)))
    assert out[:2] == [do.PassHint(actor, (S,)), do.Look((T,))]


def test_a_hint_during_a_bind_is_passed_on_after_it() -> None:
    mind = Mind()
    mind.want()
    assert mind.tell(at.Hinted((S,))) == []
    assert of(mind.tell(at.Bound(S, "7-1", 1)), do.PassHint) == [do.PassHint("7-1", (S,))]


def test_a_hint_during_parking_has_the_session_looked_at_after_it() -> None:
    mind = Mind()
    actor = mind.live()
    mind.tell(at.Rested(S, 1, actor))
    mind.tell(at.Beat(actor, (at.Holding(S, 1, 0.0),)))
    assert of(park(mind, actor), do.Unbind) == [do.Unbind(S, actor)]
    assert mind.tell(at.Hinted((S,))) == []
    assert do.Look((S,)) in mind.tell(at.Unbound(S, actor, parked=True, clean=True))


def park(mind: Mind, actor: str) -> list[do.Action]:
    """Let the rest grow old, heartbeats going on."""
    out: list[do.Action] = []
    for _ in range(61):
        mind.tell(at.Beat(actor, (at.Holding(S, 1, mind.now - 100.0),)), 1.0)
        for other in mind.table.actors.values():
            other.last_beat = mind.now
        out += mind.tell(at.Tick())
    return out


def test_an_unbind_that_work_refused_leaves_it_live() -> None:
    mind = Mind()
    actor = mind.live()
    park(mind, actor)
    assert mind.phase() is Phase.PARKING
    mind.tell(at.Unbound(S, actor, parked=False, clean=True))
    assert mind.phase() is Phase.LIVE


def test_an_unclean_unbind_ends_the_actor() -> None:
    mind = Mind()
    actor = mind.live()
    park(mind, actor)
    out = mind.tell(at.Unbound(S, actor, parked=True, clean=False))
    assert [a.actor_id for a in of(out, do.EndActor)] == [actor]


@pytest.mark.parametrize("proven", [True, False])
def test_S07_the_next_epoch_is_granted_on_proof_or_after_the_lease(proven: bool) -> None:
    mind = Mind(actors=1)
    actor = mind.live()
    mind.ready()
    out = mind.tell(at.ActorLost(actor, "killed", proven), 0.1)
    assert do.Look((S,)) in out
    out = mind.want(epoch=1, owned=True)
    assert bool(of(out, do.Bind)) is proven
    if not proven:
        mind.now += SETTINGS.lease + LEASE_MARGIN
        for other in mind.table.actors.values():
            other.last_beat = mind.now
        assert of(mind.tell(at.Hinted(())), do.Bind) == [do.Bind(S, "7-2", 1)]


def test_a_resting_pod_whose_process_died_is_forgotten_until_it_is_needed() -> None:
    mind = Mind()
    actor = mind.live()
    mind.tell(at.Rested(S, 1, actor))
    mind.tell(at.ActorLost(actor, "killed", True))
    mind.tell(at.Looked((S,), ()))
    assert mind.phase() is None
    assert S not in mind.table.deaths


def test_L05_deaths_wait_longer_and_longer_and_then_it_is_given_up() -> None:
    settings = DirectorySettings(max_restarts=3)
    deaths: tuple[float, ...] = ()
    waits = []
    for now in (10.0, 11.0, 12.0, 13.0):
        verdict = after_death(deaths, now, settings)
        deaths = verdict.deaths
        waits.append(verdict.wait)
    assert waits == [0.0, 0.2, 0.4, None]
    assert after_death(deaths, 700.0, settings).wait == 0.0  # the window has moved on


def test_L05_given_up_is_one_close_and_one_alert() -> None:
    mind = Mind(replace(SETTINGS, max_restarts=0))
    actor = mind.live()
    mind.tell(at.ActorLost(actor, "poison", True))
    out = mind.want(epoch=1)
    (close,) = of(out, do.Close)
    assert (close.kind, close.actor_id) == ("died", None)
    assert "poison" in close.cause
    assert len(of(out, do.RaiseAlert)) == 1
    assert of(mind.want(epoch=1), do.Close) == []
    mind.tell(at.CloseFailed(S, "disk full", final=False))
    assert [c.kind for c in of(mind.want(epoch=2), do.Close)] == ["died"]  # owed until it is written
    mind.tell(at.Closed(S))
    assert mind.phase() is None
    mind.ready()
    assert of(mind.want(epoch=3), do.Bind) != []  # a clean record


def test_a_failed_start_is_told_to_the_spawn_and_not_closed_by_itself() -> None:
    mind = Mind(replace(SETTINGS, max_restarts=0))
    mind.want(spawning=True, started=False)
    mind.tell(at.ActorLost("7-1", "poison", True))
    out = mind.want(epoch=1, started=False)
    assert [s.ok for s in of(out, do.Settled)] == [False]
    assert of(out, do.Close) == []
    assert [c.kind for c in of(mind.tell(at.CloseAsked(S, "failed_start", "poison")), do.Close)] == ["failed_start"]


def test_a_spawn_whose_child_died_after_its_task_was_committed_has_succeeded() -> None:
    mind = Mind()
    mind.want(spawning=True, started=False)
    mind.tell(at.ActorLost("7-1", "killed", True))
    assert of(mind.want(epoch=1, started=True), do.Settled) == [do.Settled(S, True)]


@pytest.mark.parametrize(
    ("code", "phase", "kinds"),
    [
        ("store", Phase.LOOKING, [do.Look]),
        ("stale_epoch", Phase.LOOKING, [do.Look]),
        ("unknown_session", None, [do.Settled]),
        ("store_damaged", None, [do.Settled, do.RaiseAlert, do.TellParent]),
        ("settings", Phase.CLOSING, [do.RaiseAlert, do.Close]),
        ("host", Phase.LOOKING, [do.Look]),
    ],
)
def test_what_a_refused_bind_leads_to(code: str, phase: Phase | None, kinds: list[type]) -> None:
    mind = Mind()
    mind.want()
    out = mind.tell(at.BindRefused(S, "7-1", code, "no"))
    assert mind.phase() is phase
    assert [type(a) for a in out if not isinstance(a, do.StartActor | do.EndActor)] == kinds


def test_a_damaged_session_is_not_tried_again() -> None:
    mind = Mind()
    mind.want()
    mind.tell(at.BindRefused(S, "7-1", "store_damaged", "seq 4"))
    assert of(mind.want(), do.Bind) == []
    assert of(mind.want(T), do.Bind) != []


def test_a_silent_actor_is_ended_but_not_when_the_directory_slept_itself() -> None:
    mind = Mind()
    actor = mind.live()
    mind.tell(at.Tick(), 1.0)
    assert of(mind.tell(at.Tick(), 30.0), do.EndActor) == []  # it was the Directory that slept
    for _ in range(5):
        out = mind.tell(at.Tick(), 1.0)
    assert actor in [a.actor_id for a in of(out, do.EndActor)] or mind.table.actors[actor].phase == "ending"


def test_L08_a_pod_at_work_for_long_is_left_alone() -> None:
    mind = Mind()
    actor = mind.live()
    mind.ready()
    for _ in range(300):
        for other in mind.table.actors.values():
            mind.tell(at.Beat(other.actor_id, (at.Holding(S, 1),) if other.actor_id == actor else ()), 0.0)
        assert of(mind.tell(at.Tick(), 1.0), do.EndActor) == []
    assert mind.phase() is Phase.LIVE


def test_an_actor_that_holds_what_is_placed_elsewhere_is_told_to_drop_it() -> None:
    mind = Mind()
    mind.live()
    mind.ready()
    assert strangers(mind.table, "7-2", [at.Holding(S, 1)]) == [S]
    assert strangers(mind.table, "7-1", [at.Holding(S, 1)]) == []


def test_a_session_that_heartbeats_do_not_name_is_looked_for() -> None:
    mind = Mind()
    actor = mind.live()
    outs = [mind.tell(at.Beat(actor, ())) for _ in range(3)]
    assert [of(o, do.Look) for o in outs] == [[], [], [do.Look((S,))]]


def test_an_end_that_overtakes_the_answer_to_its_bind_is_not_lost() -> None:
    mind = Mind()
    mind.want()
    mind.tell(at.Left(S, 1, "7-1", "ended"))
    out = mind.tell(at.Bound(S, "7-1", 1))
    assert of(out, do.Gone) == [do.Gone(S)]
    assert mind.phase() is None


def test_a_pod_that_the_store_refuses_over_and_over_is_not_started_without_bound() -> None:
    mind, waits = Mind(), []
    out = mind.want()
    for epoch in range(1, SETTINGS.max_restarts + 2):
        assert of(out, do.Bind) == [do.Bind(S, "7-1", epoch - 1)]
        mind.tell(at.Bound(S, "7-1", epoch))
        mind.tell(at.Left(S, epoch, "7-1", "fenced: condition_failed: it cannot be stored"))
        out = mind.want(epoch=epoch)
        for wake in of(out, do.WakeAt):
            waits.append(wake.at - mind.now)
            mind.table.actors["7-1"].last_beat = wake.at
            out = mind.tell(at.Tick(), waits[-1])
    (close,) = of(out, do.Close)
    assert "it cannot be stored" in close.cause
    assert len(waits) == SETTINGS.max_restarts - 1
    assert waits == sorted(waits)


def test_an_actor_retires_after_its_bindings() -> None:
    mind = Mind(replace(SETTINGS, retire_after=1))
    actor = mind.live()
    mind.tell(at.Left(S, 1, actor, "ended"))
    assert [a.actor_id for a in of(mind.tell(at.Tick()), do.EndActor)] == [actor]


def test_spare_actors_go_one_by_one() -> None:
    mind = Mind()
    actors = [mind.live(s) for s in (S,)]
    mind.ready()
    actors.append(mind.live(T))
    mind.ready()
    mind.tell(at.Left(S, 1, actors[0], "ended"))
    mind.tell(at.Left(T, 1, actors[1], "ended"))
    ended = []
    for _ in range(20):
        for other in mind.table.actors.values():
            other.last_beat = mind.now
        ended += of(mind.tell(at.Tick(), 1.0), do.EndActor)
    assert len(ended) == 2


def test_foreign_trees_are_left_alone() -> None:
    mind = Mind()
    mind.table.roots = {"mine"}
    assert of(mind.want(root="theirs"), do.Bind) == []
    assert of(mind.want(T, root="mine"), do.Bind) != []


def test_a_lease_of_an_earlier_directory_is_waited_out() -> None:
    mind = Mind()
    mind.table.leases_until = mind.now + 5.0
    assert of(mind.want(owned=True, epoch=2), do.Bind) == []
    assert of(mind.want(T, owned=False, epoch=2), do.Bind) == [do.Bind(T, "7-1", 2)]
