"""The SQLite file: its tables, its numbered forward migrations, and how connections to it are opened.

An entry's and a message's place is one integer, `session no << 32 | seq` (or inbox position). Rows lie in the order of
their commits, with an index by place: a commit of many sessions then writes a fifth of the pages that it would write if
each session's rows lay together. The view `log` shows entries to people by session and seq.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from session_store.codec import unpack
from session_store.errors import NewerSchema, StoreDamaged, StoreUnavailable

PLACE_BITS = 32
PLACE_MASK = (1 << PLACE_BITS) - 1
APPLICATION_ID = 0x706F6470  # "podp" in the file's header
BUSY_SECONDS = 5.0
CHECKPOINT_PAGES = 1_000
WAL_LIMIT_BYTES = 16 << 20
CACHE_KIB = 16 << 10

_VERSION_1 = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (
    no INTEGER PRIMARY KEY, id TEXT NOT NULL, tenant TEXT NOT NULL, message_id TEXT NOT NULL, name TEXT NOT NULL,
    parent_id TEXT, root_id TEXT NOT NULL, depth INTEGER NOT NULL, detached INTEGER NOT NULL,
    epoch INTEGER NOT NULL, owned INTEGER NOT NULL, opened_by INTEGER NOT NULL, untouched INTEGER NOT NULL,
    head INTEGER NOT NULL, history_head INTEGER NOT NULL, rewound INTEGER NOT NULL, position INTEGER NOT NULL,
    children INTEGER NOT NULL, wakes INTEGER NOT NULL, queue INTEGER NOT NULL, batch BLOB, fold BLOB,
    open INTEGER NOT NULL, ended INTEGER NOT NULL, status TEXT NOT NULL, needs_owner INTEGER NOT NULL
);
CREATE TABLE configs (no INTEGER PRIMARY KEY, config BLOB NOT NULL, scope BLOB, workspace TEXT NOT NULL);
CREATE TABLE entries (
    place INTEGER NOT NULL, ts INTEGER NOT NULL, epoch INTEGER NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL
);
CREATE TABLE messages (
    place INTEGER NOT NULL, session INTEGER NOT NULL, message_id TEXT NOT NULL, state INTEGER NOT NULL,
    seq INTEGER NOT NULL, kind TEXT NOT NULL, sender TEXT NOT NULL, wake INTEGER NOT NULL, ts INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE child_events (
    session INTEGER NOT NULL, pod_id TEXT NOT NULL, seq INTEGER NOT NULL, shut_down INTEGER NOT NULL,
    PRIMARY KEY (session, pod_id)
) WITHOUT ROWID;
CREATE TABLE questions (
    session INTEGER NOT NULL, question_id TEXT NOT NULL, taken_by TEXT, how TEXT, PRIMARY KEY (session, question_id)
) WITHOUT ROWID;
CREATE TABLE annotations (
    session INTEGER NOT NULL, domain TEXT NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (session, domain, key)
) WITHOUT ROWID;
CREATE TABLE strays (
    session TEXT NOT NULL, message_id TEXT NOT NULL, ts INTEGER NOT NULL, message BLOB NOT NULL,
    PRIMARY KEY (session, message_id)
) WITHOUT ROWID;
CREATE VIEW log AS
    SELECT s.id AS session, e.place & 4294967295 AS seq, e.ts, e.epoch, e.crc, e.body
    FROM entries e JOIN sessions s ON s.no = e.place >> 32;
"""

_VERSION_2 = """
ALTER TABLE sessions ADD COLUMN profile TEXT NOT NULL DEFAULT '';
UPDATE sessions SET profile = profile_of((SELECT config FROM configs c WHERE c.no = sessions.no));
CREATE TABLE counters (no INTEGER PRIMARY KEY, counts BLOB NOT NULL);
"""
# A row of `counters` is what one transaction added; now and then all become one.

MIGRATIONS: tuple[str, ...] = (_VERSION_1, _VERSION_2)
"""Script n brings version n to n + 1. A published one is never changed."""

SCHEMA_VERSION = len(MIGRATIONS)

# Derived, so they are made anew when they are missing.
_INDEXES = """
CREATE UNIQUE INDEX IF NOT EXISTS sessions_by_id ON sessions (id);
CREATE UNIQUE INDEX IF NOT EXISTS sessions_by_maker ON sessions (tenant, message_id);
CREATE INDEX IF NOT EXISTS sessions_by_parent ON sessions (parent_id);
CREATE INDEX IF NOT EXISTS sessions_by_root ON sessions (root_id);
CREATE INDEX IF NOT EXISTS sessions_by_status ON sessions (status);
CREATE INDEX IF NOT EXISTS sessions_open ON sessions (parent_id) WHERE open = 1;
CREATE INDEX IF NOT EXISTS sessions_living ON sessions (parent_id, name) WHERE ended = 0;
CREATE INDEX IF NOT EXISTS sessions_wanting ON sessions (no) WHERE needs_owner = 1;
CREATE UNIQUE INDEX IF NOT EXISTS entries_by_place ON entries (place);
CREATE UNIQUE INDEX IF NOT EXISTS messages_by_id ON messages (session, message_id);
CREATE INDEX IF NOT EXISTS messages_pending ON messages (place) WHERE state = 0;
"""


def open_writer(path: Path) -> sqlite3.Connection:
    """The one writing connection, with the schema brought up to date.

    Raises `NewerSchema` (and has touched nothing), `StoreDamaged` if this is no store, `StoreUnavailable`.
    """
    _refuse_newer(path, _version_in_header(path))
    try:
        connection = _connect(f"{path.absolute().as_uri()}?mode=rwc")
        try:
            _refuse_newer(path, _user_version(connection))
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
            _migrate(connection)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise opening_failure(path, error) from error
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing. Raises `NewerSchema`, `StoreDamaged`, `StoreUnavailable`."""
    try:
        connection = _connect(f"{path.absolute().as_uri()}?mode=ro")
        try:
            version = _user_version(connection)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise opening_failure(path, error) from error
    _refuse_newer(path, version)
    return connection


def is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def opening_failure(path: Path, error: sqlite3.Error) -> StoreDamaged | StoreUnavailable:
    if is_damage(error):
        return StoreDamaged(
            f"{path} cannot be read as a store: {error}. Put back a copy, or move it away to start with an empty one",
            session="",
            seq=0,
            reason=str(error),
        )
    return StoreUnavailable(f"{path} cannot be opened: {error}")


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    return connection


def _migrate(connection: sqlite3.Connection) -> None:
    connection.create_function("profile_of", 1, _profile_of, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _user_version(connection)
        for number in range(version, SCHEMA_VERSION):
            for statement in filter(str.strip, MIGRATIONS[number].split(";")):
                connection.execute(statement)
        for statement in filter(str.strip, _INDEXES.split(";")):
            connection.execute(statement)
        if version < SCHEMA_VERSION:
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _profile_of(config: bytes | None) -> str:
    """For migrations: the profile that a packed config names."""
    plain = None if config is None else unpack(config)
    return str(plain.get("profile") or "") if isinstance(plain, dict) else ""


def _user_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _version_in_header(path: Path) -> int:
    """`user_version` as the file's header has it; 0 without a file. Read so that a newer store is not even opened."""
    try:
        with path.open("rb") as file:
            header = file.read(64)
    except OSError:
        return 0
    return int.from_bytes(header[60:64], "big") if header.startswith(b"SQLite format 3\0") else 0


def _refuse_newer(path: Path, version: int) -> None:
    if version > SCHEMA_VERSION:
        raise NewerSchema(
            f"{path} has schema version {version}; this polypod knows up to {SCHEMA_VERSION}. Nothing was changed: use"
            " the polypod that wrote it, or a newer one",
            found=version,
            known=SCHEMA_VERSION,
        )
