"""`Tables` over the writing connection, with the sessions in use kept in memory and checked at each transaction.

Other store actors may write the same database. A kept session is trusted in a transaction once its row's version was
seen to be the one that is remembered; it is written only under its row's lock and while that still holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from session_store import rules
from session_store.backends.packing import PLACES, pack_batch, pack_fold, pack_scope, unpack_scope
from session_store.backends.postgres_counters import PostgresCounters
from session_store.backends.postgres_link import Connection
from session_store.backends.postgres_locks import Contended, Locks
from session_store.backends.postgres_rows import fetch, find_message, load, read_rows
from session_store.backends.postgres_schema import ADVISORY, DIRECTORY_LOCK, TREE_LOCK
from session_store.codec import pack, to_plain
from session_store.messages import Message
from session_store.requests import StoredEntry
from session_store.state import MessagePlace, MessageRecord, QuestionRecord, SessionState
from session_store.tables import ChildRow

KEPT_SESSIONS = 4_096

_ADD_SESSION = (
    "INSERT INTO sessions (id, tenant, message_id, name, parent_id, root_id, depth, detached, epoch, owned, opened_by,"
    " untouched, head, history_head, rewound, position, children, wakes, queue, open, ended, status, needs_owner,"
    " version, changed, writer, profile) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, false, 0, false, 0, 0, 0, 0, 0,"
    " 0, 0, false, false, 'idle', false, 0, pg_current_xact_id(), %s, %s) RETURNING no"
)
_TOUCH = "version = version + 1, changed = pg_current_xact_id(), writer = %s"
_SAVE = (
    "UPDATE sessions SET epoch = %s, owned = %s, opened_by = %s, untouched = %s, head = %s, history_head = %s,"
    " rewound = %s, position = %s, children = %s, wakes = %s, queue = %s, batch = %s, fold = %s, open = %s, ended = %s,"
    f" status = %s, needs_owner = %s, {_TOUCH} WHERE no = %s"
)
_ADD_ENTRIES = (
    "INSERT INTO entries (session, seq, ts, epoch, crc, body) SELECT %s, e.seq, e.ts, %s, e.crc, e.body"
    " FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[]) AS e (seq, ts, crc, body)"
)


class PostgresTables:
    """One transaction after another: `enter` begins one, `begin` a request in it.

    The connection is in pipeline mode: what is written goes out with the next read or with the commit. After a
    transaction that failed nothing kept is trusted: `forget`.
    """

    def __init__(self) -> None:
        self.writer = 0
        self.touched: dict[str, int] = {}
        self.counters = PostgresCounters()
        self.wrote = False
        """Whether the request of now has written: then it cannot be taken back without those before it."""
        self.xid: str | None = None
        """The transaction's number, once it has locked a row: with it the server tells what became of it."""
        self._db: Connection | None = None
        self._kept: dict[str, tuple[SessionState, int]] = {}
        self._trusted: set[str] = set()
        self._locked: set[str] = set()
        self._tree = False

    # --- the frame of a transaction and of a request --------------------------------------------

    def enter(self, db: Connection, locks: Locks, *, alone: bool) -> None:
        """Begin a transaction with its locks, and see which kept sessions are still what they were.

        `alone`: it belongs to a new Directory.
        """
        self._db, self.xid, self.touched = db, None, {}
        self._tree, self.wrote = locks.tree, False
        if len(self._kept) > KEPT_SESSIONS:
            self.forget()
        roots = {self._kept[s][0].root_id for s in locks.sessions if s in self._kept} - locks.sessions
        db.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        if alone or locks.directory:
            shared = b"" if alone else b"_shared"
            db.execute(b"SELECT pg_advisory_xact_lock" + shared + b"(%s, %s)", (ADVISORY, DIRECTORY_LOCK))
        if locks.tree:
            db.execute("SELECT pg_advisory_xact_lock(%s, %s)", (ADVISORY, TREE_LOCK))
        locked = db.execute(
            "SELECT id, version FROM sessions WHERE id = ANY(%s) ORDER BY id FOR UPDATE", (sorted(locks.sessions),)
        )
        number = db.execute("SELECT pg_current_xact_id_if_assigned()::text")
        looked = db.execute("SELECT id, version FROM sessions WHERE id = ANY(%s)", (sorted(roots),)) if roots else None
        versions = dict(locked.fetchall())
        self._locked = set(versions)
        self.xid = number.fetchone()[0]  # type: ignore[index]  # one row, always
        versions.update(looked.fetchall() if looked is not None else ())
        self._trusted = {s for s, version in versions.items() if s in self._kept and self._kept[s][1] == version}

    def begin(self) -> None:
        """A request starts."""
        self.wrote = False
        self.counters.begin()

    def forget(self) -> None:
        self._kept.clear()
        self._trusted.clear()

    @property
    def _open(self) -> Connection:
        assert self._db is not None
        return self._db

    def _write(self, sql: str, values: Sequence[Any]) -> Any:
        self.wrote = True
        return self._open.execute(sql.encode(), values)

    def _fetch(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return fetch(self._open, sql, values)

    def _claim(self, state: SessionState) -> None:
        """Before the first write of a session: its row's lock, without waiting, while it is what is remembered."""
        if state.id in self._locked:
            return
        found = self._fetch("SELECT version FROM sessions WHERE no = %s FOR UPDATE SKIP LOCKED", (state.no,))
        if not found or found[0][0] != self._kept[state.id][1]:
            raise Contended(state.id)
        self._locked.add(state.id)

    def _hold_tree(self) -> None:
        """Names, places and scopes are looked at by one transaction at a time."""
        if self._tree:
            return
        if not self._fetch("SELECT pg_try_advisory_xact_lock(%s, %s)", (ADVISORY, TREE_LOCK))[0][0]:
            raise Contended(None)
        self._tree = True

    # --- sessions -------------------------------------------------------------------------------

    def find(self, session: str) -> SessionState | None:
        if session in self._trusted:
            return self._kept[session][0]
        loaded = load(self._open, session)
        if loaded is None:
            return None
        self._kept[session] = loaded
        self._trusted.add(session)
        return loaded[0]

    def made_by(self, tenant: str, message_id: str) -> str | None:
        found = self._fetch("SELECT id FROM sessions WHERE tenant = %s AND message_id = %s", (tenant, message_id))
        return str(found[0][0]) if found else None

    def add(self, state: SessionState) -> None:
        values = (
            state.id,
            state.tenant,
            state.message_id,
            state.name,
            state.parent_id,
            state.root_id,
            state.depth,
            state.detached,
            state.epoch,
            self.writer,
            str(state.config.get("profile") or ""),
        )
        (state.no,) = self._write(_ADD_SESSION, values).fetchone()
        self._write(
            "INSERT INTO configs VALUES (%s, %s, %s, %s)",
            (state.no, pack(state.config), pack_scope(state.scope), rules.workspace_of(state)),
        )
        self._kept[state.id] = (state, 0)
        self._trusted.add(state.id)
        self._locked.add(state.id)

    def save(self, state: SessionState) -> None:
        self._claim(state)
        summary = state.summary()
        values = (
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
            state.open,
            state.fold.ended,
            summary.status,
            summary.needs_owner,
            self.writer,
            state.no,
        )
        self._write(_SAVE, values)
        self._kept[state.id] = (state, self._kept[state.id][1] + 1)
        self.touched[state.id] = state.fold.head

    # --- entries and messages -------------------------------------------------------------------

    def add_entries(self, state: SessionState, rows: Sequence[StoredEntry]) -> None:
        self._claim(state)
        columns = ([r.seq for r in rows], [r.ts for r in rows], [crc32(r.body) for r in rows], [r.body for r in rows])
        self._write(_ADD_ENTRIES, (state.no, state.epoch, *columns))

    def entry(self, state: SessionState, seq: int) -> StoredEntry:
        return read_rows(self._open, state.no, state.id, (seq - 1, seq))[0]

    def note_child(self, state: SessionState, pod_id: str) -> None:
        self._claim(state)
        event = state.fold.child_events[pod_id]
        self._write(
            "INSERT INTO child_events VALUES (%s, %s, %s, %s) ON CONFLICT (session, pod_id) DO UPDATE SET"
            " seq = excluded.seq, shut_down = excluded.shut_down",
            (state.no, pod_id, event.seq, event.shut_down),
        )

    def message(self, state: SessionState, message_id: str) -> MessageRecord | None:
        return find_message(self._open, state.no, message_id)

    def add_message(self, state: SessionState, message: Message, place: MessagePlace, seq: int = 0) -> None:
        self._claim(state)
        self._write(
            "INSERT INTO messages (session, position, message_id, state, seq, kind, sender, wake, ts, body)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                state.no,
                message.position,
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
        self._claim(state)
        self._write(
            "UPDATE messages SET state = %s, seq = %s WHERE session = %s AND message_id = ANY(%s) AND state = 0",
            (PLACES.index(place), seq, state.no, [m.message_id for m in messages]),
        )

    def add_stray(self, session: str, message: Message) -> None:
        self._write(
            "INSERT INTO strays VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (session, message.message_id, message.ts, pack(to_plain(message))),
        )

    # --- side tables ----------------------------------------------------------------------------

    def question(self, state: SessionState, question_id: str) -> QuestionRecord | None:
        found = self._fetch(
            "SELECT taken_by, how FROM questions WHERE session = %s AND question_id = %s", (state.no, question_id)
        )
        return QuestionRecord(*found[0]) if found else None

    def put_question(self, state: SessionState, question_id: str, record: QuestionRecord) -> None:
        self._claim(state)
        self._write(
            "INSERT INTO questions VALUES (%s, %s, %s, %s) ON CONFLICT (session, question_id) DO UPDATE SET"
            " taken_by = excluded.taken_by, how = excluded.how",
            (state.no, question_id, record.taken_by, record.how),
        )

    def annotation(self, state: SessionState, domain: str, key: str) -> int | None:
        found = self._fetch(
            "SELECT seq FROM annotations WHERE session = %s AND domain = %s AND key = %s", (state.no, domain, key)
        )
        return int(found[0][0]) if found else None

    def put_annotation(self, state: SessionState, domain: str, key: str, seq: int) -> None:
        self._claim(state)
        self._write("INSERT INTO annotations VALUES (%s, %s, %s, %s)", (state.no, domain, key, seq))

    # --- the tree -------------------------------------------------------------------------------

    def children(self, parent_id: str, *, open_only: bool) -> Sequence[ChildRow]:
        if open_only:
            self._hold_tree()
        found = self._fetch(
            "SELECT s.id, s.detached, s.open, s.ended, c.scope, c.workspace FROM sessions s LEFT JOIN configs c"
            f" ON c.no = s.no WHERE s.parent_id = %s AND {'s.open' if open_only else 'NOT s.ended'} ORDER BY s.no",
            (parent_id,),
        )
        return [
            ChildRow(id_, detached, open_, ended, unpack_scope(scope), workspace or "")
            for id_, detached, open_, ended, scope, workspace in found
        ]

    def name_taken(self, tenant: str, parent_id: str | None, name: str) -> bool:
        self._hold_tree()
        return bool(
            self._fetch(
                "SELECT 1 FROM sessions WHERE parent_id IS NOT DISTINCT FROM %s AND name = %s AND NOT ended"
                " AND tenant = %s LIMIT 1",
                (parent_id, name, tenant),
            )
        )

    def open_pods(self) -> int:
        self._hold_tree()
        return int(self._fetch("SELECT count(*) FROM sessions WHERE open")[0][0])

    def release_all_but(self, held: frozenset[str]) -> None:
        self._write(
            f"UPDATE sessions SET owned = false, {_TOUCH} WHERE no IN (SELECT no FROM sessions WHERE owned"
            " AND NOT id = ANY(%s) ORDER BY id FOR UPDATE)",
            (self.writer, sorted(held)),
        )
        self.forget()

    def count(self, key: str, more: int) -> None:
        self.counters.count(key, more)

    def directory_epoch(self) -> int:
        found = self._fetch("SELECT value FROM meta WHERE key = 'directory_epoch'")
        return int(found[0][0]) if found else 0

    def put_directory_epoch(self, epoch: int) -> None:
        self._write(
            "INSERT INTO meta VALUES ('directory_epoch', %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (epoch,),
        )
