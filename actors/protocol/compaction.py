"""Compaction: the port that makes a shorter history, and the record of each attempt in the log.

The record is `extension{domain: "compaction"}`: of a success in the commit that begins the new segment, of a failure
alone. All that a Pod needs to know of earlier attempts is folded from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from pydantic import ValidationError

from session_store.codec import from_plain, to_plain
from session_store.entries import Extension
from session_store.items import HistoryItem, Problem, SystemItem

DOMAIN = "compaction"

Trigger: TypeAlias = Literal["rest", "request", "overflow", "order"]
"""Why: a threshold between runs, or between requests; a provider that found the request too long; a person."""

NO_PROGRESS = "no_progress"
"""`type` of the error when nothing would be gained: what must be kept is too large, or there is nothing else."""


@dataclass(frozen=True, slots=True)
class CompactionOrder:
    """A history to be made shorter. Sizes are tokens.

    `frame` is the estimate for system prompt and tools, `occupancy` what the next request would have, `limit` what it
    must stay under (0: only under `occupancy`). Kept as they are: the prompts of `pinned` (message ids) with what they
    brought along, and everything from the assistant entry `question` on, if a question is open. `tasks` is the snapshot
    to begin with, `children` one line for each, `seen` the files that were touched, the last one last. `through` is the
    seq that the history reaches to.
    """

    compaction_id: str
    session: str
    trigger: Trigger
    history: tuple[HistoryItem, ...]
    frame: int
    occupancy: int
    limit: int = 0
    pinned: frozenset[str] = frozenset()
    question: int | None = None
    tasks: SystemItem | None = None
    children: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    through: int = 0


@dataclass(frozen=True, slots=True)
class ShorterHistory:
    """`items` begin the new segment; `after` is the estimate for a request with them. `summarised` counts the items
    that the summary stands for, `retained` those that were kept."""

    items: tuple[HistoryItem, ...]
    after: int
    summarised: int
    retained: int


class CompactionError(Exception):
    """There is no shorter history. `type`: `no_progress`, `no_summary`, `timeout`, `prompt`, `store_unavailable`,
    `internal`, or that of the model's error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.type = kind
        self.message = message


class Compactor(Protocol):
    """Makes shorter histories for one Pod."""

    async def compact(self, order: CompactionOrder) -> ShorterHistory:
        """Bounded in time, cancellable at any await. Raises `CompactionError`."""


@dataclass(frozen=True, slots=True)
class CompactionRecord:
    """One attempt. `before`, `limit`: as in its order; `after` None: it failed, and `error` says why. `orders`: ids of
    the messages that asked for it, which this commit consumes."""

    compaction_id: str
    trigger: Trigger
    before: int
    limit: int = 0
    after: int | None = None
    summarised: int = 0
    retained: int = 0
    error: Problem | None = None
    orders: tuple[str, ...] = ()

    def entry(self) -> Extension:
        return Extension(DOMAIN, to_plain(self))


def read_record(entry: Extension) -> CompactionRecord | None:
    """What the entry says; None if it is of another domain or malformed."""
    if entry.domain != DOMAIN:
        return None
    try:
        return from_plain(CompactionRecord, entry.payload)
    except ValidationError:
        return None
