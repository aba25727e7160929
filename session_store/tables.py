"""What the transactions need of a backend: rows found and rows written, inside one open transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from session_store.messages import Message
from session_store.requests import StoredEntry
from session_store.rows import Scope
from session_store.state import MessagePlace, MessageRecord, QuestionRecord, SessionState


@dataclass(frozen=True, slots=True)
class ChildRow:
    """What limits, scopes and cascades look at. `workspace` is where relative paths of `scope` start."""

    id: str
    detached: bool
    open: bool
    ended: bool
    scope: Scope | None
    workspace: str


class Tables(Protocol):
    """Every method takes part in the transaction that is open. `find` gives the same object for the same id."""

    def find(self, session: str) -> SessionState | None:
        """The session, or None. Raises `StoreDamaged` when it is there and cannot be read."""

    def made_by(self, tenant: str, message_id: str) -> str | None:
        """The session that `(tenant, message_id)` created."""

    def add(self, state: SessionState) -> None:
        """Add a session; gives it its `no`, the order of creation."""

    def save(self, state: SessionState) -> None:
        """Write back what changed in `state` itself (not entries and messages) and note it for the followers."""

    def add_entries(self, state: SessionState, rows: Sequence[StoredEntry]) -> None: ...

    def entry(self, state: SessionState, seq: int) -> StoredEntry:
        """One entry of the log; `seq` from 1 to the head. Raises `StoreDamaged` when it cannot be read."""

    def note_child(self, state: SessionState, pod_id: str) -> None:
        """Write back `state.fold.child_events[pod_id]`."""

    def message(self, state: SessionState, message_id: str) -> MessageRecord | None: ...

    def add_message(self, state: SessionState, message: Message, place: MessagePlace, seq: int = 0) -> None: ...

    def move_messages(self, state: SessionState, messages: Sequence[Message], place: MessagePlace, seq: int) -> None:
        """Take pending messages out of the inbox."""

    def add_stray(self, session: str, message: Message) -> None:
        """Keep a delivery whose session is not in this store (or cannot be read). The same id again changes nothing."""

    def question(self, state: SessionState, question_id: str) -> QuestionRecord | None: ...

    def put_question(self, state: SessionState, question_id: str, record: QuestionRecord) -> None: ...

    def annotation(self, state: SessionState, domain: str, key: str) -> int | None:
        """The seq of the annotation with that key."""

    def put_annotation(self, state: SessionState, domain: str, key: str, seq: int) -> None: ...

    def children(self, parent_id: str, *, open_only: bool) -> Sequence[ChildRow]:
        """Children that hold a place, or all that are not ended; in order of creation."""

    def name_taken(self, tenant: str, parent_id: str | None, name: str) -> bool:
        """Whether a sibling that is not ended (without a parent: a root of the tenant) has the name."""

    def open_pods(self) -> int:
        """How many sessions of the store hold a place."""

    def release_all_but(self, held: frozenset[str]) -> None:
        """Give up every lease, except those of the sessions `held`."""

    def count(self, key: str, more: int) -> None:
        """Add to a counter (`session_store.counters`): kept if the transaction is, undone with it."""

    def directory_epoch(self) -> int: ...

    def put_directory_epoch(self, epoch: int) -> None: ...
