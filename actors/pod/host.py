"""Many Pods in one process: opens, restores, runs and lets go of sessions. No Ray; `actor.py` is the shell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from actors.pod import stimuli as st
from actors.pod.children import StoreChildren
from actors.pod.driver import PodDriver, PodParts
from actors.pod.facts import pod_facts
from actors.pod.ports import HostParts
from actors.pod.turn import TurnMachine
from actors.protocol.config import PodConfig
from actors.protocol.live import LiveEvent
from actors.protocol.model import Model, ModelError, UnusableModel
from session_store.codec import decode_entry, prepare
from session_store.entries import LogEntry
from session_store.errors import Refused, StoreUnavailable, UnreadableEntry
from session_store.requests import Lease, Open, PodLimits, Query, Read
from session_store.restore import restore

PARK_LIMIT = 2.0
"""Seconds an unbind may take before the actor counts as unclean (DESIGN §4)."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A bind's answer: the epoch taken, or why not (`code` of a refusal, or `settings`, `store`)."""

    epoch: int = 0
    code: str = ""
    message: str = ""

    @property
    def ok(self) -> bool:
        return not self.code


@dataclass(frozen=True, slots=True)
class Held:
    """One session this host runs. `resting`: seconds at rest so far, None while at work."""

    session: str
    epoch: int
    resting: float | None


class PodHost:
    """All that a Pod owns hangs on its driver; nothing process-wide is touched."""

    def __init__(self, parts: HostParts) -> None:
        self._parts = parts
        self._drivers: dict[str, PodDriver] = {}
        self._runs: dict[str, asyncio.Task[None]] = {}
        self.bindings = 0
        self.tainted = ""
        """Why this process should not be used again; empty while it is clean."""

    async def warm(self) -> None:
        """Reach the store and build the decoders once, before a Pod waits for it."""
        prepare()
        with suppress(StoreUnavailable, Refused):  # whoever binds a Pod meets the same and tells
            await self._parts.store.execute(Query(ids=("-",), limit=1))

    async def bind(self, session: str, directory_epoch: int, replaces: int | None) -> Bound:
        """Take the session's next epoch, restore it and run it; returns once the Pod has settled."""
        self.bindings += 1
        try:
            lease, entries = await self._open(session, directory_epoch, replaces)
            driver = self._restore(lease, entries)
        except Refused as error:
            return Bound(code=error.code, message=error.message)
        except StoreUnavailable as error:
            return Bound(code="store", message=str(error))
        except UnreadableEntry as error:
            return Bound(code="store_damaged", message=str(error))
        except ModelError as error:
            return Bound(code="settings", message=error.message)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            return Bound(code="store_damaged", message=f"the config is malformed at {first['loc']}: {first['msg']}")
        self._drivers[session] = driver
        self._runs[session] = asyncio.create_task(self._run(session, driver))
        await asyncio.shield(driver.settled)
        return Bound(lease.epoch)

    async def unbind(self, session: str) -> tuple[bool, str]:
        """Ask the Pod to give its lease up. (parked?, why not)"""
        driver, run = self._drivers.get(session), self._runs.get(session)
        if driver is None or run is None:
            return True, ""
        driver.post(st.ParkingAsked())
        for _ in range(2):
            done, _pending = await asyncio.wait([run], timeout=PARK_LIMIT / 2)
            if done:
                return True, ""
            if driver.resting_since is None:
                return False, "at work"
        return False, "not clean"

    async def drop(self, session: str, reason: str) -> None:
        """Stop the session here at once, tool processes first; the store is not asked."""
        driver, run = self._drivers.get(session), self._runs.get(session)
        if driver is not None and run is not None:
            driver.lose(reason)
            await asyncio.wait([run], timeout=PARK_LIMIT)

    def hint(self, sessions: Iterable[str]) -> list[str]:
        """Have these look at their inboxes; returns those not held here."""
        strangers = []
        for session in sessions:
            driver = self._drivers.get(session)
            if driver is None:
                strangers.append(session)
            else:
                driver.hint()
        return strangers

    async def watch(self, session: str, cursor: int, wait: float) -> tuple[int, int, tuple[LiveEvent, ...]]:
        """(generation, cursor, live events after `cursor`), waiting up to `wait` s; generation 0: not held here."""
        driver = self._drivers.get(session)
        if driver is None:
            return 0, 0, ()
        await driver.live.wait(cursor, wait)
        if self._drivers.get(session) is not driver:
            return 0, 0, ()  # parked, or gone, meanwhile
        reached, events = driver.live.since(cursor)
        return driver.machine.state.who.generation, reached, events

    def held(self) -> list[Held]:
        now = self._parts.clock.monotonic()
        return [
            Held(s, d.machine.state.who.generation, None if d.resting_since is None else now - d.resting_since)
            for s, d in list(self._drivers.items())  # one step: the heartbeat thread looks too
        ]

    async def close(self) -> None:
        for session in list(self._drivers):
            await self.drop(session, "the actor ends")
        await self._parts.close()

    async def _open(self, session: str, directory_epoch: int, replaces: int | None) -> tuple[Lease, list[LogEntry]]:
        """Take the lease and read the log side by side; what was written in between is read after."""
        store = self._parts.store
        lease, found = await asyncio.gather(
            store.execute(Open(session, directory_epoch, replaces)), store.execute(Read(session))
        )
        stored = list(found.entries)
        if not stored or stored[-1].seq < lease.head:
            stored += (await store.execute(Read(session, len(stored)))).entries
        return lease, [decode_entry(e.body, e.seq, e.ts) for e in stored]

    def _restore(self, lease: Lease, entries: list[LogEntry]) -> PodDriver:
        state = restore(entries)
        config = PodConfig.read(state.history.config)
        facts = pod_facts(entries, config.parent_id)
        limits = PodLimits(config.max_depth, config.max_children)
        children = StoreChildren(lease.session, self._parts.store, self._parts.directory, limits)
        toolbox = self._parts.toolbox(config, children)
        references = self._parts.references(config)
        parts = PodParts(
            self._model(config),
            toolbox,
            references,
            self._parts.compactor(config, references),
            Path(config.workspace),
            Path(self._parts.spill_folder(lease.session)),
            tuple(Path(p) for p in self._parts.forbidden()),
            tuple(Path(p) for p in self._parts.hidden()),
        )
        return PodDriver(TurnMachine(config, state, facts, lease, toolbox.idempotent), self._parts, parts)

    def _model(self, config: PodConfig) -> Model:
        try:
            return self._parts.model(config.model)
        except ModelError as error:
            return UnusableModel(config.model.name, error)

    async def _run(self, session: str, driver: PodDriver) -> None:
        reason = "fenced: its shell was cut off"
        try:
            quit_order = await driver.run()
            reason = f"fenced: {quit_order.detail}" if quit_order.reason == "fenced" else quit_order.reason
        except Exception as error:  # our own defect: this process is not to be trusted any more
            self.tainted, reason = f"{type(error).__name__}: {error}", "tainted"
        finally:
            if not driver.settled.done():
                driver.settled.set_result(None)
            if self._drivers.get(session) is driver:
                del self._drivers[session], self._runs[session]
            driver.live.end()
            epoch = driver.machine.state.who.generation
            await self._parts.directory.left(session, epoch, reason)
