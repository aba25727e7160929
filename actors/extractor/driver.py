"""The extractor: takes offers, folds logs, runs workers, stages what they find and moves the pointer. No Ray.

One session is worked on by one task at a time. Everything that must survive is in the log or in the staging place: a
killed extractor's successor finishes what the log says was begun. Two of them on one session write the same records
under the same keys, and the log's order says which range counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from actors.extractor.activity import FOLDED, Activity
from actors.extractor.masking import masked
from actors.extractor.ports import ExtractorParts, StagingError
from actors.extractor.prompt import instructions
from actors.extractor.ranges import Range, pointer_entry, range_entry, staging_id
from actors.extractor.schema import NOTHING, Extraction, cleaned
from actors.extractor.slices import Piece, Slicer
from actors.extractor.staging import is_staged, staged
from actors.extractor.trigger import Due, due, pause
from actors.extractor.worker import Task, WorkerFailed, budget, extract
from actors.protocol.model import Model, ModelError
from actors.protocol.usage import NEVER_REFUSED, WorkerUsage
from session_store.codec import decode_entry
from session_store.entries import Extension, Origin, SegmentStart
from session_store.errors import ConditionFailed, Refused, StoreUnavailable, UnreadableEntry
from session_store.requests import Annotate, Query, Read

PAGE = 500
"""Entries, or rows of the catalogue, in one read."""
KEPT = 2000
"""Sessions whose folds are kept between offers."""
MARKS_KEPT = 500_000
"""Requests that all kept folds together may remember: some 120 bytes each."""
SIDE_BY_SIDE = 4
"""Extractions that one extractor runs at a time."""
REWINDS_BORNE = 8
"""Rewinds after the range that may come between two looks, before the pointer is left to the next offer."""
MOST_LOOKS = 16
"""In a row that do not move the pointer: rewinds and a second extractor may cause some, only a defect that many."""

log = logging.getLogger("polypod.extractor")


class _Overtaken(Exception):
    """The range is not (or no longer) this extractor's to finish: look again."""


@dataclass(slots=True)
class _Known:
    """One session as it is known here. `not_before`: by the monotonic clock; `retry`: a look that is due then."""

    activity: Activity = field(default_factory=Activity)
    failures: int = 0
    not_before: float = 0.0
    retry: asyncio.TimerHandle | None = None
    offered: bool = False
    task: asyncio.Task[None] | None = None
    fixed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the first range of the look that goes on stands in the log, or that look has ended."""


class Extractor:
    """Runs on one event loop. `close` leaves nothing running; what was begun is finished by whoever comes next."""

    def __init__(self, parts: ExtractorParts, marks_kept: int = MARKS_KEPT) -> None:
        self._parts = parts
        self._marks_kept = marks_kept
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._places = asyncio.Semaphore(SIDE_BY_SIDE)
        self._closed = False

    @property
    def busy(self) -> tuple[str, ...]:
        """Sessions that are looked at now."""
        return tuple(session for session, known in self._known.items() if known.task is not None)

    def offer(self, session: str) -> None:
        """The session has come to rest: look at it, now or when the look that goes on has ended."""
        if self._closed or not self._parts.settings.threshold:
            return
        known = self._session(session)
        if known.task is not None:
            known.offered = True
            return
        wait = known.not_before - self._parts.clock.monotonic()
        if wait <= 0:
            self._start(session, known)
        elif known.retry is None:
            known.retry = asyncio.get_running_loop().call_later(wait, self._start, session, known)

    async def look(self, session: str) -> None:
        """The same, and wait until nothing is due (or it failed)."""
        self.offer(session)
        while (task := self._session(session).task) is not None:  # one that has ended may be followed by another
            await asyncio.wait([task])
            await asyncio.sleep(0)  # until its end is told

    async def fix(self, session: str, through: int) -> None:
        """Before a rotation of the session: returns when the range of what is due up to the entry `through` is fixed,
        or that of a look which had begun. The extraction itself goes on afterwards. Whoever waits should bound it."""
        if self._closed:
            return
        known = self._session(session)
        if known.task is None:
            self._start(session, known, through)
        await known.fixed.wait()

    async def sweep(self, mine: Callable[[str], bool]) -> None:
        """Look at every session that may have something due: offers are lost when a process dies. Of the whole store,
        or of the trees that the home's owner goes on with: nobody asked it to pay for others (DESIGN §6)."""
        if not (threshold := self._parts.settings.threshold):
            return
        roots: list[str | None] = [None] if self._parts.roots is None else list(self._parts.roots())
        for root in roots:
            await self._sweep_rows(Query(root=root, limit=PAGE), threshold, mine)

    async def _sweep_rows(self, query: Query, threshold: int, mine: Callable[[str], bool]) -> None:
        while True:
            found = await self._parts.store.execute(query)
            # Activity is at most what all requests of the session sent.
            wanted = [row.id for row in found.rows if row.input >= threshold and mine(row.id)]
            for first in range(0, len(wanted), SIDE_BY_SIDE):
                await asyncio.gather(*(self.look(session) for session in wanted[first : first + SIDE_BY_SIDE]))
            if found.next is None:
                return
            query = replace(query, cursor=found.next)

    async def close(self) -> None:
        self._closed = True
        tasks = [known.task for known in self._known.values() if known.task is not None]
        for known in self._known.values():
            if known.retry is not None:
                known.retry.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _session(self, session: str) -> _Known:
        known = self._known.setdefault(session, _Known())
        self._known.move_to_end(session)
        self._make_room(session)
        return known

    def _make_room(self, session: str) -> None:
        """Forget what was offered longest ago, but for `session`; whoever is offered again is folded anew."""
        marks = sum(known.activity.size for known in self._known.values())
        while len(self._known) > KEPT or marks > self._marks_kept:
            idle = (s for s, k in self._known.items() if k.task is None and k.retry is None and s != session)
            if (oldest := next(idle, None)) is None:
                return
            marks -= self._known.pop(oldest).activity.size

    def _start(self, session: str, known: _Known, through: int | None = None) -> None:
        known.retry = None
        if known.task is None:
            known.fixed = asyncio.Event()
            known.task = asyncio.get_running_loop().create_task(self._attend(session, known, through))
            known.task.add_done_callback(lambda _: self._attended(session, known))

    def _attended(self, session: str, known: _Known) -> None:
        """The look is over. Not part of the look itself: one that is cancelled before its first step runs none of its
        own code, and whoever waits for `fixed` would wait for ever."""
        known.task = None
        known.fixed.set()
        if known.offered:
            self.offer(session)

    async def _attend(self, session: str, known: _Known, through: int | None) -> None:
        """Extract until nothing is due. `through` is that of `fix`."""
        processed, still = -1, 0
        try:
            while True:
                known.offered = False
                wanted = await self._refresh_and_judge(session, known, through)
                still = 0 if known.activity.processed > processed else still + 1
                processed = known.activity.processed
                if wanted is not None and still > MOST_LOOKS:
                    raise WorkerFailed("no_progress", f"{still} looks in a row did not get beyond entry {processed}")
                if wanted is not None:
                    async with self._places:
                        await self._extract(session, known, wanted)
                    known.failures, known.not_before, through = 0, 0.0, None
                elif not known.offered:
                    return
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await self._failed(session, known, error)

    async def _refresh_and_judge(self, session: str, known: _Known, through: int | None) -> Due | None:
        await self._refresh(session, known)
        while known.activity.voided:
            gone = known.activity.voided[-1]
            await self._parts.staging.remove(staging_id(session, gone.start, gone.end))
            known.activity.voided.pop()
        return due(known.activity, self._parts.settings.threshold, through)

    async def _refresh(self, session: str, known: _Known) -> None:
        """Take what is new of the log; only what the fold looks at is decoded."""
        activity = known.activity
        while True:
            found = await self._parts.store.execute(Read(session, activity.head, PAGE))
            for entry in found.entries:
                if any(word in entry.body for word in FOLDED):
                    decoded = decode_entry(entry.body, entry.seq, entry.ts)
                    activity.apply(decoded)
                    if isinstance(decoded, SegmentStart) and entry.seq == 1 and decoded.origin is not None:
                        await self._go_on_from(activity, decoded.origin)
                activity.head = entry.seq
            if len(found.entries) < PAGE:
                return

    async def _go_on_from(self, fork: Activity, origin: Origin | None) -> None:
        """A fork's activity begins at its origin's occupancy (case X07), or, if that has sent no request yet, at
        that of the origin's own. Where it cannot be read (not imported along, damaged) the fork's first request
        is what later ones are compared with."""
        try:
            while origin is not None:
                source, origin = await self._as_of(origin)
                if source.occupancy is not None:
                    fork.goes_on_from(source.occupancy)
                    return
        except (Refused, UnreadableEntry):
            return

    async def _as_of(self, origin: Origin) -> tuple[Activity, Origin | None]:
        """The activity of a session up to that entry, and what the session is itself a fork of."""
        source, above = Activity(), None
        while source.head < origin.seq:
            found = await self._parts.store.execute(
                Read(origin.session, source.head, min(PAGE, origin.seq - source.head))
            )
            for entry in found.entries:
                if any(word in entry.body for word in FOLDED):
                    decoded = decode_entry(entry.body, entry.seq, entry.ts)
                    source.apply(decoded)
                    if entry.seq == 1 and isinstance(decoded, SegmentStart):
                        above = decoded.origin
                source.head = entry.seq
            if not found.entries:
                break
        return source, above

    async def _extract(self, session: str, known: _Known, wanted: Due) -> None:
        """One range: fix it, find or make its file, move the pointer."""
        try:
            if wanted.fixed is not None and await self._lies_there(session, wanted.fixed):
                await self._point(session, known, wanted.fixed)
                return
            model = self._parts.model(known.activity.config)
            prompt = instructions(self._parts.prompt(), self._parts.settings.language)
            room = budget(model, prompt, self._parts.settings.max_input_tokens)
            piece = await self._slice(session, known, wanted, room)
            this = wanted.fixed or await self._fix(session, known, Range(wanted.start, piece.end, wanted.through))
            known.fixed.set()
            extraction = await self._ask(session, this, model, (prompt, piece.text)) if piece.text else NOTHING
            await self._refresh(session, known)
            if known.activity.open != this:
                raise _Overtaken
            data = staged(session, this, cleaned(extraction, self._mask))
            await self._parts.staging.write(staging_id(session, this.start, this.end), data)
            await self._point(session, known, this)
        except _Overtaken:
            return

    async def _lies_there(self, session: str, this: Range) -> bool:
        data = await self._parts.staging.read(staging_id(session, this.start, this.end))
        return data is not None and is_staged(data, session, this)

    async def _slice(self, session: str, known: _Known, wanted: Due, room: int) -> Piece:
        """What the worker is shown: of a fixed range all, else as much as fits."""
        end = wanted.through if wanted.fixed is None else wanted.fixed.end
        slicer = Slicer(room, self._mask, keep_whole=wanted.fixed is not None)
        after = wanted.start - 1
        while after < end and not slicer.full:
            found = await self._parts.store.execute(Read(session, after, min(PAGE, end - after)))
            for entry in found.entries:
                if not known.activity.removed(entry.seq):
                    slicer.take(decode_entry(entry.body, entry.seq, entry.ts))
            if not found.entries:
                break
            after = found.entries[-1].seq
        return slicer.piece(end)

    async def _fix(self, session: str, known: _Known, this: Range) -> Range:
        """Have the range in the log before anything is made of it. Raises `_Overtaken`."""
        key = staging_id(session, this.start, this.end)
        try:
            await self._annotate(session, range_entry(this), key, known.activity.head)
        except ConditionFailed:
            raise _Overtaken from None
        await self._refresh(session, known)
        if known.activity.open != this:
            raise _Overtaken
        return this

    async def _ask(self, session: str, this: Range, model: Model, shown: tuple[str, str]) -> Extraction:
        async def spent(usage: WorkerUsage) -> None:
            await self._annotate(session, usage.entry(), usage.request_id, NEVER_REFUSED)

        prompt, text = shown
        name = staging_id(session, this.start, this.end)
        return await extract(model, Task(session, name, self._parts.ids.token(), prompt, text), spent)

    async def _point(self, session: str, known: _Known, this: Range) -> None:
        """Move the pointer behind the range. If a rewind took the range's entries away, its file goes too."""
        key = staging_id(session, this.start, this.end)
        for _ in range(REWINDS_BORNE):
            await self._refresh(session, known)
            if known.activity.open != this:
                if known.activity.processed < this.end:
                    await self._parts.staging.remove(key)
                return
            try:
                await self._annotate(session, pointer_entry(session, this), key, known.activity.head)
                return
            except ConditionFailed:  # rewound since: whether that touched the range, the next look says
                continue

    async def _annotate(self, session: str, extension: Extension, key: str, guard: int) -> None:
        await self._parts.store.execute(Annotate(session, extension, key, guard))

    def _mask(self, text: str) -> str:
        return masked(self._parts.mask(text))

    async def _failed(self, session: str, known: _Known, error: Exception) -> None:
        """Tell people, and leave the session alone for a while. Nothing is staged, the pointer has not moved."""
        known.failures += 1
        wait = pause(known.failures, self._parts.settings.first_pause)
        known.not_before = self._parts.clock.monotonic() + wait
        code, why = _reason(error)
        if code == "internal":
            log.exception("extraction of session %s failed", session, exc_info=error)
            known.activity = Activity()
        message = (
            f"The memory extraction of session {session} failed: {why}. Nothing was staged. The same entries are tried"
            f" again when the session next rests, at the earliest in {wait:.0f} s."
        )
        await self._parts.alerts.tell(session, "warning", f"memory-{code.replace('_', '-')}", message)


def _reason(error: Exception) -> tuple[str, str]:
    """(code, in words)"""
    match error:
        case WorkerFailed() | ModelError():
            return error.type, error.message.rstrip(".")
        case StagingError():
            return "staging", str(error)
        case UnreadableEntry():
            return "store_damaged", f"its log is damaged at entry {error.seq}: {error.reason}"
        case Refused():
            return error.code, error.message.rstrip(".")
        case StoreUnavailable():
            return "store_unavailable", str(error)
        case _:
            return "internal", f"{type(error).__name__}: {error}"
