"""A SQLite store whose file is damaged, newer, full, or cut off at any byte."""

import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from session_store.backends.sqlite import SqliteStore
from session_store.backends.sqlite_schema import SCHEMA_VERSION
from session_store.check import check
from session_store.codec import pack
from session_store.entries import Extension, Question, Rewound, SegmentStart, UserInput
from session_store.errors import ConditionFailed, NewerSchema, StoreDamaged, StoreUnavailable, UnknownSession
from session_store.items import Segment
from session_store.reading import read_log
from session_store.requests import Annotate, Append, Create, Open, Pending, PodLimits, Query, Read
from tests.support.store import (
    Owner,
    Ticks,
    create,
    deliver,
    delivery,
    event,
    event_item,
    log,
    message,
    row,
    running,
    text,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def filled(path: Path) -> Iterator[Path]:
    """Two sessions of some entries, closed."""
    store = SqliteStore(path, Ticks())
    for session in ("good", "bad"):
        owner = running(store, session)
        for number in range(8):
            owner.append(text(f"{session} {number}"))
        owner.append(event_item(event("c", 4)))
        owner.ask("q1", "a", "b")
        deliver(store, session, message("more", "notify"))
    store.close()
    return path


def spoil(path: Path, sql: str, *values: Any) -> None:
    db = sqlite3.connect(path)
    with db:
        assert db.execute(sql, values).rowcount == 1
    db.close()


BAD_PLACE = "(SELECT no << 32 | {seq} FROM sessions WHERE id = 'bad')"
SPOILED: dict[str, tuple[int, str, tuple[Any, ...]]] = {
    "a byte lost": (4, "UPDATE entries SET body = substr(body, 2) WHERE place = " + BAD_PLACE.format(seq=4), ()),
    "half of it": (5, "UPDATE entries SET body = substr(body, 1, 9) WHERE place = " + BAD_PLACE.format(seq=5), ()),
    "another text": (5, "UPDATE entries SET body = CAST('x' AS BLOB) WHERE place = " + BAD_PLACE.format(seq=5), ()),
    "no bytes": (5, "UPDATE entries SET body = 'text' WHERE place = " + BAD_PLACE.format(seq=5), ()),
    "gone": (6, "DELETE FROM entries WHERE place = " + BAD_PLACE.format(seq=6), ()),
    "the first gone": (1, "DELETE FROM entries WHERE place = " + BAD_PLACE.format(seq=1), ()),
    "the last gone": (14, "DELETE FROM entries WHERE place = " + BAD_PLACE.format(seq=14), ()),
    "a checksum": (3, "UPDATE entries SET crc = crc + 1 WHERE place = " + BAD_PLACE.format(seq=3), ()),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_S02_damage_is_told_with_its_place_and_other_sessions_open(filled: Path, kind: str) -> None:
    seq, sql, values = SPOILED[kind]
    spoil(filled, sql, *values)
    store = SqliteStore(filled, Ticks())
    with pytest.raises(StoreDamaged) as damaged:
        read_log(store, "bad")
    assert (damaged.value.detail["session"], damaged.value.detail["seq"]) == ("bad", seq)
    assert damaged.value.detail["reason"]
    assert len(read_log(store, "good")) == 14
    Owner.of(store, "good").append(text("goes on"))
    store.close()
    (found,) = check(filled)
    assert (found.session, found.seq, found.harmless) == ("bad", seq, False)


@pytest.mark.parametrize(
    "body", [b"\x07" + pack({"type": "invoke"}), b"\x01\xff", b"\x01" + pack([1]), b"\x01" + pack({"type": "invoke"})]
)
def test_S02_an_entry_that_cannot_be_decoded_is_told(filled: Path, body: bytes) -> None:
    spoil(filled, f"UPDATE entries SET body = ?, crc = ? WHERE place = {BAD_PLACE.format(seq=5)}", body, crc32(body))
    store = SqliteStore(filled, Ticks())
    with pytest.raises(StoreDamaged) as damaged:
        read_log(store, "bad")
    assert (damaged.value.detail["session"], damaged.value.detail["seq"]) == ("bad", 5)
    store.close()
    assert [(d.session, d.seq) for d in check(filled)] == [("bad", 5)]


def test_a_delivery_to_a_damaged_session_does_not_stop_its_sender(filled: Path) -> None:
    spoil(filled, SPOILED["the last gone"][1])
    store = SqliteStore(filled, Ticks())
    owner = Owner.of(store, "good")
    owner.append(text("x"), deliveries=(delivery("bad", event("good", 1)),))
    replies = store.execute_batch([Open("bad", 0), Append("good", owner.epoch, owner.head, "n", (text("y"),))])
    assert isinstance(replies[0], StoreDamaged)
    assert replies[1].head == owner.head + 1


HARMLESS = {
    "fold gone": "UPDATE sessions SET fold = NULL WHERE id = 'bad'",
    "fold spoiled": "UPDATE sessions SET fold = CAST('xxxxxxxxxxxxxxx' AS BLOB) WHERE id = 'bad'",
    "head behind": "UPDATE sessions SET head = 7 WHERE id = 'bad'",
    "config gone": "DELETE FROM configs WHERE no = (SELECT no FROM sessions WHERE id = 'bad')",
}


def test_S12_X06_that_a_session_was_rewound_is_known_from_its_log(path: Path) -> None:
    """Else an extraction of what was rewound away would be taken."""
    store = SqliteStore(path, Ticks())
    owner = running(store, "bad")
    owner.end("withdrawn")
    owner.append(UserInput((Segment("text", "a"),), "a", "user"), Rewound(5))
    store.close()
    spoil(path, "UPDATE sessions SET fold = NULL, rewound = 0 WHERE id = 'bad'")
    store = SqliteStore(path, Ticks())
    with pytest.raises(ConditionFailed) as refused:
        store.execute(Annotate("bad", Extension("d", {}), "k", 5))
    assert (refused.value.reason, refused.value.detail["rewound"]) == ("rewound", 6)
    store.execute(Annotate("bad", Extension("d", {}), "k", 6))
    store.close()


@pytest.mark.parametrize("kind", HARMLESS)
def test_S12_what_follows_from_the_log_may_be_lost(filled: Path, kind: str) -> None:
    store = SqliteStore(filled, Ticks())
    before = row(store, "bad")
    store.close()
    spoil(filled, HARMLESS[kind])
    assert all(d.harmless for d in check(filled))
    store = SqliteStore(filled, Ticks())
    assert row(store, "bad").config == before.config
    lease = store.execute(Open("bad", 0))
    assert (lease.head, [m.message_id for m in lease.messages]) == (14, ["more"])
    owner = Owner.of(store, "bad")
    owner.append(text("goes on"))
    after = row(store, "bad")
    assert (after.question, after.outcome) == (before.question, before.outcome)
    assert log(store, "bad") == list(range(1, 16))
    store.close()
    assert [d for d in check(filled) if kind != "config gone"] == []


@pytest.mark.parametrize("index", ["sessions_by_id", "messages_by_id", "messages_pending", "sessions_wanting"])
def test_S12_a_missing_index_is_made_again(filled: Path, index: str) -> None:
    db = sqlite3.connect(filled)
    db.execute(f"DROP INDEX {index}")
    db.close()
    store = SqliteStore(filled, Ticks())
    assert [m.message_id for m in store.execute(Open("bad", 0)).messages] == ["more"]
    store.close()
    db = sqlite3.connect(filled)
    assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (index,)).fetchone() == (1,)
    db.close()


def test_S12_side_files_of_sqlite_may_be_lost(path: Path, tmp_path: Path) -> None:
    store = SqliteStore(path, Ticks())
    running(store, "s").append(text("x"))
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(path, copy)
    shutil.copy(f"{path}-wal", copy)
    (copy / "store.db-shm").write_bytes(b"rubbish" * 1000)
    again = SqliteStore(copy / "store.db", Ticks())
    assert log(again, "s") == [1, 2, 3, 4]
    again.close()
    store.close()


def test_a_newer_schema_is_refused_with_both_versions_and_nothing_touched(filled: Path) -> None:
    db = sqlite3.connect(filled)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 3}")
    db.close()
    before = {p.name: p.read_bytes() for p in filled.parent.iterdir()}
    with pytest.raises(NewerSchema) as newer:
        SqliteStore(filled)
    assert (newer.value.detail["found"], newer.value.detail["known"]) == (SCHEMA_VERSION + 3, SCHEMA_VERSION)
    assert {p.name: p.read_bytes() for p in filled.parent.iterdir()} == before


@pytest.mark.parametrize("content", [b"this is no database at all" * 300, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_file_that_is_no_store_is_told_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises((StoreDamaged, NewerSchema)):
        SqliteStore(path)
    assert path.read_bytes() == content


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        SqliteStore(tmp_path / "no" / "store.db")


def test_a_page_of_rubbish_is_told_by_check(path: Path) -> None:
    store = SqliteStore(path, Ticks())
    owner = running(store, "s")
    for number in range(30):
        owner.append(text(str(number) * 900))
    store.close()
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 4096)
    assert check(path)


def test_a_sound_store_has_no_damage_also_in_use(filled: Path) -> None:
    assert check(filled) == []
    store = SqliteStore(filled, Ticks())
    Owner.of(store, "good").append(text("in use"), Question("q2", "clarify", "?"))
    assert check(filled) == []
    store.close()


def test_S01_cut_off_at_any_byte_every_acknowledged_record_is_there_and_no_torn_one(path: Path, tmp_path: Path) -> None:
    store = SqliteStore(path, Ticks())
    create(store, "other")
    wal = Path(f"{path}-wal")
    owner = running(store, "s")
    acknowledged = [(wal.stat().st_size, owner.head, 0)]  # bytes of the log on disk, head, messages of the other
    for number in range(6):
        told = delivery("other", message(f"n{number}", "notify"))
        owner.append(text("x" * 700 * number), deliveries=(told,))
        acknowledged.append((wal.stat().st_size, owner.head, number + 1))
    copy = tmp_path / "cut"
    whole = wal.read_bytes()
    first = acknowledged[0][0]
    cuts = sorted({*range(first, len(whole), 997), *(size + d for size, _, _ in acknowledged for d in (-1, 0, 1))})
    for cut in (c for c in cuts if first <= c <= len(whole)):
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        shutil.copy(path, copy)
        (copy / "store.db-wal").write_bytes(whole[:cut])
        again = SqliteStore(copy / "store.db", Ticks())
        head, told_count = max((h, n) for size, h, n in acknowledged if size <= cut)
        assert (log(again, "s"), cut) == (list(range(1, head + 1)), cut)
        assert len(again.execute(Pending("other")).messages) == told_count  # S10: both or neither
        read_log(again, "s")
        assert Owner.of(again, "s").append(text("goes on")).first_seq == head + 1
        again.close()
    store.close()


def test_S01_a_bit_flipped_in_the_tail_of_the_write_ahead_log_loses_only_what_is_torn(
    path: Path, tmp_path: Path
) -> None:
    store = SqliteStore(path, Ticks())
    owner = running(store, "s")
    wal = Path(f"{path}-wal")
    before = wal.stat().st_size
    owner.append(text("torn"))
    spoiled = bytearray(wal.read_bytes())
    spoiled[before + 100] ^= 0xFF
    (tmp_path / "cut").mkdir()
    shutil.copy(path, tmp_path / "cut")
    (tmp_path / "cut" / "store.db-wal").write_bytes(spoiled)
    again = SqliteStore(tmp_path / "cut" / "store.db", Ticks())
    assert log(again, "s") == [1, 2, 3]
    again.close()
    store.close()


def test_S04_when_the_disk_is_full_nothing_is_half_there_and_it_works_again_after(path: Path) -> None:
    store = SqliteStore(path, Ticks())
    owner = running(store, "s")
    small = running(store, "t")
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages + 3}")
    big = Append("s", owner.epoch, owner.head, "big", (text("x" * 200_000),), consumes=())
    with pytest.raises(StoreUnavailable, match="full"):
        store.execute(big)
    replies = store.execute_batch([big, Append("t", small.epoch, small.head, "small", (text("fits"),))])
    assert isinstance(replies[0], StoreUnavailable)
    assert replies[1].head == 4
    assert (log(store, "s"), row(store, "s").head) == ([1, 2, 3], 3)
    store._db.execute("PRAGMA max_page_count = 1000000")
    assert store.execute(big).first_seq == 4
    assert store.execute(big).first_seq == 4
    store.close()
    assert check(path) == []


FULL = """
import resource, signal, sys
from pathlib import Path
from session_store.backends.sqlite import SqliteStore
from session_store.errors import StoreUnavailable
from tests.support.store import running, text
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = SqliteStore(Path(sys.argv[1]))
owner = running(store, "s")
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
done = 0
for number in range(1000):
    try:
        owner.append(text("x" * 3000), batch_id=str(number))
        done += 1
    except StoreUnavailable as error:
        break
print(done, owner.head, flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(owner.append(text("x" * 3000), batch_id=str(done)).first_seq, flush=True)
"""


def test_S04_a_write_that_the_system_refuses(path: Path) -> None:
    assert resource.RLIMIT_FSIZE
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path), str(600_000)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    count, head = map(int, first.split())
    assert 0 < count < 1000
    assert int(second) == head + 1
    store = SqliteStore(path)
    assert log(store, "s") == list(range(1, head + 2))
    store.close()
    assert check(path) == []


def test_one_refusal_spoils_no_other_of_its_batch(path: Path) -> None:
    store = SqliteStore(path, Ticks())
    a, b = running(store, "a"), running(store, "b")
    replies = store.execute_batch(
        [
            Append("a", a.epoch, 3, "1", (text("x"),)),
            Append("b", b.epoch, 99, "1", (text("x"),)),
            Append("a", a.epoch, 3, "2", (text("x"),)),
            Append("nobody", 1, 1, "1"),
            Append("b", b.epoch, 3, "3", (text("x"),)),
            Append("a", a.epoch, 4, "4", (text("y"),)),
        ]
    )
    assert [getattr(r, "head", type(r).__name__) for r in replies] == [
        4,
        "HeadMoved",
        "HeadMoved",
        "UnknownSession",
        4,
        5,
    ]
    store.close()
    again = SqliteStore(path, Ticks())
    assert (log(again, "a"), log(again, "b")) == ([1, 2, 3, 4, 5], [1, 2, 3, 4])
    assert again.execute(Append("a", 1, 4, "4", (text("y"),))).first_seq == 5
    again.close()


def test_everything_survives_a_restart(path: Path) -> None:
    store = SqliteStore(path, Ticks())
    owner = running(store, "s")
    owner.append(event_item(event("c", 9, "shut_down")))
    owner.ask("q1", "a")
    deliver(store, "s", event("c", 3))
    deliver(store, "s", message("a1", "answer", question_id="q1", choice="a"))
    before = row(store, "s")
    store.close()
    again = SqliteStore(path, Ticks())
    assert row(again, "s") == before
    lease = again.execute(Open("s", 0))
    assert (lease.epoch, [m.message_id for m in lease.messages]) == (2, ["c:3", "a1"])
    assert isinstance(read_log(again, "s")[0], SegmentStart)
    with pytest.raises(UnknownSession):
        again.execute(Read("x"))
    again.close()


def test_ten_thousand_sessions_are_listed_by_page_and_by_need(path: Path) -> None:
    store = SqliteStore(path, Ticks())
    limits = PodLimits(max_pods=10**6)
    start = SegmentStart("s", {}, "", (), 1)
    makes = [
        Create(f"s{i}", "default", f"c{i}", start, (message("m"),) * (not i % 100), limits=limits)
        for i in range(10_000)
    ]
    for first in range(0, len(makes), 500):
        assert all(r.head == 1 for r in store.execute_batch(makes[first : first + 500]))
    started = time.monotonic()
    assert len(store.execute(Query(needs_owner=True, limit=0)).rows) == 100
    assert len(store.execute(Query(status="running", limit=0)).rows) == 100
    assert len(store.execute(Query(limit=100, cursor="9000")).rows) == 100
    assert time.monotonic() - started < 1
    store.close()
