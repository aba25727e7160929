"""What a store counts, and what it says of all sessions: each thing once, for every backend alike."""

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from session_store.backends.counted import MOST_ROWS
from session_store.backends.memory import MemoryStore
from session_store.backends.postgres import PostgresStore
from session_store.backends.sqlite import SqliteStore
from session_store.backends.sqlite_schema import MIGRATIONS
from session_store.counters import FAMILIES, SEPARATOR, SUM
from session_store.entries import (
    AssistantItems,
    Extension,
    Invoke,
    LlmUsage,
    Question,
    QuestionClosed,
    RunEnd,
    SegmentEnd,
    SegmentStart,
    SystemItems,
    ToolResults,
)
from session_store.errors import ConditionFailed, HeadMoved, StaleEpoch
from session_store.items import Problem, SystemItem, Text, ToolCall, ToolResult
from session_store.requests import Annotate, Append, Census, Counters, Create, Open, Store
from session_store.rows import PodCount, Waiting
from session_store.transfer import export_lines, import_lines
from tests.support.postgres import PostgresServer
from tests.support.store import Owner, Ticks, create, deliver, delivery, event, event_item, message, running

CONFIG = {
    "profile": "worker",
    "tools": ["Read"],
    "model": {"name": "fast", "prices": {"input": 2.0, "cache_read": 1.0, "output": 10.0}},
}


def counted(store: Store) -> dict[str, int]:
    """Counters by a key that reads well; buckets and sums of distributions left out."""
    values = store.execute(Counters()).values
    timed = {f.name for f in FAMILIES if f.bounds}
    return {k.replace(SEPARATOR, " "): n for k, n in values.items() if k.split(SEPARATOR)[0] not in timed}


def times(store: Store, name: str) -> tuple[int, int]:
    """How many durations a distribution holds, and their sum in ms."""
    found = {k: n for k, n in store.execute(Counters()).values.items() if k.split(SEPARATOR)[0] == name}
    sums = sum(n for k, n in found.items() if k.endswith(SEPARATOR + SUM))
    return sum(found.values()) - sums, sums


def more(before: dict[str, int], store: Store) -> dict[str, int]:
    return {k: n - before.get(k, 0) for k, n in counted(store).items() if n != before.get(k, 0)}


def configured(store: Store, session: str) -> Owner:
    first = SegmentStart(session, CONFIG, "be good", (), 1)
    store.execute(Create(session, "default", f"create:{session}", first, (message(f"p:{session}"),)))
    owner = Owner.of(store, session)
    owner.begin(f"p:{session}")
    return owner


def test_a_run_is_counted_by_what_the_log_says(store: Store) -> None:
    owner = configured(store, "s")
    before = counted(store)
    reply = owner.append(
        AssistantItems("r", (ToolCall("c", "Read", {}), ToolCall("d", "Invented", {}))),
        LlmUsage("r", 1, 1_000, 400, 0, 50, 70, "fast-2026", first_token=20),
    )
    call = reply.first_seq
    owner.append(ToolResults((ToolResult(call, 0, "c", "Read", "ok", "read"),)))
    owner.append(ToolResults((ToolResult(call, 1, "d", "Invented", "error", "no such tool"),)))
    owner.append(SystemItems((SystemItem("reminder", "m", {}, "mind your tasks"),)))
    owner.end()
    assert more(before, store) == {
        "log_entries assistant_items": 1,
        "log_entries llm_usage": 1,
        "log_entries tool_results": 2,
        "log_entries system_items": 1,
        "log_entries run_end": 1,
        "requests fast ok": 1,
        "tokens fast input pod": 1_000,
        "tokens fast cache_read pod": 400,
        "tokens fast output pod": 50,
        "cost fast pod": 2_100_000,  # (600 * 2 + 400 * 1 + 50 * 10) / 10**6, in billionths
        "tool_calls Read ok": 1,
        "tool_calls other error": 1,
        "system_items reminder": 1,
        "reminders": 1,
        "turns finished": 1,
    }
    assert times(store, "request") == (1, 70)
    assert times(store, "first_token") == (1, 20)
    assert times(store, "tool")[0] == 2


def test_a_batch_sent_again_counts_once_and_a_refused_one_as_refused(store: Store) -> None:
    owner = running(store, "s")
    before = counted(store)
    request = Append("s", owner.epoch, owner.head, "again", (AssistantItems("r", (Text("hello"),)),))
    first = store.execute(request)
    assert store.execute(request) == first
    with pytest.raises(HeadMoved):
        store.execute(Append("s", owner.epoch, 1, "elsewhere", (RunEnd("r", "finished"),)))
    with pytest.raises(StaleEpoch):
        store.execute(Append("s", 0, first.head, "old", (RunEnd("r", "finished"),)))
    with pytest.raises(ConditionFailed):
        store.execute(Append("s", owner.epoch, first.head, "taken", (), consumes=("nobody",)))
    assert more(before, store) == {
        "log_entries assistant_items": 1,
        "refusals append head_moved": 1,
        "refusals append stale_epoch": 1,
        "refusals append conflict": 1,
    }


def test_a_create_and_a_delivery_sent_again_count_once(store: Store) -> None:
    for _ in range(2):
        create(store, "s", message("p"))
        deliver(store, "s", message("q"))
    assert counted(store) == {"log_entries segment_start": 1, "spawns root": 1, "messages prompt": 2}


def test_pod_events_count_when_sent_and_are_timed_when_taken(store: Store) -> None:
    parent = running(store, "p")
    parent.spawn("c")
    child = Owner.of(store, "c")
    child.begin("task:c")
    before = counted(store)
    told = event("c", child.head + 1)
    child.append(
        RunEnd(child.run_id, "errored", Problem("died", "five times")),
        deliveries=(delivery("p", told), delivery("nowhere", event("c", 99, kind="what?"))),
    )
    assert more(before, store) == {
        "log_entries run_end": 1,
        "turns errored": 1,
        "give_ups": 1,
        "messages pod_event": 1,
        "pod_events turn_ended": 1,
        "messages_undeliverable pod_event": 1,
        "pod_events other": 1,
    }
    assert times(store, "pod_event_delivery")[0] == 0
    parent.append(event_item(told), consumes=(told.message_id,))
    assert times(store, "pod_event_delivery")[0] == 1


def test_spawns_wakes_restarts_and_parks(store: Store) -> None:
    create(store, "s", message("p"))
    owner = Owner.of(store, "s")
    owner.begin("p")
    owner.end()
    owner.release()
    deliver(store, "s", message("q"))
    store.execute(Open("s", 0, owner.epoch))
    again = Owner(store, "s", owner.epoch + 1, owner.head)
    again.begin("q")
    found = counted(store)
    assert (found["spawns root"], found["parks"], found["wakes"], "restarts" in found) == (1, 1, 1, False)
    assert (times(store, "spawn")[0], times(store, "wake")[0]) == (1, 1)
    store.execute(Open("s", 0, again.epoch))  # its process was lost
    store.execute(Open("s", 0, again.epoch))  # the answer was, too
    store.execute(Open("s", 0))  # the Directory takes it, to write an end
    found = counted(store)
    assert (found["wakes"], found["restarts"]) == (1, 1)


def test_questions_workers_and_extractions(store: Store) -> None:
    owner = configured(store, "s")
    before = counted(store)
    owner.append(Question("q", "clarify", "which?"), RunEnd(owner.run_id, "waiting_on_user"), concluded=False)
    owner.append(QuestionClosed("q", "superseded", "user"), Invoke("r2", "prompt"))
    usage: dict[str, Any] = {"input": 9, "cache_read": 0, "cache_write": 0, "output": 2, "latency": 5}
    noted = (
        (Extension("worker.usage", {"worker": "extract", "model": "small", **usage}), "u"),
        (Extension("memory.extract.range", {"start": 1, "end": 2}), "x"),
        (Extension("memory.extract", {"processed_through_entry": 2, "staging_id": "x"}), "x"),
        (Extension("worker.usage", {"malformed": True}), "v"),
    )
    for _ in range(2):
        for extension, key in noted:
            store.execute(Annotate("s", extension, key, 2**62))
    assert more(before, store) == {
        "log_entries question": 1,
        "log_entries run_end": 1,
        "log_entries question_closed": 1,
        "log_entries invoke": 1,
        "log_entries extension": 4,
        "turns waiting_on_user": 1,
        "turns_started prompt": 1,
        "questions clarify": 1,
        "question_ends superseded": 1,
        "requests small ok": 1,
        "tokens small input extract": 9,
        "tokens small output extract": 2,
        "extractions started": 1,
        "extractions finished": 1,
    }
    assert times(store, "extraction_lag")[0] == 1


def test_compactions_by_what_made_them_and_what_came_of_them(store: Store) -> None:
    owner = configured(store, "s")
    before = counted(store)
    record = {"compaction_id": "k", "trigger": "request", "before": 900}
    failed = {**record, "trigger": "order", "error": {"type": "no_progress", "message": "nothing to gain"}}
    start = SegmentStart("s", CONFIG, "be good", (), 1)
    owner.append(SegmentEnd(), start, Extension("compaction", {**record, "after": 90}))
    owner.append(Extension("compaction", failed))
    found = more(before, store)
    assert {k: n for k, n in found.items() if k.startswith("compactions")} == {
        "compactions request finished": 1,
        "compactions order no_progress": 1,
    }


def test_an_import_was_counted_where_it_was_made(store: Store) -> None:
    elsewhere = MemoryStore(Ticks())
    running(elsewhere, "s").end()
    import_lines(store, export_lines(elsewhere, "s"))
    assert counted(store) == {}


def test_the_census(store: Store) -> None:
    assert store.execute(Census()).pods == ()
    owner = configured(store, "s")
    owner.ask("q", kind="clarify")
    create(store, "idle")
    create(store, "busy", message("one"), message("two"))
    deliver(store, "s", event("child", 3))
    census = store.execute(Census())
    assert set(census.pods) == {
        PodCount("waiting_on_user", "worker", 1, 1, 1),
        PodCount("idle", "", 1, 0, 0),
        PodCount("running", "", 1, 2, 2),
    }
    assert {(w.kind, w.number) for w in census.messages} == {("prompt", 2), ("pod_event", 1)}
    (asked,) = census.questions
    assert isinstance(asked, Waiting)
    assert (asked.kind, asked.number) == ("clarify", 1)
    assert asked.oldest > 1_700_000_000_000


def test_counters_survive_a_restart_and_are_made_one_row_now_and_then(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    found: dict[str, int] = {}
    for life in range(3):
        store = SqliteStore(path, Ticks())
        create(store, f"s{life}")
        with pytest.raises(ConditionFailed):  # kept with the next commit
            store.execute(Create("s0", "default", f"other {life}", SegmentStart("s0", {}, "", (), 1)))
        for n in range(MOST_ROWS // 2):
            create(store, f"s{life}-{n}")
        found = counted(store)
        store.close()
    assert found["spawns root"] == 3 * (MOST_ROWS // 2 + 1)
    assert found["refusals create conflict"] == 3
    rows = sqlite3.connect(path).execute("SELECT count(*) FROM counters").fetchone()[0]
    assert 0 < rows <= MOST_ROWS


def test_a_store_of_the_first_version_gets_its_profiles_and_its_counters(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    made = SqliteStore(path, Ticks())
    configured(made, "s")
    made.close()
    db = sqlite3.connect(path)
    db.executescript("DROP TABLE counters; ALTER TABLE sessions DROP COLUMN profile; PRAGMA user_version = 1")
    db.close()
    assert len(MIGRATIONS) >= 2
    store = SqliteStore(path, Ticks())
    assert store.execute(Counters()).values == {}
    assert [p.profile for p in store.execute(Census()).pods] == ["worker"]
    store.close()


def test_damage_to_the_counters_stops_nothing_but_the_counting(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    made = SqliteStore(path, Ticks())
    create(made, "s")
    made.close()
    db = sqlite3.connect(path)
    db.execute("INSERT INTO counters (counts) VALUES (x'c1'), (x'93'), ('words'), (1)")
    db.commit()
    db.close()
    store = SqliteStore(path, Ticks())
    create(store, "t")
    assert counted(store)["spawns root"] == 2
    store.close()


def test_a_claim_beyond_all_numbers_spoils_no_counter(store: Store) -> None:
    owner = configured(store, "s")
    for n in range(3):
        owner.append(LlmUsage(f"r{n}", 1, 10**30, 0, 0, 1, 5))
    assert counted(store)["tokens fast input pod"] >= 2**62
    assert counted(store)["tokens fast output pod"] == 3


def test_several_store_actors_count_into_one_database(postgres: PostgresServer) -> None:
    postgres.wipe()
    stores = [PostgresStore(postgres.url(), Ticks()) for _ in range(2)]
    create(stores[0], "s0-0")

    def use(which: int) -> None:
        for n in range(MOST_ROWS + 20):
            create(stores[which], f"s{which}-{n}")
        with pytest.raises(ConditionFailed):
            stores[which].execute(Create("s0-0", "default", f"other {which}", SegmentStart("s0-0", {}, "", (), 1)))
        create(stores[which], f"last-{which}")

    threads = [threading.Thread(target=use, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        found = counted(store)
        assert found["spawns root"] == 2 * (MOST_ROWS + 21)
        assert found["refusals create conflict"] == 2
    with postgres.connect() as db:
        rows = db.execute("SELECT count(*) FROM polypod.counters").fetchone()
    assert rows is not None
    assert 0 < rows[0] <= 2 * MOST_ROWS
    for store in stores:
        store.close()


def test_a_database_of_the_first_version_gets_its_profiles_and_its_counters(postgres: PostgresServer) -> None:
    postgres.wipe()
    made = PostgresStore(postgres.url(), Ticks())
    configured(made, "s")
    made.close()
    with postgres.connect() as db:
        db.execute("DROP TABLE polypod.counters")
        db.execute("ALTER TABLE polypod.sessions DROP COLUMN profile")
        db.execute("UPDATE polypod.meta SET value = 1 WHERE key = 'schema'")
    store = PostgresStore(postgres.url(), Ticks())
    assert store.execute(Counters()).values == {}
    assert [p.profile for p in store.execute(Census()).pods] == ["worker"]
    store.close()
