"""The Ray shells of the extractor: a small pool of detached actors, and the side from which sessions are offered.

A session always meets the same actor of the pool, by a hash of its id. The actors are started by the first offer (or by
the owner of the home, some seconds after its start), restarted by Ray without limit, and then look again at
all their sessions (in an embedded home: at those of its own trees).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from actors.extractor.driver import Extractor
from actors.extractor.ports import ExtractorParts
from actors.protocol.alerts import Alert, Level, shortened
from session_store.codec import prepare, to_plain
from session_store.errors import StoreError
from session_store.items import Json

NAMESPACE = "polypod"
PREFIX = "extractor-"
POOL = 2
"""Extractor actors of a home or cluster. They mostly wait for a model."""
MAX_CALLS = 10_000

log = logging.getLogger("polypod.extractor")


@dataclass(frozen=True, slots=True)
class ExtractorSetup:
    """Goes to the actor by pickle; `factory()` makes its parts there."""

    factory: Callable[[], ExtractorParts]
    pool: int = POOL


def place(session: str, pool: int) -> int:
    """Which actor of the pool a session meets."""
    return zlib.crc32(session.encode()) % pool


class ExtractorActor:
    """Number `number` of the pool. Created detached, with `max_restarts=-1`, `num_cpus=0`."""

    def __init__(self, number: int, setup: ExtractorSetup) -> None:
        prepare()
        self._number = number
        self._pool = setup.pool
        self._extractor = Extractor(setup.factory())
        self._sweep = asyncio.get_running_loop().create_task(self._look_everywhere())

    async def offer(self, session: str) -> None:
        """A hint; returns at once."""
        self._extractor.offer(session)

    async def look(self, session: str) -> None:
        """Returns when nothing is due in the session, or its extraction failed."""
        await self._extractor.look(session)

    async def fix(self, session: str, through: int) -> None:
        """See `Extractor.fix`."""
        await self._extractor.fix(session, through)

    async def busy(self) -> dict[str, Json]:
        """`{"sessions": [...]}` that are looked at now, and the process id."""
        return {"sessions": list(self._extractor.busy), "pid": os.getpid()}

    async def _look_everywhere(self) -> None:
        try:
            await self._extractor.sweep(lambda session: place(session, self._pool) == self._number)
        except (StoreError, OSError) as error:
            log.warning("sessions that were offered to a dead extractor wait for their next rest: %s", error)


class RayExtractors:
    """The pool as Pods and owners see it. Calls to `offer` never block, fail or wait; an offer may be lost."""

    def __init__(self, setup: ExtractorSetup) -> None:
        self._setup = setup
        self._handles: dict[int, Any] = {}

    def offer(self, session: str) -> None:
        """On an event loop. Finding or starting an actor takes up to some tens of milliseconds: in a thread."""
        asyncio.get_running_loop().run_in_executor(None, self._offer, session)

    def start(self) -> None:
        """Have all of the pool started; does not wait for them. One that cannot be is tried again by its next offer."""
        for number in range(self._setup.pool):
            try:
                self._handle(number)
            except (RayError, ValueError) as error:
                log.warning("extractor %d did not start: %s", number, error)

    async def fix(self, session: str, through: int, limit: float) -> bool:
        """Before a rotation; whether the range was fixed (or nothing due) within `limit` seconds."""
        number = place(session, self._setup.pool)
        try:
            handle = await asyncio.to_thread(self._handle, number)
            await asyncio.wait_for(handle.fix.remote(session, through), limit)
        except (RayError, ValueError, TimeoutError):
            self._handles.pop(number, None)
            return False
        return True

    def look(self, sessions: Iterable[str], limit: float) -> int:
        """Have these looked at, for at most `limit` seconds; how many are not done then. Blocks."""
        calls = []
        for session in sessions:
            try:
                calls.append(self._handle(place(session, self._setup.pool)).look.remote(session))
            except (RayError, ValueError):
                self._handles.clear()
        _, left = ray.wait(calls, num_returns=len(calls), timeout=limit) if calls else ([], [])
        return len(left)

    def _offer(self, session: str) -> None:
        number = place(session, self._setup.pool)
        try:
            self._handle(number).offer.remote(session)
        except (RayError, ValueError) as error:
            self._handles.pop(number, None)
            log.info("an offer of session %s was lost: %s", session, error)

    def _handle(self, number: int) -> Any:
        if number not in self._handles:
            remote = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0, max_concurrency=MAX_CALLS)(
                ExtractorActor
            )
            self._handles[number] = remote.options(
                name=f"{PREFIX}{number}", namespace=NAMESPACE, lifetime="detached", get_if_exists=True
            ).remote(number, self._setup)
        return self._handles[number]


class DirectoryAlerts:
    """Implements `Alerts`: the Directory keeps what people are told beside its own."""

    def __init__(self, directory: str) -> None:
        self._name = directory
        self._handle: Any = None

    async def tell(self, session: str, level: Level, code: str, message: str) -> None:
        log.warning("%s", message)
        try:
            if self._handle is None:
                self._handle = await asyncio.to_thread(ray.get_actor, self._name, namespace=NAMESPACE)
            alert_id = f"{session}:extraction:{os.urandom(6).hex()}"
            alert = Alert(alert_id, level, code, shortened(message), time.time_ns() // 1_000_000, session)
            self._handle.alert.remote([to_plain(alert)])
        except (RayError, ValueError) as error:
            self._handle = None
            log.info("nobody was told of it: %s", error)
