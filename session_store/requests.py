"""The store protocol: one value per request, one per reply, and the port that carries them.

Each request is one transaction and idempotent: sent again after a lost answer it changes nothing and gives the same
answer. A refusal is raised as `session_store.errors.Refused` and leaves everything as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

from session_store.entries import Extension, LogEntry, SegmentStart
from session_store.messages import Message
from session_store.rows import CensusFigures, CounterValues, MessageState, PodRow, Rows, Scope, StoredEntry
from session_store.status import Status

__all__ = [
    "REQUEST_TYPES", "Annotate", "Annotated", "Append", "Appended", "AsyncStore", "Census", "ClaimDirectory", "Commit",
    "Commits", "Counters", "Create", "Created", "Deliver", "Delivered", "Delivery", "DirectoryEpoch", "EntryRange",
    "Expect", "FindMessage", "Follow", "Fork", "Import", "Lease", "MessageState", "Open", "Parent", "Pending",
    "PendingMessages", "PodLimits", "PodRow", "Query", "Read", "Release", "Released", "Request", "Rows", "Scope",
    "Store", "StoreRequest", "StoredEntry",
]  # fmt: skip

ReplyT = TypeVar("ReplyT")
ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class Request(Generic[ReplyT_co]):
    """Marker: a request whose reply is `ReplyT_co`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PodLimits:
    """What `create` reserves against: from the settings of the Directory, or narrower."""

    max_depth: int = 8
    max_children: int = 64
    max_pods: int = 1000


@dataclass(frozen=True, slots=True)
class Parent:
    """The spawning Pod's session, and its epoch and run: a create in a cancelled or ended run is refused."""

    session: str
    epoch: int
    run_id: str


@dataclass(frozen=True, slots=True)
class Created:
    session: str
    head: int
    existed: bool


@dataclass(frozen=True, slots=True)
class Create(Request[Created]):
    """A new session with its first entry and messages. Idempotent by `(tenant, message_id)`.

    With a parent it reserves name, place among the children, Pod count and write scope in the same transaction.
    Refused: `condition_failed` with reason `name_taken`, `limit`, `scope` or `run_over`; `stale_epoch`.
    """

    session: str
    tenant: str
    message_id: str
    start: SegmentStart
    messages: tuple[Message, ...] = ()
    name: str = ""
    parent: Parent | None = None
    detached: bool = False
    scope: Scope | None = None
    limits: PodLimits = field(default_factory=PodLimits)


@dataclass(frozen=True, slots=True)
class Fork(Request[Created]):
    """A new root session that begins with what another one's history was at `start.origin`; that one is not touched.

    `start` and `more` are its first entries (a copy of an open question, a snapshot of the tasks). Idempotent by
    `(tenant, message_id)`, as `create`. One that waits for an answer takes a place, as whoever waits has one. Refused:
    `unknown_session` (no such source of this tenant), `condition_failed` with reason `name_taken`, `limit` or `invalid`
    (no origin, or one beyond the source's head).
    """

    session: str
    tenant: str
    message_id: str
    start: SegmentStart
    more: tuple[LogEntry, ...] = ()
    name: str = ""
    scope: Scope | None = None
    limits: PodLimits = field(default_factory=PodLimits)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write one session. `messages` are all that are not consumed, in inbox order."""

    session: str
    epoch: int
    head: int
    messages: tuple[Message, ...]
    last_batch_id: str | None = None
    open: bool = True
    """Whether the Pod holds a place among its parent's children (see `Append.concluded`)."""


@dataclass(frozen=True, slots=True)
class Open(Request[Lease]):
    """Take the next epoch. Refused (`stale_epoch`) when `directory_epoch` is not the newest, or when `replaces` (the
    session epoch the caller knows; None: whatever it is) is not the current one."""

    session: str
    directory_epoch: int
    replaces: int | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message for another session, committed with the entries it belongs to; never refused.

    With `entry` (an index into the same append's entries) the message tells of that entry: since only the store knows
    its seq, the store makes `<session>:<seq>` the message's id and its `body.event.event_id`.
    """

    session: str
    message: Message
    entry: int | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """`first_seq` is the seq of the first entry of the batch (0 for an empty one), `ts` their common time.

    `messages` are those beyond the request's `inbox_cursor`. `cascaded` names the children that a cascade reached, and
    `wakes` counts runs of the tree started by PodEvents since a person's last message.
    """

    first_seq: int
    head: int
    ts: int
    messages: tuple[Message, ...]
    cascaded: tuple[str, ...] = ()
    wakes: int = 0


@dataclass(frozen=True, slots=True)
class Append(Request[Appended]):
    """Commit entries, what they owe others, and what they consume of the own inbox, in one transaction.

    `expected_head` = n holds when no entry after n other than annotations exists. `concluded` True gives back the
    Pod's place and write scope with this commit, unless an unconsumed prompt remains in its inbox. `cascade` delivers
    `cancel` (to undetached children that are open or at work, and past those that are neither to what is below them) or
    `stop` (to undetached children that are not ended), as listed in this very transaction, with `body.cascade = true`.
    Idempotent by `batch_id` (the last one). Refused: `stale_epoch`, `head_moved`, `conflict`, `invalid`.
    """

    session: str
    epoch: int
    expected_head: int
    batch_id: str
    entries: tuple[LogEntry, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    consumes: tuple[str, ...] = ()
    inbox_cursor: int = 0
    concluded: bool = False
    cascade: Literal["cancel", "stop"] | None = None


@dataclass(frozen=True, slots=True)
class Released:
    head: int


@dataclass(frozen=True, slots=True)
class Release(Request[Released]):
    """Give the lease up. Refused (`condition_failed`, reason `pending`) while `needs_owner` holds."""

    session: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Expect:
    """A condition on a delivery. `question_open` marks the question taken; `run` aims at a current run."""

    kind: Literal["question_open", "not_busy", "run"]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Delivered:
    """`existed`: the id was delivered before. `status` is the session's status after the delivery."""

    position: int
    existed: bool
    status: Status


@dataclass(frozen=True, slots=True)
class Deliver(Request[Delivered]):
    """A message from outside an append. Idempotent by `message.message_id`, for ever.

    A plain prompt takes an open clarify question (the store sets `body.answers`). A prompt to a concluded child takes
    its place and write scope again. A rewind is looked at by `rewinds.check_rewind`, and closes an open question for
    answers. Refused: `condition_failed` with reason `ended`, `already_answered`, `question_closed`, `unknown_choice`,
    `busy`, `not_running`, `head_moved`, `limit`, `scope`, `invalid`; `unknown_session`.
    """

    session: str
    message: Message
    expect: Expect | None = None
    limits: PodLimits = field(default_factory=PodLimits)


@dataclass(frozen=True, slots=True)
class Annotated:
    seq: int
    head: int
    existed: bool


@dataclass(frozen=True, slots=True)
class Annotate(Request[Annotated]):
    """Append an `extension` without a lease. Idempotent by (session, domain, key); refused (`condition_failed`, reason
    `rewound`) if a `rewound` entry after seq `guard` exists."""

    session: str
    extension: Extension
    key: str
    guard: int


@dataclass(frozen=True, slots=True)
class PendingMessages:
    messages: tuple[Message, ...]
    head: int


@dataclass(frozen=True, slots=True)
class Pending(Request[PendingMessages]):
    """Unconsumed messages beyond inbox position `after`."""

    session: str
    after: int = 0


@dataclass(frozen=True, slots=True)
class EntryRange:
    entries: tuple[StoredEntry, ...]
    head: int


@dataclass(frozen=True, slots=True)
class Read(Request[EntryRange]):
    """Entries with `after < seq`, oldest first, at most `limit` (0: all). Raises `store_damaged` on a gap, a wrong
    checksum, or a head that the log does not reach."""

    session: str
    after: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Import(Request[Created]):
    """A whole session from elsewhere: its log as stored, the messages it had not consumed, and its last epoch.

    A parent that is not in this store is left out. Refused: `condition_failed` with reason `conflict` (it exists),
    `name_taken` or `invalid` (with the seq).
    """

    session: str
    tenant: str
    entries: tuple[StoredEntry, ...]
    name: str = ""
    parent_id: str | None = None
    detached: bool = False
    scope: Scope | None = None
    epoch: int = 0
    inbox: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Query(Request[Rows]):
    """Catalogue rows that meet every condition given, in order of creation, at most `limit` (0: all).
    `made_by`: the message id that the session was created under. `waiting_on_person`: a question is open that nobody
    has answered yet."""

    ids: tuple[str, ...] | None = None
    tenant: str | None = None
    status: Status | None = None
    parent: str | None = None
    root: str | None = None
    name: str | None = None
    needs_owner: bool | None = None
    waiting_on_person: bool | None = None
    limit: int = 100
    cursor: str | None = None
    made_by: str | None = None


@dataclass(frozen=True, slots=True)
class FindMessage(Request[MessageState]):
    """Look a message up by its id in one session's inbox."""

    session: str
    message_id: str


@dataclass(frozen=True, slots=True)
class DirectoryEpoch:
    epoch: int


@dataclass(frozen=True, slots=True)
class ClaimDirectory(Request[DirectoryEpoch]):
    """A starting Directory takes an epoch of its own; older ones can open nothing more.

    With `alone` it knows that nobody else holds a lease: all but those of the sessions `held` are given up.
    """

    alone: bool = False
    held: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """One notice: session `session` reached `head` (or got a message, then `head` is unchanged)."""

    session: str
    head: int


@dataclass(frozen=True, slots=True)
class Commits:
    cursor: int
    commits: tuple[Commit, ...]


@dataclass(frozen=True, slots=True)
class Follow(Request[Commits]):
    """Wait up to `wait` seconds for commits beyond the store-wide `cursor` (-1: from now), newest head per session.

    Notices live in memory: a cursor older than kept gives every session once. Never holds an append lane.
    """

    cursor: int
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Counters(Request[CounterValues]):
    """What was counted of all sessions since the store was made, and by this process of it since it started."""


@dataclass(frozen=True, slots=True)
class Census(Request[CensusFigures]):
    """How many sessions of all tenants there are, and what waits in them, now."""


StoreRequest: TypeAlias = (
    Create
    | Fork
    | Open
    | Append
    | Release
    | Deliver
    | Annotate
    | Pending
    | Read
    | Query
    | FindMessage
    | Counters
    | Census
    | ClaimDirectory
    | Follow
    | Import
)


class Store(Protocol):
    """The port. A backend, its client in another process, and the fake all answer it."""

    def execute(self, request: Request[ReplyT]) -> ReplyT:
        """Carry out one request. Raises `Refused` or `StoreUnavailable`."""
        ...


class AsyncStore(Protocol):
    """The same port for those who run on an event loop."""

    async def execute(self, request: Request[ReplyT]) -> ReplyT: ...


REQUEST_TYPES: dict[str, type[Any]] = {c.__name__: c for c in get_args(StoreRequest)}
