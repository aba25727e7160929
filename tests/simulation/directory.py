"""A tiny Directory: binds sessions that want a Pod, passes hints on, sweeps, parks; and is mistaken at times."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

from actors.pod import stimuli as st
from actors.pod.transitions import Phase
from orchestrator.directory.closing import closing_commit, pod_state
from session_store.errors import Refused
from session_store.requests import Append, ClaimDirectory, Open, Query
from tests.simulation.pod import Incarnation
from tests.simulation.world import World

SWEEP_MS = 1000


class Directory:
    """`live` is what it believes; `processes` are all shells that run, superseded ones too."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.live: dict[str, Incarnation] = {}
        self.processes: list[Incarnation] = []
        self.epoch = 0
        self.opened = 0
        self._binding: set[str] = set()
        self._deaths: Counter[str] = Counter()
        self._max_restarts = world.rng.choice((1, 2, 5))
        world.hint = self.hint
        self.restart()
        self._sweep_later()

    def restart(self) -> None:
        """Dies and starts: takes an epoch, adopts the shells that hold the newest lease of their session."""
        self.epoch = self.world.execute(ClaimDirectory()).epoch
        self._binding = set()
        self.processes = [p for p in self.processes if p.alive]
        self.live = {p.session: p for p in self.processes if p.epoch == self.world.row(p.session).epoch}

    def hint(self, sessions: tuple[str, ...]) -> None:
        """A wake-up: it may be lost, late or doubled."""
        for session in sessions:
            for _ in range(self.world.rng.choice((1, 1, 1, 2)) if not self.world.chance(0.2) else 0):
                self.world.later(f"hint {session[-4:]}", lambda s=session: self._hinted(s))

    def _hinted(self, session: str) -> None:
        pod = self.live.get(session)
        if pod is not None and pod.alive:
            pod.poll()
        else:
            self._bind_if_wanted(session)

    def _sweep_later(self) -> None:
        self.world.later("sweep", self._sweep, after=SWEEP_MS, recurring=True)

    def _sweep(self) -> None:
        self.sweep()
        self._sweep_later()

    def sweep(self) -> None:
        """Everything that wants a Pod and has none, and every live Pod with messages."""
        for row in self.world.store.execute(Query(needs_owner=True, limit=1000)).rows:
            pod = self.live.get(row.id)
            if pod is None or not pod.alive:
                self._bind_if_wanted(row.id)
            elif row.queue:
                pod.poll()

    def _bind_if_wanted(self, session: str) -> None:
        wanted = self.world.store.execute(Query(ids=(session,), needs_owner=True)).rows
        if wanted and session not in self._binding:  # the binds of one session come one after the other
            self._binding.add(session)
            replaces, epoch = wanted[0].epoch, self.epoch
            self.world.later(f"open {session[-4:]}", lambda: self._open(session, replaces, epoch))

    def _open(self, session: str, replaces: int, directory_epoch: int) -> None:
        if directory_epoch == self.epoch:
            self._binding.discard(session)
        try:
            lease = self.world.execute(Open(session, directory_epoch, replaces))
            if self.world.chance(0.05):  # the answer is lost, the same request sent again
                lease = self.world.execute(Open(session, directory_epoch, replaces))
        except Refused:
            return
        if self.world.chance(0.03):
            return  # the process that should have taken it dies; the sweep tries again
        self.opened += 1
        pod = Incarnation(self.world, lease, self._left)
        self.live[session] = pod
        self.processes.append(pod)

    def _left(self, pod: Incarnation, reason: str) -> None:
        if self.live.get(pod.session) is pod:
            del self.live[pod.session]
        self._bind_if_wanted(pod.session)

    # --- what goes wrong, and parking ---

    def replace(self, pod: Incarnation) -> None:
        """It believes a Pod dead that runs on: the next epoch is opened beside it."""
        row = self.world.row(pod.session)
        if row.epoch == pod.epoch and row.status != "ended" and pod.session not in self._binding:
            self._open(pod.session, pod.epoch, self.epoch)
            if self.world.rng.random() < 0.3:
                self.world.later(f"{pod.tag} hears of it", lambda: pod.feed(st.LeaseLost("superseded")), owner=pod)

    def crash(self, pod: Incarnation) -> None:
        pod.crash()
        if self.live.get(pod.session) is pod:
            del self.live[pod.session]
        self._deaths[pod.session] += 1
        gives_up = self._deaths[pod.session] % self._max_restarts == 0
        known = self._give_up if gives_up else self._bind_if_wanted
        self.world.later(f"death of {pod.tag} known", lambda: known(pod.session))

    def _give_up(self, session: str) -> None:
        """End what the Pod cannot end itself, under the next epoch, as the real Directory does (law 10)."""
        row = self.world.row(session)
        if session in self._binding or session in self.live or row.status == "ended":
            return
        self.world.say(f"the Directory gives {row.name} up")
        lease = self.world.execute(Open(session, self.epoch, row.epoch))
        state = pod_state(lease, list(self.world.references[session].entries))
        commit = closing_commit(state, "died", "It died too often.", self.world.token("closing"))
        if commit is not None:
            append = commit.append(self.world.token("batch"), lease.head, state.cursor)
            values = [getattr(append, f.name) for f in fields(append)]
            self.world.execute(Append(session, lease.epoch, values[1], values[0], *values[2:]))
        self.world.hint((session, row.parent_id or session))

    def park(self, pod: Incarnation) -> None:
        if pod.phase is not Phase.NEW:
            pod.feed(st.ParkingAsked())
