"""What the catalogue says of a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from session_store.items import Json
from session_store.status import Status


@dataclass(frozen=True, slots=True)
class Scope:
    """Folders a Pod may read and write, absolute or relative to its workspace. Write implies read."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodRow:
    """One session in the catalogue. Times in ms. `owned`: a lease is held; `open`: it holds a place (see `Append`);
    `run_open`: a run has begun and not come to rest."""

    id: str
    tenant: str
    name: str
    parent_id: str | None
    root_id: str
    depth: int
    detached: bool
    status: Status
    epoch: int
    owned: bool
    open: bool
    head: int
    run_id: str | None
    run_seq: int
    outcome: str | None
    error: dict[str, Json] | None
    question: dict[str, Json] | None
    question_ts: int
    waits_for: tuple[str, ...]
    queue: int
    children: int
    requests: int
    input: int
    cache_read: int
    cache_write: int
    output: int
    config: dict[str, Json]
    scope: Scope | None
    created_at: int
    updated_at: int
    run_open: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """`next` is the cursor for the following page, None at the end."""

    rows: tuple[PodRow, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class CounterValues:
    """Every counter that is not 0, by its key (`session_store.counters`)."""

    values: dict[str, int]


@dataclass(frozen=True, slots=True)
class PodCount:
    """Sessions of one status and profile. `queue`: messages in their inboxes, `deepest`: in the fullest of them."""

    status: Status
    profile: str
    pods: int
    queue: int
    deepest: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Things of one kind that wait, and when the oldest began to (ms)."""

    kind: str
    number: int
    oldest: int


@dataclass(frozen=True, slots=True)
class CensusFigures:
    """`messages` by kind of message, not yet consumed; `questions` by kind of question, open and unanswered."""

    pods: tuple[PodCount, ...]
    messages: tuple[Waiting, ...]
    questions: tuple[Waiting, ...]


@dataclass(frozen=True, slots=True)
class MessageState:
    """Where a message is: `pending`, `consumed` (with the head after the consuming commit), or `undeliverable`.

    `session` is None when the id is unknown.
    """

    session: str | None
    state: Literal["pending", "consumed", "undeliverable"] | None
    seq: int = 0


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as stored: decode with `codec.decode_entry(body, seq, ts)`."""

    seq: int
    ts: int
    body: bytes
