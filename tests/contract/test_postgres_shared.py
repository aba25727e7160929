"""Several store actors on one PostgreSQL database: what one does, the others respect."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from session_store.backends.postgres import PostgresStore
from session_store.backends.postgres_check import check_postgres
from session_store.backends.postgres_link import Address, address_of, connect
from session_store.backends.postgres_locks import Contended, Locks
from session_store.backends.postgres_owner import DatabaseOwned, DatabaseOwnership
from session_store.backends.postgres_schema import ADVISORY, TREE_LOCK
from session_store.backends.postgres_tables import PostgresTables
from session_store.entries import AssistantItems
from session_store.errors import ConditionFailed, HeadMoved, Refused, StaleEpoch, StoreDamaged
from session_store.items import Text
from session_store.reading import read_log
from session_store.requests import (
    Append,
    ClaimDirectory,
    Create,
    Deliver,
    Delivery,
    FindMessage,
    Follow,
    Open,
    Parent,
    Pending,
    PodLimits,
    Query,
    Read,
)
from session_store.state import QuestionRecord
from tests.support.postgres import PostgresServer
from tests.support.store import Owner, Ticks, create, deliver, log, message, row, running, start, text

Pair = tuple[PostgresStore, PostgresStore]


@pytest.fixture
def stores(postgres: PostgresServer) -> Iterator[Pair]:
    postgres.wipe()
    pair = PostgresStore(postgres.url(), Ticks()), PostgresStore(postgres.url(), Ticks())
    yield pair
    for store in pair:
        store.close()
    assert check_postgres(here(postgres.url())) == []


def here(url: str) -> Address:
    address = address_of(url)
    assert address is not None
    return address


def test_S07_a_writer_that_another_store_actor_has_fenced_is_refused(stores: Pair) -> None:
    a, b = stores
    old = running(a, "s")
    new = Owner.of(b, "s")
    with pytest.raises(StaleEpoch):
        old.append(text("late"))
    assert new.append(text("goes on")).head == old.head + 1
    with pytest.raises(StaleEpoch):
        a.execute(Append("s", old.epoch, new.head, "x", (text("late"),)))
    with pytest.raises(HeadMoved):
        a.execute(Append("s", new.epoch, old.head, "y", (text("late"),)))
    assert log(a, "s") == log(b, "s") == list(range(1, new.head + 1))


def test_an_older_directory_opens_nothing_through_any_store_actor(stores: Pair) -> None:
    a, b = stores
    first = a.execute(ClaimDirectory()).epoch
    create(a, "s")
    second = b.execute(ClaimDirectory(alone=True)).epoch
    assert second == first + 1
    for store in stores:
        with pytest.raises(StaleEpoch):
            store.execute(Open("s", first))
    assert a.execute(Open("s", second)).epoch == 1
    owner = Owner(a, "s", 1, 1)
    assert b.execute(ClaimDirectory(alone=True, held=("s",))).epoch == second + 1
    assert row(a, "s").owned
    assert b.execute(ClaimDirectory(alone=True)).epoch == second + 2
    with pytest.raises(StaleEpoch):  # its lease was given up
        owner.append(text("late"))


def test_deliveries_of_both_reach_the_inbox_once_and_in_one_order(stores: Pair) -> None:
    a, b = stores
    owner = running(a, "s")
    for number in range(6):
        deliver(stores[number % 2], "s", message(f"m{number}", "notify"))
        assert deliver(stores[(number + 1) % 2], "s", message(f"m{number}", "notify")).existed
    seen = [m.message_id for m in b.execute(Pending("s")).messages]
    assert seen == [f"m{n}" for n in range(6)]
    reply = owner.append(text("x"), consumes=tuple(seen[:3]))
    assert [m.message_id for m in reply.messages if m.position > 3] == seen[3:]
    assert b.execute(FindMessage("s", "m0")).state == "consumed"
    with pytest.raises(ConditionFailed):
        Owner.of(b, "s").append(text("y"), consumes=("m0",))


def test_a_name_and_a_place_are_given_once(stores: Pair) -> None:
    """Two store actors make children of one parent at the same time."""
    a, _ = stores
    parent = running(a, "p")
    from_parent, limits = Parent("p", parent.epoch, parent.run_id), PodLimits(max_children=5)
    create_at = threading.Barrier(8)

    def child(number: int, name: str = "") -> Create:
        first, told = start(f"c{number}"), (message("task"),)
        return Create(f"c{number}", "default", f"make {number}", first, told, name, from_parent, limits=limits)

    def make(number: int) -> str:
        create_at.wait()
        try:
            stores[number % 2].execute(child(number, f"n{number // 2}"))
        except ConditionFailed as error:
            return error.reason
        return "made"

    with ThreadPoolExecutor(8) as pool:
        said = Counter(pool.map(make, range(8)))
    assert said == {"made": 4, "name_taken": 4}
    assert row(a, "p").children == 4
    stores[1].execute(child(20))
    with pytest.raises(ConditionFailed) as refused:
        a.execute(child(21))
    assert refused.value.reason == "limit"


def test_the_same_create_through_both_makes_one_session(stores: Pair) -> None:
    def make(number: int) -> tuple[str, bool]:
        reply = stores[number % 2].execute(Create(f"s{number}", "default", "the same", start(f"s{number}")))
        return reply.session, reply.existed

    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(make, range(8)))
    assert len({session for session, _ in made}) == 1
    assert len(stores[0].execute(Query()).rows) == 1


class Stress:
    """Writers, openers and senders on a few sessions through two store actors; what was acknowledged is noted."""

    def __init__(self, stores: Pair, seed: int) -> None:
        self.stores = stores
        self.seed = seed
        self.until = time.monotonic() + 2.5
        self.guard = threading.Lock()
        self.appended: dict[str, list[str]] = {f"s{n}": [] for n in range(3)}
        self.sent: dict[str, set[str]] = {name: set() for name in self.appended}
        self.refused: Counter[str] = Counter()
        for name in self.appended:
            create(stores[0], name)

    def run(self) -> None:
        kinds: list[Callable[[random.Random, str], None]] = [self.write, self.write, self.write, self.send]
        with ThreadPoolExecutor(8) as pool:
            for future in [pool.submit(self.work, kinds[n % 4], n) for n in range(8)]:
                future.result()

    def work(self, act: Callable[[random.Random, str], None], number: int) -> None:
        chance = random.Random(f"{self.seed} {number}")
        turn = 0
        while time.monotonic() < self.until:
            turn += 1
            try:
                act(chance, f"{number}.{turn}")
            except Refused as error:
                self.refused[error.code] += 1

    def store(self, chance: random.Random) -> PostgresStore:
        return self.stores[chance.randrange(2)]

    def write(self, chance: random.Random, key: str) -> None:
        """Open, append some batches through either store (each twice, as after a lost answer), until fenced."""
        name = f"s{chance.randrange(3)}"
        lease = self.store(chance).execute(Open(name, 0))
        head, waiting = lease.head, list(lease.messages)
        for number in range(chance.randrange(1, 6)):
            word = f"{key}.{number}"
            other = f"s{chance.randrange(3)}"
            told = (Delivery(other, message(f"told {word}", "notify")),) if other != name else ()
            taken = tuple(m.message_id for m in waiting[:2])
            request = Append(name, lease.epoch, head, word, (text(word),), told, taken)
            reply = self.store(chance).execute(request)
            with self.guard:
                self.appended[name].append(word)
                if told:
                    self.sent[other].add(f"told {word}")
            again = self.store(chance).execute(request)
            assert (again.first_seq, again.head) == (reply.first_seq, reply.head)
            head, waiting = reply.head, [m for m in again.messages if m.message_id not in taken]

    def send(self, chance: random.Random, key: str) -> None:
        name = f"s{chance.randrange(3)}"
        sent = message(f"sent {key}", "notify")
        first = self.store(chance).execute(Deliver(name, sent))
        with self.guard:
            self.sent[name].add(sent.message_id)
        assert self.store(chance).execute(Deliver(name, sent)).position == first.position

    def check(self, postgres: PostgresServer) -> None:
        for name, words in self.appended.items():
            entries = read_log(self.stores[0], name)
            assert [e.seq for e in entries] == list(range(1, len(entries) + 1))
            said = [e.items[0].text for e in entries if isinstance(e, AssistantItems) and isinstance(e.items[0], Text)]
            assert Counter(said) == Counter(words), self.seed  # everything acknowledged once, nothing else
            for message_id in self.sent[name]:
                assert self.stores[1].execute(FindMessage(name, message_id)).state in ("pending", "consumed")
        with postgres.connect() as db:
            db.execute("SET search_path = polypod")
            back = db.execute(
                "SELECT count(*) FROM (SELECT epoch < lag(epoch) OVER (PARTITION BY session ORDER BY seq) AS back"
                " FROM entries) AS e WHERE back"
            ).fetchone()
            doubled = db.execute(
                "SELECT count(*) FROM (SELECT 1 FROM messages GROUP BY session, position HAVING count(*) > 1) AS d"
            ).fetchone()
        assert (back, doubled) == ((0,), (0,))  # no fenced writer has written after its successor


@pytest.mark.parametrize("seed", [1, 2])
def test_S07_S08_S09_stress_from_threads_over_two_store_actors(
    stores: Pair, postgres: PostgresServer, seed: int
) -> None:
    stress = Stress(stores, seed)
    stress.run()
    assert sum(map(len, stress.appended.values())) > 50
    assert stress.refused["stale_epoch"] > 0
    stress.check(postgres)


def test_a_session_that_another_changes_all_the_time_is_written_in_the_end(stores: Pair) -> None:
    """What a request turns out to need late (here the root of its tree) may be in another's hands."""
    a, b = stores
    root = running(a, "root")
    child = root.spawn("c")
    stop = threading.Event()

    def disturb() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            deliver(b, "root", message(f"n{number}", "notify"))

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for number in range(20):  # a person's prompt resets a count on the root
            deliver(a, "c", message(f"p{number}"))
    finally:
        stop.set()
        thread.join()
    assert child is not None
    assert len([m for m in a.execute(Pending("c")).messages if m.message_id.startswith("p")]) == 20


def test_followers_hear_of_another_store_actors_commits(stores: Pair) -> None:
    a, b = stores
    owner = running(a, "s")
    cursor = b.execute(Follow(-1)).cursor
    owner.append(text("x"))
    heard = b.execute(Follow(cursor, 5.0))
    assert [(c.session, c.head) for c in heard.commits] == [("s", owner.head)]
    started = time.monotonic()
    waiting = ThreadPoolExecutor(1).submit(b.execute, Follow(heard.cursor, 10.0))
    time.sleep(0.2)
    deliver(a, "s", message("n", "notify"))
    assert [c.session for c in waiting.result().commits] == ["s"]
    assert time.monotonic() - started < 2  # told, not found by polling


def test_a_notice_that_was_lost_is_found_by_polling(stores: Pair, postgres: PostgresServer) -> None:
    a, b = stores
    owner = running(a, "s")
    cursor = b.execute(Follow(-1)).cursor
    with postgres.connect() as db:  # both listeners are cut off, and a commit falls into the gap
        db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        db.execute("UPDATE polypod.sessions SET changed = pg_current_xact_id(), writer = 0, version = version + 1")
    heard = b.execute(Follow(cursor, 10.0))
    assert [(c.session, c.head) for c in heard.commits] == [("s", owner.head)]


def test_one_refusal_spoils_no_other_of_its_batch(stores: Pair) -> None:
    store, other = stores
    a, b = running(store, "a"), running(store, "b")
    replies = store.execute_batch(
        [
            Append("a", a.epoch, 3, "1", (text("x"),)),
            Append("b", b.epoch, 99, "1", (text("x"),)),
            Append("a", a.epoch, 3, "2", (text("x"),)),
            Append("nobody", 1, 1, "1"),
            Deliver("b", message("no\0text", "notify")),
            Append("b", b.epoch, 3, "3", (text("x"),)),
            ClaimDirectory(),
            Append("a", a.epoch, 4, "4", (text("y"),)),
        ]
    )
    assert [getattr(r, "head", type(r).__name__) for r in replies] == [
        *(4, "HeadMoved", "HeadMoved", "UnknownSession", "ConditionFailed", 4, "DirectoryEpoch", 5)
    ]
    assert (log(other, "a"), log(other, "b")) == ([1, 2, 3, 4, 5], [1, 2, 3, 4])
    assert other.execute(Append("a", 1, 4, "4", (text("y"),))).first_seq == 5


def test_a_request_refused_after_it_wrote_leaves_nothing_and_spoils_no_other(
    stores: Pair, postgres: PostgresServer
) -> None:
    """The root of its tree turns out to be damaged."""
    store, other = stores
    root, good = running(store, "root"), running(store, "good")
    root.spawn("c")
    child = Owner.of(store, "c")
    with postgres.connect() as db:
        db.execute("SET search_path = polypod")
        db.execute("CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM entries WHERE false")
        place = "session = (SELECT no FROM sessions WHERE id = 'root') AND seq = 3"
        db.execute(f"INSERT INTO kept SELECT * FROM entries WHERE {place}".encode())
        db.execute(f"DELETE FROM entries WHERE {place}".encode())
        db.execute("UPDATE sessions SET version = version + 1 WHERE id = 'root'")
        replies = other.execute_batch(
            [
                Append("good", good.epoch, good.head, "1", (text("x"),)),
                Append("c", child.epoch, child.head, "1", (text("x"),)),
                Append("good", good.epoch, good.head + 1, "2", (text("y"),)),
            ]
        )
        assert [isinstance(r, StoreDamaged) for r in replies] == [False, True, False]
        assert (row(store, "c").head, row(store, "good").head) == (child.head, good.head + 2)
        assert store.execute(Read("c")).head == child.head
        db.execute("INSERT INTO entries SELECT * FROM kept")
        db.execute("DROP TABLE kept")


def test_a_session_that_changed_between_its_reading_and_its_writing_is_not_written(
    stores: Pair, postgres: PostgresServer
) -> None:
    a, b = stores
    running(a, "s")
    running(a, "busy")
    db = connect(here(postgres.url()))
    tables = PostgresTables()
    with db.pipeline():
        tables.enter(db, Locks(), alone=False)
        state = tables.find("s")
        busy = tables.find("busy")
        assert state is not None
        assert busy is not None
        deliver(b, "s", message("n", "notify"))
        with pytest.raises(Contended) as changed:
            tables.save(state)
        with postgres.connect() as other, other.transaction():
            other.execute("SELECT 1 FROM polypod.sessions WHERE id = 'busy' FOR UPDATE")
            with pytest.raises(Contended) as held:
                tables.put_question(busy, "q", QuestionRecord())
            other.execute("SELECT pg_advisory_xact_lock(%s, %s)", (ADVISORY, TREE_LOCK))
            with pytest.raises(Contended) as tree:
                tables.open_pods()
        db.execute("ROLLBACK")
    db.close()
    assert [c.value.session for c in (changed, held, tree)] == ["s", "busy", None]
    assert [m.message_id for m in a.execute(Pending("s")).messages] == ["n"]


def test_a_database_has_one_owner_until_it_goes(postgres: PostgresServer) -> None:
    first = DatabaseOwnership(postgres.url())
    with pytest.raises(DatabaseOwned, match=r"owned by polypod owner \d+ on .*: use the gateway"):
        DatabaseOwnership(postgres.url(), wait=0.2)
    first.close()
    DatabaseOwnership(postgres.url()).close()
