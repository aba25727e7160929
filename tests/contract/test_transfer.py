"""Export and import: whole, exact, one physical line for each record."""

import json
from typing import Any

import pytest

from session_store.backends.memory import MemoryStore
from session_store.codec import pack
from session_store.entries import Extension, PodEnd, SystemItems, Unknown
from session_store.errors import ConditionFailed, UnknownSession
from session_store.reading import read_log
from session_store.requests import Import, Open, Query, Read, Store, StoredEntry
from session_store.rows import Scope
from session_store.transfer import BadExport, export_lines, import_lines
from tests.support.store import Owner, Ticks, create, deliver, event, event_item, message, row, running, text

NASTY = "a\u2028b\u2029c\u0085d\ne\r\nf \"q\" 'q' \\ 日本 👩‍💻\x00"


def source(store: Store) -> list[str]:
    """A session with a bit of everything, exported."""
    create(store, "s", message("m"), name="pod", scope=Scope(("docs",), ("src",)))
    owner = Owner.of(store, "s")
    owner.begin("m")
    owner.append(text(NASTY), Extension("d", {"f": 1.5, "n": None}), Unknown("later", {"x": [NASTY]}))
    owner.append(event_item(event("c", 4)))
    owner.end()
    deliver(store, "s", message("waiting"))
    return list(export_lines(store, "s"))


@pytest.fixture
def other() -> Store:
    return MemoryStore(Ticks(5))


def test_S03_one_record_is_one_physical_line(store: Store) -> None:
    lines = source(store)
    assert all(line.isascii() and line.count("\n") == 1 and len(line.splitlines()) == 1 for line in lines)
    header = json.loads(lines[0])
    assert (header["format"], header["version"], header["session"]) == ("polypod-session", 1, "s")
    assert [json.loads(line)["seq"] for line in lines[1:]] == list(range(1, header["head"] + 1))


def test_an_imported_session_is_the_same_and_goes_on(store: Store, other: Store) -> None:
    lines = source(other)
    assert import_lines(store, lines).head == 8
    assert store.execute(Read("s")).entries == other.execute(Read("s")).entries
    assert read_log(store, "s")[3].items[0].text == NASTY  # type: ignore[union-attr]
    moved, origin = row(store, "s"), row(other, "s")
    assert (moved.name, moved.scope, moved.status, moved.queue) == (origin.name, origin.scope, "running", 1)
    owner = Owner.of(store, "s")
    assert owner.epoch == 2  # goes on from the epoch it had
    assert owner.seen == ["waiting"]
    owner.begin("waiting")
    owner.end()
    owner.release()
    for known in ("m", "waiting", "c:4"):
        assert deliver(store, "s", message(known)).existed, known
    assert list(export_lines(store, "s"))[1:9] == lines[1:]


def test_an_imported_child_finds_its_parent_if_it_is_there(store: Store, other: Store) -> None:
    running(other, "p").spawn("c")
    child, parent = list(export_lines(other, "c")), list(export_lines(other, "p"))
    import_lines(store, child)
    assert (row(store, "c").parent_id, row(store, "c").root_id, row(store, "c").open) == (None, "c", True)
    third = MemoryStore(Ticks())
    import_lines(third, parent)
    import_lines(third, child)
    assert (row(third, "c").parent_id, row(third, "p").children) == ("p", 1)


def test_an_ended_session_stays_ended(store: Store, other: Store) -> None:
    owner = running(other, "s")
    owner.append(PodEnd("stop"))
    import_lines(store, export_lines(other, "s"))
    assert (row(store, "s").status, row(store, "s").open) == ("ended", False)


def test_an_import_replaces_nothing(store: Store, other: Store) -> None:
    lines = source(store)
    before = store.execute(Read("s"))
    with pytest.raises(ConditionFailed) as refused:
        import_lines(store, lines)
    assert refused.value.reason == "conflict"
    assert store.execute(Read("s")) == before
    create(other, "t", name="pod")
    with pytest.raises(ConditionFailed) as refused:
        import_lines(other, lines)
    assert refused.value.reason == "name_taken"
    assert len(other.execute(Query()).rows) == 1


def changed(lines: list[str], number: int, change: Any) -> list[str]:
    value = json.loads(lines[number - 1])
    change(value)
    return [*lines[: number - 1], json.dumps(value) + "\n", *lines[number:]]


BAD: dict[str, tuple[int, Any]] = {
    "empty": (1, lambda lines: []),
    "no header": (1, lambda lines: lines[1:]),
    "not json": (3, lambda lines: [*lines[:2], lines[2][:20] + "\n", *lines[3:]]),
    "half a line": (9, lambda lines: [*lines[:8], lines[8][:-1]]),
    "a quote lost": (4, lambda lines: [*lines[:3], lines[3].replace('"', "", 1), *lines[4:]]),
    "an entry lost": (5, lambda lines: [*lines[:4], *lines[5:]]),
    "the tail lost": (8, lambda lines: lines[:-1]),
    "an entry twice": (6, lambda lines: [*lines[:5], lines[4], *lines[5:]]),
    "another version": (1, lambda lines: changed(lines, 1, lambda h: h.update(version=9))),
    "no session": (1, lambda lines: changed(lines, 1, lambda h: h.pop("session"))),
    "no time": (3, lambda lines: changed(lines, 3, lambda e: e.update(ts="yesterday"))),
    "a field lost": (3, lambda lines: changed(lines, 3, lambda e: e.pop("run_id"))),
    "no type": (3, lambda lines: changed(lines, 3, lambda e: e.pop("type"))),
    "a list": (3, lambda lines: [*lines[:2], "[]\n", *lines[3:]]),
    "no start": (2, lambda lines: changed(lines, 2, lambda e: e.update(type="later"))),
    "a bad inbox": (1, lambda lines: changed(lines, 1, lambda h: h.update(inbox=[{"kind": "x"}]))),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_names_its_line_and_imports_nothing(store: Store, other: Store, name: str) -> None:
    line, spoil = BAD[name]
    with pytest.raises(BadExport, match="Nothing was imported") as bad:
        import_lines(store, spoil(source(other)))
    assert bad.value.line == line
    assert store.execute(Query()).rows == ()


def test_G07_an_import_with_a_bad_id_or_name_is_refused(store: Store, other: Store) -> None:
    lines = source(other)
    for change in ({"session": "../x"}, {"name": "../x"}):
        with pytest.raises(BadExport):
            import_lines(store, changed(lines, 1, lambda h, change=change: h.update(change)))
    assert store.execute(Query()).rows == ()


def test_S13_old_tags_and_unknown_fields_are_read_and_kept_as_they_are(store: Store, other: Store) -> None:
    old = {"type": "hook_injected_items", "items": ["be brief", {"body": "and kind"}]}
    odd = {"type": "llm_usage", "request_id": "r", "history_len": 1, "input": 2, "cache_read": 0, "cache_write": 0}
    odd |= {"output": 3, "latency": 4, "from_the_future": {"a": 1}}
    create(other, "t")
    first = other.execute(Read("t")).entries[0]
    bodies = [first.body.replace(b"\xa1t", b"\xa1s"), *(b"\x01" + pack(p) for p in (old, odd))]
    rows = tuple(StoredEntry(seq, 7, body) for seq, body in enumerate(bodies, 1))
    store.execute(Import("s", "default", rows))
    entry = read_log(store, "s")[1]
    assert isinstance(entry, SystemItems)
    assert [(i.kind, i.body, i.payload) for i in entry.items] == [
        ("legacy", "be brief", {}),
        ("legacy", "and kind", {}),
    ]
    lines = list(export_lines(store, "s"))
    assert {k: v for k, v in json.loads(lines[2]).items() if k not in ("seq", "ts")} == old
    assert {k: v for k, v in json.loads(lines[3]).items() if k not in ("seq", "ts")} == odd
    third = MemoryStore(Ticks())
    import_lines(third, lines)
    assert third.execute(Read("s")).entries == rows
    assert third.execute(Open("s", 0)).head == 3


def test_an_unknown_session_has_no_export(store: Store) -> None:
    with pytest.raises(UnknownSession):
        list(export_lines(store, "nobody"))
