"""What callers ask of the Directory: create a root, spawn a child, stop a Pod. Each is one thing, if asked twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from actors.protocol.ids import Ids
from actors.protocol.tools import SpawnOrder
from orchestrator.directory import facts as at
from orchestrator.directory.service import PAGE, DirectoryService
from orchestrator.directory.settings import LEASE_MARGIN, DirectorySettings
from orchestrator.pods import OrderRefused, PodFactory
from orchestrator.ports import NewPod
from session_store.errors import ConditionFailed, Refused, StoreUnavailable
from session_store.requests import Create, Created, PodRow, Query

STORE_TRIES = 5
"""How often a request is sent again while the store gives no answer."""
STORE_WAIT = 0.2
"""Seconds before the first of them; doubling."""
POLL = 0.5
"""Seconds between looks at a Pod that is being stopped, should a move go unseen."""
PARENTS_KEPT = 256

ReplyT = TypeVar("ReplyT")


class OrderFailed(Exception):
    """`code`: `invalid, limit, scope, name_taken, run_over, not-found, store, failed_start`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class MadePod:
    pod_id: str
    existed: bool


class Orders:
    """Carries orders out over a `DirectoryService`."""

    def __init__(self, service: DirectoryService, factory: PodFactory, ids: Ids) -> None:
        self._service = service
        self._factory = factory
        self._ids = ids
        self._spawns: dict[str, asyncio.Task[str]] = {}
        self._parents: dict[tuple[str, int], PodRow] = {}

    async def create_root(self, new: NewPod) -> MadePod:
        """Durable when it returns; its start is under way. Raises `OrderFailed`."""
        create = _ordered(lambda: self._factory.root(new, self._ids.session()))
        created = await self._create(create)
        if new.owner_run:
            self._service.adopt_root(created.session)
        if create.messages:
            await self._start_root(created)
        return MadePod(created.session, created.existed)

    async def spawn(self, parent: str, order: SpawnOrder) -> str:
        """The child's id once it has committed its task. The same call asked at once shares one answer (case L06).

        Raises `OrderFailed`; the child's name, place and scope are free again then (case L01).
        """
        key = str(order.key)
        task = self._spawns.get(key)
        if task is None:
            task = self._spawns[key] = asyncio.get_running_loop().create_task(self._spawn(parent, order))
            task.add_done_callback(lambda _: self._spawns.pop(key, None))
        return await asyncio.shield(task)

    async def stop(self, session: str) -> bool:
        """See a Pod and what is below it ended (its stop message is durable); whether all are.

        Bounded per level: whoever has not ended after `stop_timeout` is ended by force (case L04).
        """
        row = await self._asked(lambda: self._service.row(session))
        if row is None:
            raise OrderFailed("not-found", f"There is no Pod with the id {session}.")
        ended = await self._see_ended(session)
        for _ in range(self._service.settings.max_depth):
            tree = await self._asked(lambda: self._service.rows(Query(root=row.root_id, limit=PAGE)))
            next_ones = topmost_living(tree, session)
            if not next_ones:
                return ended
            ended &= all(await asyncio.gather(*(self._see_ended(child) for child in next_ones)))
        return ended

    async def _start_root(self, created: Created) -> None:
        row = await self._asked(lambda: self._service.row(created.session))
        if row is not None and row.status == "running":
            want = at.Want(row.id, row.root_id, row.epoch, row.owned, row.run_id is not None)
            self._service.feed(at.Looked((), (want,)))

    async def _spawn(self, parent: str, order: SpawnOrder) -> str:
        above = await self._parent(parent, order.epoch)
        create = _ordered(lambda: self._factory.child(above, order))
        created = await self._create(create)
        child: PodRow | None = None
        if created.existed:
            child = await self._asked(lambda: self._service.row(created.session))
            if child is not None and child.run_id is not None:
                return child.id
            if child is None or child.status == "ended":
                raise OrderFailed("failed_start", "The Pod did not start when it was first spawned.")
        await self._start_child(created.session, above.root_id, child)
        return created.session

    async def _parent(self, parent: str, epoch: int) -> PodRow:
        """The parent's row. What a child takes from it does not change within an epoch, so it is asked for once."""
        known = self._parents.get((parent, epoch))
        if known is None:
            known = await self._asked(lambda: self._service.row(parent))
            if known is None:
                raise OrderFailed("not-found", f"There is no Pod with the id {parent}.")
            while len(self._parents) >= PARENTS_KEPT:
                self._parents.pop(next(iter(self._parents)))
            self._parents[parent, epoch] = known
        return known

    async def _start_child(self, session: str, root: str, known: PodRow | None) -> None:
        service, limit = self._service, self._service.settings.spawn_timeout
        epoch, owned = (0, False) if known is None else (known.epoch, known.owned)
        want = at.Want(session, root, epoch, owned, started=False, spawning=True)
        cause = f"It did not take its task up within {limit:g} s."
        with service.next_start(session) as settled:
            service.feed(at.Looked((), (want,)))
            done, _ = await asyncio.wait([settled], timeout=limit)
        if done:
            start = settled.result()
            if start.ok:
                return
            cause = start.message
        await self._end_child(session, cause)

    async def _end_child(self, session: str, cause: str) -> None:
        """Give back what the failed start holds; raises `OrderFailed` unless the child took its task up after all."""
        service = self._service
        with service.next_move(session) as moved:
            service.feed(at.CloseAsked(session, "failed_start", cause))
            await asyncio.wait([moved], timeout=forced_within(service.settings))
        row = await self._asked(lambda: service.row(session))
        if row is None or row.run_id is None:
            raise OrderFailed("failed_start", f"The Pod did not start: {cause}")

    async def _see_ended(self, session: str) -> bool:
        service = self._service
        service.feed(at.Hinted((session,)))
        if await self._ended_within(session, service.settings.stop_timeout):
            return True
        cause = f"It did not stop within {service.settings.stop_timeout:g} s."
        service.feed(at.CloseAsked(session, "stopped", cause))
        return await self._ended_within(session, forced_within(service.settings))

    async def _ended_within(self, session: str, limit: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit
        while True:
            with self._service.next_move(session) as moved:
                row = await self._asked(lambda: self._service.row(session))
                if row is None or row.status == "ended":
                    return True
                left = deadline - loop.time()
                if left <= 0:
                    return False
                await asyncio.wait([moved], timeout=min(left, POLL))

    async def _create(self, create: Create) -> Created:
        try:
            return await self._asked(lambda: self._service.store.execute(create))
        except ConditionFailed as error:
            raise OrderFailed(error.reason, _sentence(error.message)) from error
        except Refused as error:
            raise OrderFailed(error.code, _sentence(error.message)) from error

    async def _asked(self, ask: Callable[[], Awaitable[ReplyT]]) -> ReplyT:
        """Ask the store again while it gives no answer: every request is safe to repeat."""
        for attempt in range(STORE_TRIES - 1):
            try:
                return await ask()
            except StoreUnavailable:
                await asyncio.sleep(STORE_WAIT * 2.0**attempt)
        try:
            return await ask()
        except StoreUnavailable as error:
            raise OrderFailed("store", f"The store gives no answer: {error}") from error


def topmost_living(tree: Sequence[PodRow], session: str) -> list[str]:
    """Pods below `session`, not through a detached one, that have not ended while all between have.

    Those are the ones that a cascade has reached: their parent's end carried the stop to them.
    """
    rows = {row.id: row for row in tree}

    def reached(row: PodRow) -> bool:
        above: PodRow | None = row
        while above is not None and not above.detached:
            if above.parent_id == session:
                return True
            above = rows.get(above.parent_id or "")
            if above is not None and above.status != "ended":
                return False
        return False

    return [row.id for row in tree if row.status != "ended" and reached(row)]


def forced_within(settings: DirectorySettings) -> float:
    """Seconds that an end by force may take: asking, killing, an old lease, and the commit."""
    return settings.unbind_timeout + settings.lease + LEASE_MARGIN + settings.stop_timeout


def _ordered(build: Callable[[], Create]) -> Create:
    try:
        return build()
    except OrderRefused as error:
        raise OrderFailed(error.code, error.message) from error


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
