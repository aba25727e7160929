"""A PostgreSQL store whose server, connection or rows fail it."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest

from session_store.backends.postgres import PostgresStore
from session_store.backends.postgres_check import check_postgres
from session_store.backends.postgres_link import Address, Watchdog, address_of
from session_store.backends.postgres_schema import SCHEMA_VERSION
from session_store.errors import ConditionFailed, NewerSchema, StoreDamaged, StoreError, StoreUnavailable
from session_store.opening import UnknownStoreUrl, damage_of, open_reader, open_store, shown
from session_store.reading import read_log
from session_store.requests import Append, Appended, Create, Open, Pending, Query, Read
from tests.support.postgres import PASSWORD, PostgresServer
from tests.support.store import (
    Owner,
    Ticks,
    deliver,
    delivery,
    event,
    event_item,
    log,
    message,
    row,
    running,
    start,
    text,
)


@pytest.fixture
def store(postgres: PostgresServer) -> Iterator[PostgresStore]:
    postgres.wipe()
    made = PostgresStore(postgres.url(), Ticks())
    yield made
    made.close()


def here(url: str) -> Address:
    address = address_of(url)
    assert address is not None
    return address


# --- the server goes away ---------------------------------------------------------------------------


class Load:
    """Four sessions that append and deliver from threads while something happens; each request is sent once more."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.owners = [running(store, f"s{n}") for n in range(4)]
        self.done = [0] * 4
        self.stop = threading.Event()

    def during(self, happening: Callable[[], None]) -> None:
        with ThreadPoolExecutor(4) as pool:
            working = [pool.submit(self.work, n) for n in range(4)]
            try:
                time.sleep(0.2)
                happening()
                time.sleep(0.3)
            finally:
                self.stop.set()
            for future in working:
                future.result()

    def work(self, number: int) -> None:
        owner, other = self.owners[number], f"s{(number + 1) % 4}"
        while not self.stop.is_set():
            word = f"{number}.{self.done[number]}"
            owner.append(text(word), batch_id=word, deliveries=(delivery(other, message(word, "notify")),))
            self.done[number] += 1
            assert len(self.store.execute(Read(owner.session, owner.head - 1)).entries) == 1

    def check(self) -> None:
        for number, owner in enumerate(self.owners):
            assert log(self.store, owner.session) == list(range(1, 4 + self.done[number]))
            told = [m.message_id for m in self.store.execute(Pending(owner.session)).messages]
            assert told == [f"{(number - 1) % 4}.{n}" for n in range(self.done[(number - 1) % 4])]
        assert min(self.done) > 0


def test_S09_connections_killed_by_the_server_lose_and_double_nothing(
    store: PostgresStore, postgres: PostgresServer
) -> None:
    def kill() -> None:
        with postgres.connect() as db:
            for _ in range(15):
                db.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'polypod' AND pid <> pg_backend_pid()"
                )
                time.sleep(0.05)

    load = Load(store)
    load.during(kill)
    load.check()
    assert check_postgres(here(postgres.url())) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_S01_S09_a_restarted_server_loses_and_doubles_nothing(
    store: PostgresStore, postgres: PostgresServer, how: signal.Signals
) -> None:
    def restart() -> None:
        postgres.stop(how)
        postgres.start()

    load = Load(store)
    load.during(restart)
    load.check()
    assert check_postgres(here(postgres.url())) == []


class CuttingProxy:
    """Stands before the server. Once `armed`, it lets a commit with its notice through, and not the answer."""

    def __init__(self, port: int) -> None:
        self.armed = False
        self.cuts = 0
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._to))
            cut = threading.Event()
            for source, target, check in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pump, args=(source, target, check, cut), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, from_client: bool, cut: threading.Event) -> None:
        try:
            while data := source.recv(1 << 16):
                if from_client and self.armed and b",[[" in data:
                    self.armed = False
                    cut.set()
                if cut.is_set() and not from_client:
                    self.cuts += 1
                    break  # the server has answered: it is done
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_S09_a_commit_whose_answer_is_lost_is_not_done_twice(postgres: PostgresServer) -> None:
    postgres.wipe()
    proxy = CuttingProxy(postgres.port)
    store = PostgresStore(postgres.url().replace(f":{postgres.port}/", f":{proxy.port}/"), Ticks())
    owner = running(store, "s")
    running(store, "other")
    proxy.armed = True
    told = delivery("other", message("told", "notify"))
    reply = owner.append(text("once"), batch_id="b", deliveries=(told,))
    assert (proxy.cuts, reply.first_seq) == (1, 4)
    proxy.armed = True
    replies = store.execute_batch(  # the second of one session: its batch id alone would not tell
        [Append("s", owner.epoch, 4, "c", (text("one"),)), Append("s", owner.epoch, 5, "d", (text("two"),))]
    )
    assert [r.head for r in replies] == [5, 6]
    proxy.armed = True  # nothing is locked by the first request of a tree: its id tells
    created = store.execute(Create("new", "default", "make", start("new"), (message("m"),)))
    assert (created.head, proxy.cuts) == (1, 3)
    assert log(store, "s") == [1, 2, 3, 4, 5, 6]
    assert [m.message_id for m in store.execute(Pending("other")).messages] == ["told"]
    assert len(store.execute(Query()).rows) == 3
    store.close()
    proxy.close()


def test_a_frozen_server_process_holds_nobody_for_ever(store: PostgresStore, postgres: PostgresServer) -> None:
    owner = running(store, "s")
    store._watchdog = Watchdog(limit=0.8)
    db = store._db
    assert db is not None
    frozen = db.info.backend_pid
    os.kill(frozen, signal.SIGSTOP)
    try:
        started = time.monotonic()
        assert owner.append(text("x")).first_seq == 4
        assert time.monotonic() - started < 8
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert log(store, "s") == [1, 2, 3, 4]


def test_a_row_that_somebody_holds_is_waited_for_within_a_bound(postgres: PostgresServer) -> None:
    postgres.wipe()
    store = PostgresStore(postgres.url(), Ticks(), retry=0.6)
    owner, free = running(store, "s"), running(store, "free")
    with postgres.connect() as other, other.transaction():
        other.execute("SELECT 1 FROM polypod.sessions WHERE id = 's' FOR UPDATE")
        started = time.monotonic()
        with pytest.raises(StoreUnavailable, match="lock"):
            owner.append(text("x"), batch_id="b")
        assert time.monotonic() - started < 5
        free.append(text("goes on"))
        replies = store.execute_batch(  # one that waits spoils no other
            [
                Append("s", owner.epoch, owner.head, "b", (text("x"),)),
                Append("free", free.epoch, free.head, "c", (text("goes on"),)),
            ]
        )
        assert [type(r) for r in replies] == [StoreUnavailable, Appended], replies
    assert owner.append(text("x"), batch_id="b").first_seq == 4
    store.close()


def test_a_server_that_is_away_is_told_within_a_bound_and_without_the_password(postgres: PostgresServer) -> None:
    postgres.wipe()
    store = PostgresStore(postgres.url(), Ticks(), retry=0.5)
    owner = running(store, "s")
    postgres.stop()
    try:
        started = time.monotonic()
        for act in (lambda: owner.append(text("x")), lambda: read_log(store, "s"), lambda: open_store(postgres.url())):
            with pytest.raises(StoreUnavailable) as away:
                act()
            assert f"127.0.0.1:{postgres.port}" in str(away.value)
            assert PASSWORD not in str(away.value)
            assert away.value.__cause__ is None
        assert time.monotonic() - started < 10
    finally:
        postgres.start()
    assert owner.append(text("x")).first_seq == 4
    store.close()


# --- addresses --------------------------------------------------------------------------------------

SECRET = "hunter2%40x"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@127.0.0.1:1/db",
        f"postgresql://me:{SECRET}@127.0.0.1:port/db",
        f"postgresql://me:{SECRET}@nowhere.invalid/db",
        f"postgresql://me:{SECRET}@127.0.0.1/db?nonsense=1",
        f"postgresql://me:{SECRET}%zz@127.0.0.1/db",
        f"mysql://me:{SECRET}@127.0.0.1/db",
    ],
)
@pytest.mark.parametrize("act", [open_store, open_reader, damage_of])
def test_G06_no_password_is_in_any_error(url: str, act: Callable[[str], Any]) -> None:
    with pytest.raises(StoreError) as told:
        act(url)
    assert isinstance(told.value, UnknownStoreUrl | StoreUnavailable)
    assert "hunter2" not in f"{told.value} {told.value!r} {told.value.__cause__!r}"


def test_G06_a_wrong_password_and_what_is_shown(postgres: PostgresServer) -> None:
    url = postgres.url()
    wrong = url.replace(quote(PASSWORD, safe=""), "wrong-one")
    with pytest.raises(StoreUnavailable, match="authentication failed") as refused:
        open_store(wrong)
    assert "wrong-one" not in str(refused.value)
    assert shown(url) == f"postgresql://polypod@127.0.0.1:{postgres.port}/postgres"
    assert PASSWORD not in repr(here(url)) + here(url).clean(f"{url} {PASSWORD} {quote(PASSWORD, safe='')}")


def test_the_driver_is_imported_for_such_a_url_only() -> None:
    code = (
        "import sys, tempfile; from session_store.opening import open_store, open_reader, damage_of\n"
        "url = f'sqlite://{tempfile.mkdtemp()}/store.db'\n"
        "open_store(url).close(); open_reader(url).close(); damage_of(url); print('psycopg' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# --- the schema -------------------------------------------------------------------------------------


def test_the_schema_is_made_once_by_whoever_comes_first(postgres: PostgresServer) -> None:
    url = postgres.database("fresh")
    assert (open_reader(url), damage_of(url)) == (None, None)
    with ThreadPoolExecutor(6) as pool:
        stores = list(pool.map(lambda _: PostgresStore(url, Ticks()), range(6)))
    assert sorted(store._tables.writer for store in stores) == [1, 2, 3, 4, 5, 6]
    owner = running(stores[0], "s")
    assert stores[5].execute(Read("s")).head == owner.head
    for store in stores:
        store.close()
    reader = open_reader(url)
    assert reader is not None
    assert len(reader.execute(Query()).rows) == 1
    reader.close()
    assert damage_of(url) == []


def test_a_newer_schema_is_refused_with_both_versions_and_nothing_touched(postgres: PostgresServer) -> None:
    url = postgres.database("newer")
    PostgresStore(url).close()
    with postgres.connect("newer") as db:
        db.execute("UPDATE polypod.meta SET value = %s WHERE key = 'schema'", (SCHEMA_VERSION + 3,))
        before = db.execute("SELECT key, value FROM polypod.meta ORDER BY key").fetchall()
        for act in (PostgresStore, open_reader, damage_of):
            with pytest.raises(NewerSchema) as newer:
                act(url)
            assert (newer.value.detail["found"], newer.value.detail["known"]) == (SCHEMA_VERSION + 3, SCHEMA_VERSION)
        assert db.execute("SELECT key, value FROM polypod.meta ORDER BY key").fetchall() == before


def test_a_database_that_cannot_hold_all_text_or_a_role_that_may_make_nothing_is_told(
    postgres: PostgresServer,
) -> None:
    with postgres.connect() as db:
        db.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
        db.execute("CREATE ROLE poor LOGIN PASSWORD 'poor'")
        db.execute("CREATE DATABASE rich")
    with pytest.raises(StoreUnavailable, match="UTF8"):
        PostgresStore(postgres.url("latin"))
    with pytest.raises(StoreUnavailable, match="must be able to create the schema"):
        PostgresStore(f"postgresql://poor:poor@127.0.0.1:{postgres.port}/rich")


def test_what_is_acknowledged_is_on_disk_whatever_the_servers_default(postgres: PostgresServer) -> None:
    with postgres.connect() as db:
        db.execute("ALTER DATABASE postgres SET synchronous_commit = off")
        try:
            store = PostgresStore(postgres.url())
            assert store._db is not None
            assert store._db.execute("SHOW synchronous_commit").fetchone() == ("on",)
            store.close()
        finally:
            db.execute("ALTER DATABASE postgres RESET synchronous_commit")


# --- damage -----------------------------------------------------------------------------------------

PLACE = "WHERE session = (SELECT no FROM sessions WHERE id = 'bad') AND seq = {seq}"
SPOILED: dict[str, tuple[int, str]] = {
    "a byte lost": (4, "UPDATE entries SET body = substr(body, 2) " + PLACE.format(seq=4)),
    "another text": (5, "UPDATE entries SET body = 'x' " + PLACE.format(seq=5)),
    "gone": (6, "DELETE FROM entries " + PLACE.format(seq=6)),
    "the first gone": (1, "DELETE FROM entries " + PLACE.format(seq=1)),
    "the last gone": (14, "DELETE FROM entries " + PLACE.format(seq=14)),
    "a checksum": (3, "UPDATE entries SET crc = crc + 1 " + PLACE.format(seq=3)),
}
HARMLESS = {
    "fold gone": "UPDATE sessions SET fold = NULL WHERE id = 'bad'",
    "fold spoiled": "UPDATE sessions SET fold = 'xxxxxxxxxxxxxxx' WHERE id = 'bad'",
    "head behind": "UPDATE sessions SET head = 7 WHERE id = 'bad'",
    "config gone": "DELETE FROM configs WHERE no = (SELECT no FROM sessions WHERE id = 'bad')",
}


def spoiled(postgres: PostgresServer, sql: str) -> PostgresStore:
    """A store with the sessions `good` and `bad`, of 14 entries each, after `sql`."""
    postgres.wipe()
    store = PostgresStore(postgres.url(), Ticks())
    for session in ("good", "bad"):
        owner = running(store, session)
        for number in range(8):
            owner.append(text(f"{session} {number}"))
        owner.append(event_item(event("c", 4)))
        owner.ask("q1", "a", "b")
        deliver(store, session, message("more", "notify"))
    store.close()
    with postgres.connect() as db:
        db.execute("SET search_path = polypod")
        assert db.execute(sql.encode()).rowcount == 1
    return PostgresStore(postgres.url(), Ticks())


@pytest.mark.parametrize("kind", SPOILED)
def test_S02_damage_is_told_with_its_place_and_other_sessions_open(postgres: PostgresServer, kind: str) -> None:
    seq, sql = SPOILED[kind]
    store = spoiled(postgres, sql)
    with pytest.raises(StoreDamaged) as damaged:
        read_log(store, "bad")
    assert (damaged.value.detail["session"], damaged.value.detail["seq"]) == ("bad", seq)
    good = Owner.of(store, "good")
    good.append(text("goes on"), deliveries=(delivery("bad", event("good", 1)),))
    store.close()
    (found,) = check_postgres(here(postgres.url()))
    assert (found.session, found.seq, found.harmless) == ("bad", seq, False)


@pytest.mark.parametrize("kind", HARMLESS)
def test_S12_what_follows_from_the_log_may_be_lost(postgres: PostgresServer, kind: str) -> None:
    store = spoiled(postgres, HARMLESS[kind])
    assert all(d.harmless for d in check_postgres(here(postgres.url())))
    lease = store.execute(Open("bad", 0))
    assert (lease.head, [m.message_id for m in lease.messages]) == (14, ["more"])
    Owner.of(store, "bad").append(text("goes on"))
    after = row(store, "bad")
    assert (after.outcome, after.config) == ("waiting_on_user", row(store, "good").config)
    assert log(store, "bad") == list(range(1, 16))
    store.close()
    assert [d for d in check_postgres(here(postgres.url())) if kind != "config gone"] == []


def test_what_postgres_cannot_keep_is_refused_and_not_tried_again(store: PostgresStore) -> None:
    owner = running(store, "s")
    started = time.monotonic()
    for bad in ("a\0b", "\ud800"):
        with pytest.raises(ConditionFailed) as refused:
            deliver(store, "s", message(bad, "notify"))
        assert refused.value.reason == "invalid"
    assert time.monotonic() - started < 2
    owner.append(text("with \0 in an entry, which is bytes"))
    assert len(read_log(store, "s")) == 4
