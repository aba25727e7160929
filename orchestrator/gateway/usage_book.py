"""The folds that usage reports are made of, kept so that the next report reads only what is new."""

from __future__ import annotations

from collections import OrderedDict

from orchestrator.gateway.feed import Feed
from orchestrator.usage import UsageFold
from session_store.errors import StoreDamaged, UnreadableEntry
from session_store.requests import Read
from session_store.rows import PodRow

PAGE = 500
KEPT = 5_000
"""Sessions whose folds are kept."""


class UsageBook:
    """Folds by session."""

    def __init__(self) -> None:
        self._folds: OrderedDict[str, UsageFold] = OrderedDict()

    async def of(self, feed: Feed, row: PodRow) -> UsageFold | None:
        """Up to the head that `row` names at least; None when the log is damaged."""
        fold = self._folds.get(row.id)
        if fold is None or fold.head > row.head:
            fold = UsageFold()
        try:
            while fold.head < row.head:
                found = await feed.ask(Read(row.id, fold.head, PAGE))
                if not found.entries:
                    break
                # Someone else may have read on meanwhile: what is known already is left out.
                fold.take(entry for entry in found.entries if entry.seq > fold.head)
        except (StoreDamaged, UnreadableEntry):
            self._folds.pop(row.id, None)
            return None
        self._folds[row.id] = fold
        self._folds.move_to_end(row.id)
        while len(self._folds) > KEPT:
            self._folds.popitem(last=False)
        return fold
