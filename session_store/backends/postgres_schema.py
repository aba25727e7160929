"""The tables of a PostgreSQL store and their numbered forward migrations.

They lie in a schema (namespace) of their own. A session's catalogue row carries `version`, which goes up with every
write of it: what a store actor remembers of the session is good only as long as that is the same. `changed` and
`writer` say which transaction and which store actor wrote it last, so that others find what they were not told of.
Texts are compared byte by byte (`COLLATE "C"`): an index does not depend on the server's language data.
"""

from __future__ import annotations

import psycopg

from session_store.backends.postgres_link import SCHEMA, Address, Connection
from session_store.codec import unpack
from session_store.errors import NewerSchema, StoreUnavailable

ADVISORY = 0x706F6470
"""First half of the keys of our advisory locks; the second says what is locked."""
DIRECTORY_LOCK, TREE_LOCK, MIGRATION_LOCK, OWNER_LOCK = 1, 2, 3, 4

_VERSION_1 = """
CREATE TABLE meta (key TEXT COLLATE "C" PRIMARY KEY, value BIGINT NOT NULL);
CREATE TABLE sessions (
    no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id TEXT COLLATE "C" NOT NULL, tenant TEXT COLLATE "C" NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL, name TEXT COLLATE "C" NOT NULL, parent_id TEXT COLLATE "C",
    root_id TEXT COLLATE "C" NOT NULL, depth INTEGER NOT NULL, detached BOOLEAN NOT NULL, epoch BIGINT NOT NULL,
    owned BOOLEAN NOT NULL, opened_by BIGINT NOT NULL, untouched BOOLEAN NOT NULL, head BIGINT NOT NULL,
    history_head BIGINT NOT NULL, rewound BIGINT NOT NULL, position BIGINT NOT NULL, children BIGINT NOT NULL,
    wakes BIGINT NOT NULL, queue BIGINT NOT NULL, batch BYTEA, fold BYTEA, open BOOLEAN NOT NULL,
    ended BOOLEAN NOT NULL, status TEXT COLLATE "C" NOT NULL, needs_owner BOOLEAN NOT NULL,
    version BIGINT NOT NULL, changed XID8 NOT NULL, writer BIGINT NOT NULL
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX sessions_by_id ON sessions (id);
CREATE UNIQUE INDEX sessions_by_maker ON sessions (tenant, message_id);
CREATE INDEX sessions_by_parent ON sessions (parent_id);
CREATE INDEX sessions_by_root ON sessions (root_id);
CREATE INDEX sessions_by_status ON sessions (status);
CREATE INDEX sessions_open ON sessions (parent_id) WHERE open;
CREATE INDEX sessions_living ON sessions (parent_id, name) WHERE NOT ended;
CREATE INDEX sessions_wanting ON sessions (no) WHERE needs_owner;
CREATE TABLE configs (no BIGINT PRIMARY KEY, config BYTEA NOT NULL, scope BYTEA, workspace TEXT NOT NULL);
CREATE TABLE entries (
    session BIGINT NOT NULL, seq BIGINT NOT NULL, ts BIGINT NOT NULL, epoch BIGINT NOT NULL, crc BIGINT NOT NULL,
    body BYTEA NOT NULL, PRIMARY KEY (session, seq)
);
CREATE TABLE messages (
    session BIGINT NOT NULL, position BIGINT NOT NULL, message_id TEXT COLLATE "C" NOT NULL, state SMALLINT NOT NULL,
    seq BIGINT NOT NULL, kind TEXT NOT NULL, sender TEXT NOT NULL, wake BOOLEAN NOT NULL, ts BIGINT NOT NULL,
    body BYTEA NOT NULL, PRIMARY KEY (session, message_id)
);
CREATE UNIQUE INDEX messages_pending ON messages (session, position) WHERE state = 0;
CREATE TABLE child_events (
    session BIGINT NOT NULL, pod_id TEXT COLLATE "C" NOT NULL, seq BIGINT NOT NULL, shut_down BOOLEAN NOT NULL,
    PRIMARY KEY (session, pod_id)
);
CREATE TABLE questions (
    session BIGINT NOT NULL, question_id TEXT COLLATE "C" NOT NULL, taken_by TEXT, how TEXT,
    PRIMARY KEY (session, question_id)
);
CREATE TABLE annotations (
    session BIGINT NOT NULL, domain TEXT COLLATE "C" NOT NULL, key TEXT COLLATE "C" NOT NULL, seq BIGINT NOT NULL,
    PRIMARY KEY (session, domain, key)
);
CREATE TABLE strays (
    session TEXT COLLATE "C" NOT NULL, message_id TEXT COLLATE "C" NOT NULL, ts BIGINT NOT NULL, message BYTEA NOT NULL,
    PRIMARY KEY (session, message_id)
);
CREATE VIEW log AS
    SELECT s.id AS session, e.seq, e.ts, e.epoch, e.crc, e.body FROM entries e JOIN sessions s ON s.no = e.session;
"""

_VERSION_2 = """
ALTER TABLE sessions ADD COLUMN profile TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE TABLE counters (no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, counts BYTEA NOT NULL);
"""
# A row of `counters` is what one transaction added; now and then all become one.

MIGRATIONS: tuple[str, ...] = (_VERSION_1, _VERSION_2)
"""Script n brings version n to n + 1. A published one is never changed."""

SCHEMA_VERSION = len(MIGRATIONS)
_KEY = "schema"


def migrate(connection: Connection, address: Address) -> None:
    """Bring the schema up to date, once, whoever else tries at the same time.

    Raises `NewerSchema` (and has touched nothing), `StoreUnavailable`, `psycopg.Error`.
    """
    if check_version(connection, address) == SCHEMA_VERSION:
        return
    _check_encoding(connection, address)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (ADVISORY, MIGRATION_LOCK))
        version = check_version(connection, address)
        if version == SCHEMA_VERSION:
            return
        known = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (SCHEMA,)).fetchone()
        if known is None:
            connection.execute(f"CREATE SCHEMA {SCHEMA}")
        for number in range(version, SCHEMA_VERSION):
            for statement in filter(str.strip, MIGRATIONS[number].split(";")):
                connection.execute(statement.encode())
            if number == 1:
                _fill_profiles(connection)
        connection.execute(
            "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (_KEY, SCHEMA_VERSION),
        )


def _fill_profiles(connection: Connection) -> None:
    """The profiles that the configs of the sessions name."""
    found = connection.execute("SELECT no, config FROM configs", binary=True).fetchall()
    profiles = [(str(config.get("profile") or ""), no) for no, config in ((no, unpack(c)) for no, c in found)]
    with connection.cursor() as cursor:
        cursor.executemany("UPDATE sessions SET profile = %s WHERE no = %s", profiles)


def check_version(connection: Connection, address: Address) -> int:
    """The schema's version, 0 where there is no store yet. Raises `NewerSchema`."""
    known = connection.execute(  # asked of the catalogue's rows: `to_regclass` may answer from a cache of before a wait
        "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s"
        " AND c.relname = 'meta'",
        (SCHEMA,),
    )
    if known.fetchone() is None:
        return 0
    row = connection.execute(f"SELECT value FROM {SCHEMA}.meta WHERE key = %s", (_KEY,)).fetchone()
    version = 0 if row is None else int(row[0])
    if version > SCHEMA_VERSION:
        raise NewerSchema(
            f"the store at {address.shown} has schema version {version}; this polypod knows up to {SCHEMA_VERSION}."
            " Nothing was changed: use the polypod that wrote it, or a newer one",
            found=version,
            known=SCHEMA_VERSION,
        )
    return version


def _check_encoding(connection: Connection, address: Address) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"the database at {address.shown} has the encoding {encoding}: make one with ENCODING 'UTF8' for polypod"
        )


def refused(error: psycopg.Error, address: Address) -> StoreUnavailable:
    """What to say when the schema cannot be made."""
    return StoreUnavailable(
        f"the store at {address.shown} cannot be made ready: {address.clean(str(error)).strip()}. Its role must be able"
        f" to create the schema {SCHEMA}, or own it"
    )
