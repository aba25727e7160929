"""`polypod memory`: what is staged, with and without an owner, beside files that are none of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from actors.extractor.ranges import staging_id
from orchestrator.cli.main import run as polypod
from orchestrator.home import Home, Owner
from session_store.opening import open_store
from tests.support import store as words
from tests.support.fake_gateway import FakeGateway, served

POD = "01990000-0000-7000-8000-000000000001"
STRANGER = "01990000-0000-7000-8000-0000000000ff"
SETTINGS = '[models.default]\nprovider = "scripted"\nscript = "x"\n'
FIRST, SECOND, OTHER = staging_id(POD, 1, 6), staging_id(POD, 7, 9), staging_id(STRANGER, 1, 4)
FULL: dict[str, Any] = {
    "decisions": [{"options": ["PostgreSQL", "SQLite"], "chosen": "SQLite", "rationale": "一つのファイル\nで済む"}],
    "discussions": [{"topic": "names", "points": ["short", "clear"]}],
    "attempts": [{"action": "ran it", "result": "\x1b[31mno\x1b[0m", "succeeded": False}],
    "requests": [{"intent": "a store", "target": "notes", "summary": "Choose."}, {"intent": "more", "summary": "?"}],
}
NOTHING: dict[str, Any] = {kind: [] for kind in FULL}


def stage(root: Path, session: str, ends: tuple[int, int], found: dict[str, Any], at: int) -> Path:
    folder = root / "_staging"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{staging_id(session, *ends)}.json"
    source = {"session_id": session, "range": list(ends)}
    path.write_text(json.dumps({"source": source, **found}, ensure_ascii=False), encoding="utf-8")
    os.utime(path, (at, at))
    return path


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The memory root of a home with one Pod of a Japanese name, and three extractions, one of a session elsewhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "polypod.toml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "home").mkdir()
    store = open_store(f"sqlite://{tmp_path / 'home' / 'store.db'}")
    words.create(store, POD, name="国勢調査")
    store.close()
    root = tmp_path / "memory"
    stage(root, POD, (7, 9), NOTHING, at=2_000)
    stage(root, POD, (1, 6), FULL, at=1_000)
    stage(root, STRANGER, (1, 4), NOTHING, at=3_000)
    return root


def memory(*more: str, home: str = "home") -> int:
    return polypod(["--home", home, "memory", *more])


def test_the_list_is_a_table_that_lines_up(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert memory() == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        [FIRST[:8], "国勢調査"],
        [SECOND[:8], "国勢調査"],
        [OTHER[:8], "-"],
    ]
    assert lines[0].split()[3:8] == ["1-6", "1", "1", "1", "2"]
    range_at = head.index("RANGE")
    assert {cell_len(line[: line.index(ends)]) for line, ends in zip(lines, ("1-6", "7-9", "1-4"), strict=True)} == {
        range_at
    }


def test_the_list_as_json(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert memory("--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["folder"] == str(root / "_staging")
    assert told["extractions"][0] == {
        "id": FIRST,
        "session_id": POD,
        "pod_name": "国勢調査",
        "range": [1, 6],
        "counts": {"decisions": 1, "discussions": 1, "attempts": 1, "requests": 2},
        "staged_at": "1970-01-01T00:16:40.000Z",
        "file": str(root / "_staging" / f"{FIRST}.json"),
    }
    assert [(e["id"], e["pod_name"]) for e in told["extractions"][1:]] == [(SECOND, "国勢調査"), (OTHER, None)]
    assert told["left_out"] == []


def test_one_is_shown_by_the_beginning_of_its_id(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert memory(FIRST[:6].upper()) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{FIRST}\n国勢調査  {POD}  entries 1-6  staged ")
    body = out.partition("\n\n")[2].splitlines()
    assert body == [
        *("decisions", "  SQLite", "    of: PostgreSQL | SQLite", "    一つのファイル", "    で済む", ""),
        *("discussions", "  names", "    - short", "    - clear", ""),
        *("attempts", "  failed: ran it", "    no", ""),
        *("requests", "  a store (notes)", "    Choose.", "  more", "    ?"),
    ]
    assert memory(SECOND, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["id"], told["range"], told["decisions"]) == (SECOND, [7, 9], [])


def test_which_one_must_be_clear(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert memory("") == 2
    assert memory("zz") == 2
    assert "nothing is staged under 'zz'" in capsys.readouterr().err
    common = {staging_id(POD, 1, end)[0]: end for end in range(10, 40)}
    for end in common.values():
        stage(root, POD, (1, end), NOTHING, at=4_000)
    assert memory(FIRST[0]) == 2
    assert "may mean 2 extractions" in capsys.readouterr().err


WRONG: list[tuple[str, Any, str]] = [
    ("notes.txt", "hello", "no .json file"),
    ("cut.json", '{"source": ', "no JSON"),
    ("deep.json", "[" * 100_000, "no JSON"),
    ("latin.json", b"\xff\xfe", "no JSON"),
    ("list.json", "[]", "exactly the fields"),
    ("more.json", {"source": {}, "prose": "", **NOTHING}, "exactly the fields"),
    ("source.json", {"source": {"session_id": POD, "range": [3, True]}, **NOTHING}, "its source"),
    ("named.json", {"source": {"session_id": POD, "range": [1, 2]}, **NOTHING}, "its name"),
    (
        f"{staging_id(POD, 1, 2)}.json",
        {"source": {"session_id": POD, "range": [1, 2]}, **NOTHING, "requests": [{"intent": 3}]},
        "requests.0.intent",
    ),
]


@pytest.mark.parametrize(("name", "content", "why"), WRONG)
def test_what_is_no_extraction_is_named_and_hides_nothing(
    root: Path, capsys: pytest.CaptureFixture[str], name: str, content: Any, why: str
) -> None:
    data = content if isinstance(content, bytes) else None
    text = content if isinstance(content, str) else "" if data is not None else json.dumps(content)
    (root / "_staging" / name).write_bytes(data if data is not None else text.encode())
    (root / "_staging" / f".{FIRST}.json.0f0f").write_text("being written")
    (root / "_staging" / "folder.json").mkdir()
    assert memory() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 3 + 2
    assert any(line.startswith(f"left out: {name}: ") and why in line for line in lines)
    assert memory("--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["extractions"]) == 3
    assert [Path(file["file"]).name for file in told["left_out"]] == sorted([name, "folder.json"])
    assert memory(name) == 1
    assert why in capsys.readouterr().err


def test_an_owner_says_where_its_memory_lies(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert memory(home=str(tmp_path / "home")) == 0
    assert f"nothing is staged in {elsewhere}" in capsys.readouterr().out
    gateway = FakeGateway()
    gateway.add(POD, name="census")
    with served(gateway, tmp_path / "owned", memory_root=str(root)):
        assert memory(home=str(tmp_path / "owned")) == 0
        assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]] == ["census", "census", "-"]


def test_a_store_that_cannot_be_read_costs_only_the_names(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root.parent / "home" / "store.db").write_bytes(b"no database at all" * 500)
    assert memory() == 0
    said = capsys.readouterr()
    assert [line.split()[1] for line in said.out.splitlines()[1:]] == ["-", "-", "-"]
    assert "the Pods' names are not known" in said.err


def test_a_folder_that_is_none_is_told(tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "polypod.toml").write_text(f'{SETTINGS}[memory]\nroot = "odd"\n', encoding="utf-8")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "_staging").write_text("a file")
    assert memory() == 1
    assert "cannot be read" in capsys.readouterr().err
    assert memory("--json", home="other") == 1


def test_server_json_of_an_owner_that_did_not_say_is_read(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    ownership = home.own()
    assert ownership is not None
    ownership.announce(Owner("http://127.0.0.1:1", "s", 1))
    plain = json.loads(home.server_file.read_text())
    del plain["memory_root"]
    home.server_file.write_text(json.dumps(plain))
    owner = home.owner()
    ownership.close()
    assert owner == Owner("http://127.0.0.1:1", "s", 1)
