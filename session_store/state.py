"""One session as the store holds it while it decides: what a catalogue row says, plus its inbox.

`SessionState` is the only mutable thing the transactions work on. A backend makes it from its rows, keeps it, and
writes it back in the transaction that changed it; it never outlives a commit that failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from session_store import status
from session_store.codec import to_plain
from session_store.items import Json
from session_store.messages import Message
from session_store.rows import MessageState, PodRow, Scope
from session_store.status import Status, StatusFold

MessagePlace: TypeAlias = Literal["pending", "consumed", "undeliverable"]


@dataclass(frozen=True, slots=True)
class Batch:
    """The last append of a session and its answer, for the retry after a lost acknowledgement."""

    batch_id: str
    first_seq: int
    head: int
    ts: int
    cascaded: tuple[str, ...] = ()
    wakes: int = 0


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """What is kept of a message for ever. `seq` is the head after the commit that consumed it."""

    position: int
    place: MessagePlace
    seq: int = 0


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """Who took a question (a message id) and how it was closed; both None while it is open and free."""

    taken_by: str | None = None
    how: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """What follows from log and inbox together and is looked up by it in the catalogue."""

    status: Status
    needs_owner: bool
    waiting_on_person: bool


@dataclass(slots=True)
class SessionState:
    """`history_head` is the seq of the last entry that is no annotation, `rewound` that of the last `rewound`.

    `opened_by` is the Directory epoch of the lease; `untouched` is True from `open` to the first append under it.
    `position` is the last inbox place given. `wakes` counts on the root of a tree only.
    """

    id: str
    tenant: str
    message_id: str
    name: str
    parent_id: str | None
    root_id: str
    depth: int
    detached: bool
    scope: Scope | None
    config: dict[str, Json]
    no: int = 0
    epoch: int = 0
    owned: bool = False
    opened_by: int = 0
    untouched: bool = False
    open: bool = False
    history_head: int = 0
    rewound: int = 0
    position: int = 0
    children: int = 0
    wakes: int = 0
    batch: Batch | None = None
    begun: tuple[int, int] = (0, 0)
    """Seq of the last reply with calls and when they began; kept in memory only (`session_store.counting`)."""
    fold: StatusFold = field(default_factory=StatusFold)
    inbox: dict[str, Message] = field(default_factory=dict)

    @property
    def head(self) -> int:
        return self.fold.head

    @property
    def messages(self) -> tuple[Message, ...]:
        """All unconsumed messages, in inbox order."""
        return tuple(self.inbox.values())

    def messages_after(self, position: int) -> tuple[Message, ...]:
        return tuple(m for m in self.inbox.values() if m.position > position)

    def summary(self) -> Summary:
        inbox = self.messages
        now = status.status(self.fold, inbox)
        return Summary(now, status.needs_owner(self.fold, inbox), now == "waiting_on_user")

    @property
    def status(self) -> Status:
        return status.status(self.fold, self.messages)


def pod_row(state: SessionState, summary: Summary, queue: int) -> PodRow:
    """The catalogue's view of a session. `queue` counts its unconsumed messages."""
    fold = state.fold
    return PodRow(
        id=state.id,
        tenant=state.tenant,
        name=state.name,
        parent_id=state.parent_id,
        root_id=state.root_id,
        depth=state.depth,
        detached=state.detached,
        status=summary.status,
        epoch=state.epoch,
        owned=state.owned,
        open=state.open,
        head=fold.head,
        run_id=fold.run_id,
        run_seq=fold.run_seq,
        outcome=fold.outcome,
        error=None if fold.error is None else to_plain(fold.error),
        question=None if fold.question is None else to_plain(fold.question),
        question_ts=0 if fold.question is None else fold.question.ts,
        waits_for=fold.waits_for,
        queue=queue,
        children=state.children,
        requests=fold.requests,
        input=fold.input,
        cache_read=fold.cache_read,
        cache_write=fold.cache_write,
        output=fold.output,
        config=state.config,
        scope=state.scope,
        created_at=fold.created_at,
        updated_at=fold.updated_at,
        run_open=fold.run_open,
    )


def message_state(session: str, record: MessageRecord | None) -> MessageState:
    if record is None:
        return MessageState(None, None)
    return MessageState(session, record.place, record.seq)
