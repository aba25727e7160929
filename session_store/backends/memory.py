"""The reference: a store in plain dictionaries. It is the fake of the unit tests and the disk of the simulator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from session_store import rules
from session_store.backends.census import taken_census
from session_store.counters import total
from session_store.counting import refusal
from session_store.errors import Refused
from session_store.messages import Message
from session_store.notices import Notices
from session_store.requests import (
    Census,
    Commit,
    Commits,
    Counters,
    EntryRange,
    FindMessage,
    Follow,
    Pending,
    PendingMessages,
    Query,
    Read,
    ReplyT,
    Request,
    StoredEntry,
)
from session_store.rows import CounterValues, MessageState, PodRow, Rows
from session_store.state import (
    MessagePlace,
    MessageRecord,
    QuestionRecord,
    SessionState,
    Summary,
    message_state,
    pod_row,
)
from session_store.tables import ChildRow
from session_store.transactions import perform


@dataclass(slots=True)
class _Kept:
    """All rows of one session."""

    state: SessionState
    log: list[StoredEntry] = field(default_factory=list)
    messages: dict[str, MessageRecord] = field(default_factory=dict)
    questions: dict[str, QuestionRecord] = field(default_factory=dict)
    annotations: dict[tuple[str, str], int] = field(default_factory=dict)


class MemoryTables:
    """`Tables` over dictionaries. Nothing is undone: a transaction checks before it writes."""

    def __init__(self) -> None:
        self.sessions: dict[str, _Kept] = {}
        self.touched: dict[str, int] = {}
        self._made: dict[tuple[str, str], str] = {}
        self._strays: dict[tuple[str, str], Message] = {}
        self._directory_epoch = 0
        self.counts: dict[str, int] = {}

    def find(self, session: str) -> SessionState | None:
        kept = self.sessions.get(session)
        return None if kept is None else kept.state

    def made_by(self, tenant: str, message_id: str) -> str | None:
        return self._made.get((tenant, message_id))

    def add(self, state: SessionState) -> None:
        state.no = len(self.sessions) + 1
        self.sessions[state.id] = _Kept(state)
        self._made[state.tenant, state.message_id] = state.id

    def save(self, state: SessionState) -> None:
        self.touched[state.id] = state.head

    def add_entries(self, state: SessionState, rows: Sequence[StoredEntry]) -> None:
        self.sessions[state.id].log.extend(rows)

    def entry(self, state: SessionState, seq: int) -> StoredEntry:
        return self.sessions[state.id].log[seq - 1]

    def note_child(self, state: SessionState, pod_id: str) -> None:
        pass  # the fold is the row

    def message(self, state: SessionState, message_id: str) -> MessageRecord | None:
        return self.sessions[state.id].messages.get(message_id)

    def add_message(self, state: SessionState, message: Message, place: MessagePlace, seq: int = 0) -> None:
        self.sessions[state.id].messages[message.message_id] = MessageRecord(message.position, place, seq)

    def move_messages(self, state: SessionState, messages: Sequence[Message], place: MessagePlace, seq: int) -> None:
        for message in messages:
            self.add_message(state, message, place, seq)

    def add_stray(self, session: str, message: Message) -> None:
        self._strays.setdefault((session, message.message_id), message)

    def has_stray(self, session: str, message_id: str) -> bool:
        return (session, message_id) in self._strays

    def question(self, state: SessionState, question_id: str) -> QuestionRecord | None:
        return self.sessions[state.id].questions.get(question_id)

    def put_question(self, state: SessionState, question_id: str, record: QuestionRecord) -> None:
        self.sessions[state.id].questions[question_id] = record

    def annotation(self, state: SessionState, domain: str, key: str) -> int | None:
        return self.sessions[state.id].annotations.get((domain, key))

    def put_annotation(self, state: SessionState, domain: str, key: str, seq: int) -> None:
        self.sessions[state.id].annotations[domain, key] = seq

    def children(self, parent_id: str, *, open_only: bool) -> Sequence[ChildRow]:
        return [
            ChildRow(s.id, s.detached, s.open, s.fold.ended, s.scope, rules.workspace_of(s))
            for s in self.states()
            if s.parent_id == parent_id and (s.open if open_only else not s.fold.ended)
        ]

    def name_taken(self, tenant: str, parent_id: str | None, name: str) -> bool:
        wanted = (tenant, parent_id, name)
        return any((s.tenant, s.parent_id, s.name) == wanted and not s.fold.ended for s in self.states())

    def open_pods(self) -> int:
        return sum(s.open for s in self.states())

    def release_all_but(self, held: frozenset[str]) -> None:
        for session, kept in self.sessions.items():
            kept.state.owned = kept.state.owned and session in held

    def count(self, key: str, more: int) -> None:
        total({key: more}, self.counts)

    def directory_epoch(self) -> int:
        return self._directory_epoch

    def put_directory_epoch(self, epoch: int) -> None:
        self._directory_epoch = epoch

    def states(self) -> Iterator[SessionState]:
        return (kept.state for kept in self.sessions.values())


class MemoryStore:
    """A `Store` whose object is the durable state: keep it, and everything else may die.

    `now_ms` is the only clock it knows. `Follow` answers at once, whatever its `wait`.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._tables = MemoryTables()
        self._notices = Notices()
        self._one_at_a_time = threading.RLock()

    def execute(self, request: Request[ReplyT]) -> ReplyT:
        """Carry out one request. Raises `Refused`."""
        with self._one_at_a_time:
            reply: Any = self._answer(request)
        return reply  # type: ignore[no-any-return]  # the request names its reply's type

    def _answer(self, request: Request[Any]) -> Any:
        match request:
            case Pending():
                state = rules.needed(self._tables, request.session)
                return PendingMessages(state.messages_after(request.after), state.head)
            case Read():
                return self._read(request)
            case Query():
                return self._query(request)
            case FindMessage():
                return self._find_message(request)
            case Follow():
                return self._follow(request)
            case Counters():
                return CounterValues(dict(self._tables.counts))
            case Census():
                return taken_census(self._tables.states())
            case _:
                self._tables.touched = {}
                try:
                    reply = perform(self._tables, request, self._now_ms())
                except Refused as error:
                    self._tables.count(refusal(request, error), 1)
                    raise
                self._notices.publish(Commit(s, h) for s, h in self._tables.touched.items())
                return reply

    def _read(self, request: Read) -> EntryRange:
        state = rules.needed(self._tables, request.session)
        log = self._tables.sessions[state.id].log
        first = max(0, request.after)
        end = first + request.limit if request.limit else None
        return EntryRange(tuple(log[first:end]), state.head)

    def _find_message(self, request: FindMessage) -> MessageState:
        kept = self._tables.sessions.get(request.session)
        if kept is None and self._tables.has_stray(request.session, request.message_id):
            return MessageState(request.session, "undeliverable")
        record = None if kept is None else kept.messages.get(request.message_id)
        return message_state(request.session, record)

    def _query(self, request: Query) -> Rows:
        after = int(request.cursor or 0)
        rows: list[tuple[int, PodRow]] = []
        for state in self._tables.states():
            if state.no <= after:
                continue
            summary = state.summary()
            if not _meets(state, summary, request):
                continue
            if request.limit and len(rows) == request.limit:
                return Rows(tuple(row for _, row in rows), next=str(rows[-1][0]))
            rows.append((state.no, pod_row(state, summary, len(state.inbox))))
        return Rows(tuple(row for _, row in rows))

    def _follow(self, request: Follow) -> Commits:
        found = self._notices.wait(request.cursor, 0)
        if found is not None:
            return found
        return Commits(self._notices.cursor, tuple(Commit(s.id, s.head) for s in self._tables.states()))


def _meets(state: SessionState, summary: Summary, request: Query) -> bool:
    pairs = (
        (request.tenant, state.tenant),
        (request.status, summary.status),
        (request.parent, state.parent_id),
        (request.root, state.root_id),
        (request.name, state.name),
        (request.made_by, state.message_id),
        (request.needs_owner, summary.needs_owner),
        (request.waiting_on_person, summary.waiting_on_person),
    )
    return (request.ids is None or state.id in request.ids) and all(w is None or w == is_ for w, is_ in pairs)
