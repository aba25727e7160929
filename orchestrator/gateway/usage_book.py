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
REQUESTS_KEPT = 500_000
"""Requests that all kept folds together may have counted: some 130 bytes each, their ids."""


class UsageBook:
    """Folds by session; those that were asked for longest ago go first."""

    def __init__(self, requests_kept: int = REQUESTS_KEPT) -> None:
        self._requests_kept = requests_kept
        self._folds: OrderedDict[str, UsageFold] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._requests = 0

    def __len__(self) -> int:
        return len(self._folds)

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
            self._forget(row.id)
            return None
        self._keep(row.id, fold)
        return fold

    def _keep(self, session: str, fold: UsageFold) -> None:
        self._forget(session)
        self._folds[session], self._sizes[session] = fold, fold.requests
        self._requests += fold.requests
        while len(self._folds) > KEPT or (self._requests > self._requests_kept and len(self._folds) > 1):
            self._forget(next(iter(self._folds)))

    def _forget(self, session: str) -> None:
        self._folds.pop(session, None)
        self._requests -= self._sizes.pop(session, 0)
