"""The compactor of one Pod: plan, summary, files read again, and the items of the new segment. No Ray.

Nothing it does changes a log: the Pod commits what comes of it, or not. Only the worker's tokens are recorded at once,
since they are spent whatever becomes of its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from actors.compactor.plan import Plan, attached_paths, plan
from actors.compactor.prompt import instructions
from actors.compactor.transcript import transcript
from actors.compactor.worker import Task, budget, summarise
from actors.protocol.compaction import NO_PROGRESS, CompactionError, CompactionOrder, ShorterHistory
from actors.protocol.config import CompactionRule
from actors.protocol.ids import Ids
from actors.protocol.model import Model, ModelError
from actors.protocol.references import References
from actors.protocol.sizes import in_tokens, item_bytes
from actors.protocol.system_items.summary import SUMMARY, Summary
from actors.protocol.usage import NEVER_REFUSED, WorkerUsage
from session_store.errors import Refused, StoreUnavailable
from session_store.items import HistoryItem, Segment, SystemMessage
from session_store.requests import Annotate, AsyncStore

FILES = 5
"""Files that are read again, of those touched last."""
FILES_LIMIT = 10.0
"""Seconds that reading them may take; a disk that hangs costs the files, not the compaction."""


class PromptUnreadable(Exception):
    """The person's own instructions cannot be read; says which and why."""


class Prompt(Protocol):
    def __call__(self) -> str:
        """The worker's instructions, read anew each time. Raises `PromptUnreadable`."""


@dataclass(frozen=True, slots=True)
class CompactorParts:
    """`model()` is the worker's model (raises `ModelError`)."""

    store: AsyncStore
    references: References
    ids: Ids
    rule: CompactionRule
    model: Callable[[], Model]
    prompt: Prompt


class SessionCompactor:
    """Implements `Compactor`."""

    def __init__(self, parts: CompactorParts) -> None:
        self._parts = parts

    async def compact(self, order: CompactionOrder) -> ShorterHistory:
        planned = plan(order, self._parts.rule.retained_tokens)
        limit = self._parts.rule.timeout
        try:
            async with asyncio.timeout(limit):
                text = await self._summary(order, planned)
        except TimeoutError:
            raise CompactionError("timeout", f"the summary was not there after {limit:g} s") from None
        files = await self._files(order, planned)
        return shorter(order, planned, text, files)

    async def _summary(self, order: CompactionOrder, planned: Plan) -> str:
        try:
            prompt = instructions(self._parts.prompt(), planned.summary_size)
        except PromptUnreadable as error:
            raise CompactionError("prompt", str(error)) from None
        try:
            model = self._parts.model()
        except ModelError as error:
            raise CompactionError(error.type, error.message) from None
        shown = transcript(planned.summarised, budget(model, prompt))
        mark = self._parts.ids.token()
        name = f"{order.compaction_id}-{mark}"

        async def spent(usage: WorkerUsage) -> None:
            annotation = Annotate(order.session, usage.entry(), usage.request_id, NEVER_REFUSED)
            try:
                await self._parts.store.execute(annotation)
            except (StoreUnavailable, Refused) as error:
                raise CompactionError("store_unavailable", str(error)) from error

        return await summarise(model, Task(order.session, name, mark, prompt, shown, planned.summary_size), spent)

    async def _files(self, order: CompactionOrder, planned: Plan) -> tuple[HistoryItem, ...]:
        """What was touched last, as it is now, as far as it fits; what cannot be read is left out."""
        recent = list(reversed(order.seen))[:FILES]
        if not recent or planned.file_size <= 0:
            return ()
        segments = [Segment("file_ref", f"@{path}", {"path": path}) for path in recent]
        try:
            async with asyncio.timeout(FILES_LIMIT):
                found = await self._parts.references.resolve(order.compaction_id, segments)
        except TimeoutError:
            return ()
        shown, room, taken = set(attached_paths(planned.kept)), planned.file_size, []
        for item in map(SystemMessage, found.attachments):
            size = in_tokens(item_bytes(item))
            if size <= room and item.item.payload.get("path") not in shown:
                taken.append(item)
                room -= size
        return tuple(taken)


def shorter(order: CompactionOrder, planned: Plan, text: str, files: tuple[HistoryItem, ...]) -> ShorterHistory:
    """The items that begin the new segment: tasks, summary, files, then what was kept. Raises `CompactionError`."""
    again = set(attached_paths(files))
    gone = tuple(path for path in planned.attached if path not in again)
    item = SUMMARY.item(f"summary:{order.compaction_id}", Summary(text, order.through, gone, order.children))
    head: list[HistoryItem] = [] if order.tasks is None else [SystemMessage(order.tasks)]
    summary = SystemMessage(item)
    after = planned.kept_size + in_tokens(sum(map(item_bytes, (summary, *files))))
    if after >= planned.goal:
        words = f"the shorter history would have about {after} tokens, of {planned.goal} that there may be"
        raise CompactionError(NO_PROGRESS, words)
    items = (*head, summary, *files, *planned.kept)
    return ShorterHistory(items, after, len(planned.summarised), len(planned.kept))
