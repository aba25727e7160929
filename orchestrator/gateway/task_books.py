"""The task lists that somebody asked for lately, so that looking again costs what is new in the log, not the log."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from actors.protocol.task_log import TaskFold
from actors.protocol.tasks import TaskList
from session_store.entries import LogEntry

Pages = Callable[[str, int], AsyncIterator[Sequence[LogEntry]]]
"""The entries of a session after a seq, some at a time. Raises what the store refuses."""
KEPT = 64


@dataclass(slots=True)
class _Book:
    fold: TaskFold = field(default_factory=TaskFold)
    seq: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class TaskBooks:
    """One fold for each of the last `KEPT` sessions."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._books: OrderedDict[str, _Book] = OrderedDict()

    async def look(self, session: str) -> tuple[TaskList, int]:
        """The list as the log tells it now, and the seq of the last entry that was read."""
        book = self._books.setdefault(session, _Book())
        self._books.move_to_end(session)
        if len(self._books) > KEPT:
            self._books.popitem(last=False)
        async with book.lock:
            async for page in self._pages(session, book.seq):
                for entry in page:
                    book.fold.apply(entry)
                    book.seq = entry.seq
            return book.fold.now.tasks, book.seq
