"""The Directory's asyncio body: tells facts to `decide`, carries its actions out, answers callers. No Ray."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from actors.protocol.alerts import Alert
from actors.protocol.ids import Clock
from orchestrator.directory import actions as do
from orchestrator.directory import facts as at
from orchestrator.directory.alerts import AlertBook
from orchestrator.directory.closer import CloseFailure, close_session
from orchestrator.directory.closing import unreadable
from orchestrator.directory.decide import decide, strangers
from orchestrator.directory.ports import HostGone, Hosts
from orchestrator.directory.roots import RootsFile
from orchestrator.directory.settings import LEASE_MARGIN, DirectorySettings
from orchestrator.directory.state import Phase, Table
from session_store.codec import to_plain
from session_store.errors import Refused, StoreUnavailable
from session_store.items import Json
from session_store.requests import AsyncStore, ClaimDirectory, Deliver, PodRow, Query

TICK = 0.25
SHOWN_ALERTS = 200
"""Alerts of the control plane's counts."""
PAGE = 500

T = TypeVar("T")
Listeners: TypeAlias = dict[str, set[asyncio.Future[T]]]

log = logging.getLogger("polypod.directory")


class DirectoryService:
    """One Directory. `start` before anything else; every other call waits for it."""

    def __init__(
        self,
        store: AsyncStore,
        hosts: Hosts,
        settings: DirectorySettings,
        clock: Clock,
        roots: RootsFile | None = None,
    ) -> None:
        """`roots` None: every tree goes on here."""
        self.store = store
        self.settings = settings
        self.clock = clock
        self.table = Table(settings, epoch=0)
        self.alerts = AlertBook()
        self._hosts = hosts
        self._roots = roots
        self._ready = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._settled: Listeners[do.Settled] = {}
        self._moved: Listeners[None] = {}
        self._killed: set[str] = set()

    async def start(self) -> None:
        """Take an epoch, adopt what lives, line up what needs a Pod, fill the pool."""
        found = await self._hosts.found()
        held = tuple(h.session for f in found for h in f.held)
        self.table.epoch = (await self.store.execute(ClaimDirectory(self._hosts.alone(), held))).epoch
        self.alerts.begin(self.table.epoch)
        self.table.roots = None if self._roots is None else self._roots.load()
        now = self.clock.monotonic()
        if not self._hosts.alone():
            self.table.leases_until = now + self.settings.lease + LEASE_MARGIN
        rows = {r.id: r for r in await self._rows(Query(ids=held))}
        for actor in found:
            rightful = tuple(h for h in actor.held if _is_current(rows.get(h.session), h.epoch))
            self.feed(at.Adopted(actor.actor_id, rightful, actor.bindings, actor.tainted))
            for h in set(actor.held) - set(rightful):
                self._spawn(self._drop(do.Drop(h.session, actor.actor_id)))
            self._spawn(self._watch(actor.actor_id))
        self._ready.set()
        self._spawn(self._tick())
        self._spawn(self._sweep())

    async def close(self) -> None:
        """Stop all loops; actors are left alone."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=1.0)

    async def ready(self) -> None:
        await self._ready.wait()

    def feed(self, fact: at.Fact) -> None:
        """Tell a fact, and set about what follows from it."""
        for action in decide(self.table, fact, self.clock.monotonic()):
            self._carry_out(action)

    def beat(self, actor_id: str, held: tuple[at.Holding, ...]) -> list[str]:
        """A heartbeat: the sessions that the actor must drop. Raises `LookupError` for an actor nobody knows."""
        if actor_id not in self.table.actors:
            self._spawn(self._end_stranger(actor_id))
            raise LookupError(f"actor {actor_id} is not one of this Directory's: it takes no work")
        self.feed(at.Beat(actor_id, held))
        return strangers(self.table, actor_id, held)

    @contextmanager
    def next_start(self, session: str) -> Iterator[asyncio.Future[do.Settled]]:
        """How the session's next start goes, as long as the block lasts."""
        with _listening(self._settled, session) as future:
            yield future

    @contextmanager
    def next_move(self, session: str) -> Iterator[asyncio.Future[None]]:
        """Done when the session is bound or let go of next."""
        with _listening(self._moved, session) as future:
            yield future

    def adopt_root(self, root: str) -> None:
        """Go on with this tree too."""
        if self._roots is not None and self.table.roots is not None and root not in self.table.roots:
            self._roots.add(root)
            self.table.roots.add(root)

    async def row(self, session: str) -> PodRow | None:
        rows = await self._rows(Query(ids=(session,), limit=1))
        return rows[0] if rows else None

    async def rows(self, query: Query) -> list[PodRow]:
        return await self._rows(query)

    def where(self, session: str) -> tuple[str | None, int]:
        """The actor that runs the session and its generation; (None, 0) while none does."""
        placement = self.table.placements.get(session)
        if placement is None or placement.phase not in (Phase.LIVE, Phase.PARKING):
            return None, 0
        return placement.actor_id, placement.epoch

    def top(self) -> dict[str, Json]:
        """Counts and alerts, for people and metrics."""
        actors, placements = self.table.actors.values(), self.table.placements.values()
        phases = {str(phase): sum(p.phase is phase for p in placements) for phase in Phase}
        return {
            "epoch": self.table.epoch,
            "actors": {phase: sum(a.phase == phase for a in actors) for phase in ("starting", "ready", "ending")},
            "pool": sum(a.phase == "ready" and not a.sessions for a in actors),
            "pods": phases,
            "restarts": self.table.restarts,
            "given_up": self.table.given_up,
            "blocked": dict(self.table.blocked),
            "raised": [[level, code, number] for (level, code), number in self.alerts.raised.items()],
            "alerts": [to_plain(alert) for alert in self.alerts.since(0)[1][-SHOWN_ALERTS:]],
        }

    def _carry_out(self, action: do.Action) -> None:
        work: Coroutine[Any, Any, None]
        match action:
            case do.StartActor(actor_id):
                work = self._start_actor(actor_id)
            case do.EndActor():
                work = self._end_actor(action)
            case do.Bind():
                work = self._bind(action)
            case do.Unbind():
                work = self._unbind(action)
            case do.Drop():
                work = self._drop(action)
            case do.PassHint():
                work = self._pass_hint(action)
            case do.Look(sessions):
                work = self._look(sessions)
            case do.Close():
                work = self._close(action)
            case do.TellParent():
                work = self._tell_parent(action)
            case do.Settled(session):
                _answer(self._settled, session, action)
                _answer(self._moved, session, None)
                return
            case do.Gone(session):
                _answer(self._moved, session, None)
                return
            case do.RaiseAlert():
                self.alert(action)
                return
            case do.WakeAt(when):
                wait = max(0.0, when - self.clock.monotonic())
                asyncio.get_running_loop().call_later(wait, self.feed, at.Tick())
                return
        self._spawn(work)

    async def _start_actor(self, actor_id: str) -> None:
        try:
            await self._hosts.start(actor_id)
        except HostGone as error:
            await self._hosts.kill(actor_id)
            self.feed(at.ActorLost(actor_id, str(error), proven=True))
            return
        self.feed(at.ActorReady(actor_id))
        await self._watch(actor_id)

    async def _watch(self, actor_id: str) -> None:
        death = await self._hosts.death(actor_id)
        if actor_id not in self._killed:
            self.feed(at.ActorLost(actor_id, death.cause, death.proven))

    async def _end_actor(self, action: do.EndActor) -> None:
        await self._kill(action.actor_id, action.reason)

    async def _kill(self, actor_id: str, reason: str) -> bool:
        """Whoever kills tells of the loss: what Ray says after a kill is no proof of death."""
        self._killed.add(actor_id)
        proven = await self._hosts.kill(actor_id)
        self.feed(at.ActorLost(actor_id, reason, proven))
        self._killed.discard(actor_id)
        return proven

    async def _end_stranger(self, actor_id: str) -> None:
        """An actor that an earlier Directory was just starting when it died: nobody else would end it."""
        await self._hosts.kill(actor_id)

    async def _bind(self, action: do.Bind) -> None:
        session, actor_id = action.session, action.actor_id
        try:
            async with asyncio.timeout(self.settings.start_timeout):
                reply = await self._hosts.bind(actor_id, session, self.table.epoch, action.replaces)
        except HostGone:
            return  # its death is told by whoever watches it
        except TimeoutError:
            await self._kill(actor_id, f"binding {session} took over {self.settings.start_timeout:g} s")
            return
        if reply["ok"]:
            self.feed(at.Bound(session, actor_id, int(reply["epoch"])))
        else:
            self.feed(at.BindRefused(session, actor_id, str(reply["code"]), str(reply["message"])))

    async def _unbind(self, action: do.Unbind) -> None:
        session, actor_id = action.session, action.actor_id
        try:
            async with asyncio.timeout(self.settings.unbind_timeout + 1.0):
                reply = await self._hosts.unbind(actor_id, session)
        except HostGone:
            return
        except TimeoutError:
            self.feed(at.Unbound(session, actor_id, parked=False, clean=False))
            return
        clean = bool(reply["clean"]) and reply.get("reason") != "not clean"
        self.feed(at.Unbound(session, actor_id, bool(reply["parked"]), clean))

    async def _drop(self, action: do.Drop) -> None:
        with suppress(HostGone, TimeoutError):
            async with asyncio.timeout(self.settings.lease):
                await self._hosts.drop(action.actor_id, action.session, "it is placed elsewhere")

    async def _pass_hint(self, action: do.PassHint) -> None:
        try:
            unknown = await self._hosts.hint(action.actor_id, action.sessions)
        except HostGone:
            return  # a hint may be lost
        if unknown:
            self.feed(at.NotHeld(action.actor_id, tuple(unknown)))

    async def _look(self, sessions: tuple[str, ...]) -> None:
        try:
            wants = await self._wants(Query(ids=sessions, needs_owner=True, limit=PAGE))
        except (StoreUnavailable, Refused) as error:
            log.warning("the catalogue could not be asked: %s", error)
            return  # the sweep asks again
        self.feed(at.Looked(sessions, wants))

    async def _close(self, action: do.Close) -> None:
        session = action.session
        if action.actor_id is not None:
            await self._evict(action)
        await asyncio.sleep(max(0.0, action.not_before - self.clock.monotonic()))
        try:
            hints = await close_session(self.store, session, self.table.epoch, action.kind, action.cause)
        except CloseFailure as error:
            self.feed(at.CloseFailed(session, error.message, error.final))
            return
        self.feed(at.Closed(session))
        if hints:
            self.feed(at.Hinted(hints))

    async def _tell_parent(self, action: do.TellParent) -> None:
        row = await self.row(action.session)
        if row is not None and row.parent_id is not None:
            await self.store.execute(Deliver(row.parent_id, unreadable(row, action.code, action.message)))
            self.feed(at.Hinted((row.parent_id,)))

    async def _evict(self, action: do.Close) -> None:
        """Have the actor let go of the session: asked first, then by force."""
        actor_id = action.actor_id or ""
        actor = self.table.actors.get(actor_id)
        last_beat = self.clock.monotonic() if actor is None else actor.last_beat
        if not action.kill:
            with suppress(HostGone, TimeoutError):
                async with asyncio.timeout(self.settings.unbind_timeout + 1.0):
                    if await self._hosts.drop(actor_id, action.session, action.cause):
                        return
        if not await self._kill(actor_id, f"it would not let go of {action.session}"):
            await asyncio.sleep(last_beat + self.settings.lease + LEASE_MARGIN - self.clock.monotonic())

    async def _tick(self) -> None:
        while True:
            try:
                self.feed(at.Tick())
            except Exception:  # a defect of ours must not end what sees silent actors
                log.exception("a tick failed")
            await asyncio.sleep(TICK)

    async def _sweep(self) -> None:
        """Whatever hint was lost: sessions that need a Pod and have none are found here."""
        while True:
            asked = tuple(p.session for p in self.table.placements.values() if p.phase is Phase.LOOKING)
            try:
                wants = await self._wants(Query(needs_owner=True, limit=PAGE))
                self.feed(at.Looked(asked, wants))
            except (StoreUnavailable, Refused) as error:
                log.warning("the sweep got no answer: %s", error)
            except Exception:  # a defect of ours must not end what finds every lost hint
                log.exception("a sweep failed")
            await asyncio.sleep(self.settings.sweep)

    async def _wants(self, query: Query) -> tuple[at.Want, ...]:
        rows = await self._rows(query)
        return tuple(at.Want(r.id, r.root_id, r.epoch, r.owned, r.run_id is not None) for r in rows)

    async def _rows(self, query: Query) -> list[PodRow]:
        """All pages. Raises `StoreUnavailable` or `Refused`."""
        rows: list[PodRow] = []
        cursor: str | None = None
        while query.ids is None or query.ids:
            page = await self.store.execute(replace(query, cursor=cursor))
            rows += page.rows
            cursor = page.next
            if cursor is None or len(rows) >= query.limit < PAGE:
                break
        return rows

    def alert(self, action: do.RaiseAlert) -> None:
        """Tell people: in the log of this process, and to whoever asks `top`."""
        level = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}[action.level]
        log.log(level, "%s %s: %s", action.code, action.session, action.message)
        about = action.session or None
        now = self.clock.now_ms()
        self.alerts.add((Alert(self.alerts.next_id(), action.level, action.code, action.message, now, about),))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of the Directory failed", exc_info=error)


def _is_current(row: PodRow | None, epoch: int) -> bool:
    return row is not None and row.owned and row.epoch == epoch


@contextmanager
def _listening(listeners: Listeners[T], session: str) -> Iterator[asyncio.Future[T]]:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    mine = listeners.setdefault(session, set())
    mine.add(future)
    try:
        yield future
    finally:
        mine.discard(future)
        if not mine and listeners.get(session) is mine:
            del listeners[session]


def _answer(listeners: Listeners[T], session: str, value: T) -> None:
    for future in listeners.get(session, ()):
        if not future.done():
            future.set_result(value)
