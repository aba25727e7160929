"""`Tables` over the writing connection, with the sessions in use kept in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from session_store import rules
from session_store.backends.packing import (
    PLACES,
    message_of,
    pack_batch,
    pack_fold,
    pack_scope,
    session_state,
    unpack_fold,
    unpack_scope,
)
from session_store.backends.sqlite_counters import CounterRows
from session_store.backends.sqlite_rows import (
    SELECT_PENDING,
    SELECT_SESSIONS,
    checked_head,
    config_of,
    damage_of,
    derive_fold,
    read_rows,
)
from session_store.backends.sqlite_schema import PLACE_BITS, PLACE_MASK, is_damage
from session_store.codec import decode_entry, pack, to_plain
from session_store.entries import Rewound
from session_store.messages import Message
from session_store.requests import StoredEntry
from session_store.state import MessagePlace, MessageRecord, QuestionRecord, SessionState
from session_store.status import ChildEvent
from session_store.tables import ChildRow

KEPT_SESSIONS = 4_096

_ADD_SESSION = (
    "INSERT INTO sessions (id, tenant, message_id, name, parent_id, root_id, depth, detached, epoch, owned, opened_by,"
    " untouched, head, history_head, rewound, position, children, wakes, queue, open, ended, status, needs_owner,"
    " profile) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'idle', 0, ?)"
)
_SAVE = (
    "UPDATE sessions SET epoch = ?, owned = ?, opened_by = ?, untouched = ?, head = ?, history_head = ?, rewound = ?,"
    " position = ?, children = ?, wakes = ?, queue = ?, batch = ?, fold = ? WHERE no = ?"
)
_SAVE_MARKS = "UPDATE sessions SET open = ?, ended = ?, status = ?, needs_owner = ? WHERE no = ?"


class SqliteTables:
    """One transaction after another on one connection.

    `begin` and `end` frame a request; what a failed one had written is taken back by `undo`, and after it (or after a
    failed commit) nothing kept in memory is trusted: `forget`.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._kept: dict[str, SessionState] = {}
        self._marks: dict[int, tuple[object, ...]] = {}
        self._wrote = False
        self._savepoints = False
        self.touched: dict[str, int] = {}
        self.counters = CounterRows(connection)

    # --- the frame of a request -----------------------------------------------------------------

    def begin(self, *, savepoint: bool) -> None:
        """A request starts. With `savepoint` it can be undone without undoing those before it."""
        self._wrote, self._savepoints = False, savepoint
        self.counters.begin()

    def end(self) -> None:
        if self._wrote and self._savepoints:
            self._db.execute("RELEASE request")
        self.counters.end()

    def undo(self) -> bool:
        """Take back what the request wrote. False if only the whole transaction can be taken back."""
        if not self._wrote:
            return True
        self.forget()
        if not self._savepoints or not self._db.in_transaction:
            return False
        self._db.execute("ROLLBACK TO request")
        self._db.execute("RELEASE request")
        return True

    def forget(self) -> None:
        self._kept.clear()
        self._marks.clear()

    def trim(self) -> None:
        """Between transactions: bound what is kept."""
        if len(self._kept) > KEPT_SESSIONS:
            self.forget()

    def _write(self, sql: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        if not self._wrote:
            self._wrote = True
            if self._savepoints:
                self._db.execute("SAVEPOINT request")
        return self._db.execute(sql, values)

    # --- sessions -------------------------------------------------------------------------------

    def find(self, session: str) -> SessionState | None:
        kept = self._kept.get(session)
        if kept is not None:
            return kept
        try:
            row = self._db.execute(f"{SELECT_SESSIONS} WHERE s.id = ?", (session,)).fetchone()
            if row is None:
                return None
            state = self._load(row)
        except sqlite3.Error as error:
            if is_damage(error):
                raise damage_of(error, session) from error
            raise
        self._kept[session] = state
        self._marks[state.no] = tuple(row[22:26])
        return state

    def _load(self, row: tuple[Any, ...]) -> SessionState:
        no, session = row[0], row[1]
        head = checked_head(self._db, no, session, row[13])
        fold = unpack_fold(row[21])
        derived = fold is None or fold.head != head
        if fold is None or derived:
            fold = derive_fold(self._db, no, session, head)
        else:
            fold.child_events = self._child_events(no)
        state = session_state(row, fold, config_of(self._db, row))
        if derived:
            self._derive(state)
        found = self._db.execute(SELECT_PENDING, (no << PLACE_BITS, no << PLACE_BITS | PLACE_MASK))
        state.inbox = {m.message_id: m for m in map(message_of, found)}
        state.position = max([state.position, *(m.position for m in state.inbox.values())])
        return state

    def _derive(self, state: SessionState) -> None:
        """What else follows from the log and from the rows' own columns, when the catalogue was behind them."""
        base = state.no << PLACE_BITS
        span = (base, base | PLACE_MASK)
        notes = {seq for (seq,) in self._db.execute("SELECT seq FROM annotations WHERE session = ?", (state.no,))}
        ends = (decode_entry((row := self.entry(state, last)).body, row.seq, row.ts) for _, last in state.fold.removed)
        state.rewound = max((e.seq for e in ends if isinstance(e, Rewound)), default=0)
        state.history_head = next(seq for seq in range(state.fold.head, -1, -1) if seq not in notes)
        epoch = self._db.execute("SELECT max(epoch) FROM entries WHERE place BETWEEN ? AND ?", span).fetchone()[0]
        if epoch > state.epoch:
            state.epoch, state.owned = epoch + 1, False
        last = self._db.execute("SELECT max(place) FROM messages WHERE session = ?", (state.no,)).fetchone()[0]
        state.position = max(state.position, (last or 0) & PLACE_MASK)

    def _child_events(self, no: int) -> dict[str, ChildEvent]:
        found = self._db.execute("SELECT pod_id, seq, shut_down FROM child_events WHERE session = ?", (no,))
        return {pod_id: ChildEvent(seq, bool(shut_down)) for pod_id, seq, shut_down in found}

    def made_by(self, tenant: str, message_id: str) -> str | None:
        found = self._db.execute("SELECT id FROM sessions WHERE tenant = ? AND message_id = ?", (tenant, message_id))
        row = found.fetchone()
        return None if row is None else str(row[0])

    def add(self, state: SessionState) -> None:
        cursor = self._write(
            _ADD_SESSION,
            (
                state.id,
                state.tenant,
                state.message_id,
                state.name,
                state.parent_id,
                state.root_id,
                state.depth,
                state.detached,
                state.epoch,
                str(state.config.get("profile") or ""),
            ),
        )
        assert cursor.lastrowid is not None
        state.no = cursor.lastrowid
        self._write(
            "INSERT INTO configs VALUES (?, ?, ?, ?)",
            (state.no, pack(state.config), pack_scope(state.scope), rules.workspace_of(state)),
        )
        self._kept[state.id] = state

    def save(self, state: SessionState) -> None:
        self._write(
            _SAVE,
            (
                state.epoch,
                state.owned,
                state.opened_by,
                state.untouched,
                state.fold.head,
                state.history_head,
                state.rewound,
                state.position,
                state.children,
                state.wakes,
                len(state.inbox),
                pack_batch(state.batch),
                pack_fold(state.fold),
                state.no,
            ),
        )
        summary = state.summary()
        marks = (state.open, state.fold.ended, summary.status, summary.needs_owner)
        if self._marks.get(state.no) != marks:
            self._write(_SAVE_MARKS, (*marks, state.no))
            self._marks[state.no] = marks
        self.touched[state.id] = state.fold.head

    # --- entries and messages -------------------------------------------------------------------

    def add_entries(self, state: SessionState, rows: Sequence[StoredEntry]) -> None:
        base = state.no << PLACE_BITS
        for row in rows:
            self._write(
                "INSERT INTO entries VALUES (?, ?, ?, ?, ?)",
                (base | row.seq, row.ts, state.epoch, crc32(row.body), row.body),
            )

    def entry(self, state: SessionState, seq: int) -> StoredEntry:
        return read_rows(self._db, state.no, state.id, (seq - 1, seq))[0]

    def note_child(self, state: SessionState, pod_id: str) -> None:
        event = state.fold.child_events[pod_id]
        self._write(
            "INSERT OR REPLACE INTO child_events VALUES (?, ?, ?, ?)", (state.no, pod_id, event.seq, event.shut_down)
        )

    def message(self, state: SessionState, message_id: str) -> MessageRecord | None:
        return find_message(self._db, state.no, message_id)

    def add_message(self, state: SessionState, message: Message, place: MessagePlace, seq: int = 0) -> None:
        self._write(
            "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                state.no << PLACE_BITS | message.position,
                state.no,
                message.message_id,
                PLACES.index(place),
                seq,
                message.kind,
                message.sender,
                message.wake,
                message.ts,
                pack(message.body),
            ),
        )

    def move_messages(self, state: SessionState, messages: Sequence[Message], place: MessagePlace, seq: int) -> None:
        for message in messages:
            self._write(
                "UPDATE messages SET state = ?, seq = ? WHERE place = ? AND state = 0",
                (PLACES.index(place), seq, state.no << PLACE_BITS | message.position),
            )

    def add_stray(self, session: str, message: Message) -> None:
        self._write(
            "INSERT OR IGNORE INTO strays VALUES (?, ?, ?, ?)",
            (session, message.message_id, message.ts, pack(to_plain(message))),
        )

    # --- side tables ----------------------------------------------------------------------------

    def question(self, state: SessionState, question_id: str) -> QuestionRecord | None:
        row = self._db.execute(
            "SELECT taken_by, how FROM questions WHERE session = ? AND question_id = ?", (state.no, question_id)
        ).fetchone()
        return None if row is None else QuestionRecord(*row)

    def put_question(self, state: SessionState, question_id: str, record: QuestionRecord) -> None:
        self._write(
            "INSERT OR REPLACE INTO questions VALUES (?, ?, ?, ?)",
            (state.no, question_id, record.taken_by, record.how),
        )

    def annotation(self, state: SessionState, domain: str, key: str) -> int | None:
        row = self._db.execute(
            "SELECT seq FROM annotations WHERE session = ? AND domain = ? AND key = ?", (state.no, domain, key)
        ).fetchone()
        return None if row is None else int(row[0])

    def put_annotation(self, state: SessionState, domain: str, key: str, seq: int) -> None:
        self._write("INSERT INTO annotations VALUES (?, ?, ?, ?)", (state.no, domain, key, seq))

    # --- the tree -------------------------------------------------------------------------------

    def children(self, parent_id: str, *, open_only: bool) -> Sequence[ChildRow]:
        which = "open = 1" if open_only else "ended = 0"
        found = self._db.execute(
            "SELECT s.id, s.detached, s.open, s.ended, c.scope, c.workspace FROM sessions s LEFT JOIN configs c"
            f" ON c.no = s.no WHERE s.parent_id = ? AND s.{which} ORDER BY s.no",
            (parent_id,),
        )
        return [
            ChildRow(id_, bool(detached), bool(open_), bool(ended), unpack_scope(scope), workspace or "")
            for id_, detached, open_, ended, scope, workspace in found
        ]

    def name_taken(self, tenant: str, parent_id: str | None, name: str) -> bool:
        found = self._db.execute(
            "SELECT 1 FROM sessions WHERE parent_id IS ? AND name = ? AND ended = 0 AND tenant = ? LIMIT 1",
            (parent_id, name, tenant),
        )
        return found.fetchone() is not None

    def open_pods(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM sessions WHERE open = 1").fetchone()[0])

    def release_all_but(self, held: frozenset[str]) -> None:
        owned = [row[0] for row in self._db.execute("SELECT id FROM sessions WHERE owned = 1")]
        for session in owned:
            if session not in held:
                self._write("UPDATE sessions SET owned = 0 WHERE id = ?", (session,))
        self.forget()

    def count(self, key: str, more: int) -> None:
        self.counters.count(key, more)

    def directory_epoch(self) -> int:
        return self.meta("directory_epoch")

    def put_directory_epoch(self, epoch: int) -> None:
        self.put_meta("directory_epoch", epoch)

    def meta(self, key: str) -> int:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return 0 if row is None else int(row[0])

    def put_meta(self, key: str, value: int) -> None:
        self._write("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def find_message(connection: sqlite3.Connection, no: int, message_id: str) -> MessageRecord | None:
    row = connection.execute(
        "SELECT place, state, seq FROM messages WHERE session = ? AND message_id = ?", (no, message_id)
    ).fetchone()
    return None if row is None else MessageRecord(row[0] & PLACE_MASK, PLACES[row[1]], row[2])
