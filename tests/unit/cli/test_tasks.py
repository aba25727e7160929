"""`polypod tasks`: the list through the owner of a home, and from the store when nobody owns it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.tasks import Face
from orchestrator.cli.main import run as polypod
from session_store.backends.sqlite import SqliteStore
from session_store.entries import LogEntry, PodEnd, SegmentStart, ToolResults
from session_store.items import ToolResult
from session_store.requests import Append, ClaimDirectory, Create, Open
from tests.support.fake_gateway import ROOT, FakeGateway, served
from tests.support.planning import Session

TOLD = {
    "planning": "tasks",
    "tasks": [
        {"taskid": 1, "status": "completed", "subject": "読む\nall of it"},
        {"taskid": 2, "status": "inprogress", "subject": "write \x1b[31mred", "description": "d"},
    ],
    "summary": {"total": 2, "pending": 0, "inprogress": 1, "completed": 1, "deleted": 0},
    "head_seq": 9,
}


def stored(home: Path, face: Face, *calls: tuple[str, dict[str, Any]], ended: bool = False) -> None:
    """A home that nobody owns, with one session that made these calls."""
    home.mkdir()
    store, session = SqliteStore(home / "store.db"), Session()
    store.execute(Create(ROOT, "default", "m", SegmentStart(ROOT, {"planning": face}, "", (), 1), name="計画"))
    lease = store.execute(Open(ROOT, store.execute(ClaimDirectory()).epoch))
    outcomes = [(name, session.call(name, **given)) for name, given in calls]
    entries: list[LogEntry] = [
        ToolResults((ToolResult(1, 0, "c", name, o.status, o.summary, o.content, o.data),)) for name, o in outcomes
    ]
    entries += [PodEnd("stopped")] if ended else []
    store.execute(Append(ROOT, lease.epoch, lease.head, "b", tuple(entries)))
    store.close()


def test_it_shows_what_the_owner_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake = FakeGateway(tasks=TOLD)
    fake.add()
    with served(fake, tmp_path / "home"):
        assert polypod(["--home", str(tmp_path / "home"), "tasks", "census"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "ID  STATUS      TASK",
            "1   completed   読む all of it",
            "2   inprogress  write red",
            "2 tasks: 1 inprogress, 1 completed",
        ]
        assert polypod(["--home", str(tmp_path / "home"), "tasks", "census", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"pod_id": ROOT, **TOLD}
        assert polypod(["--home", str(tmp_path / "home"), "tasks", "nobody"]) == 2


@pytest.mark.parametrize("ended", [False, True])
def test_K08_without_an_owner_the_log_itself_tells_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ended: bool
) -> None:
    update = {"taskid": 1, "status": "completed"}
    stored(
        tmp_path / "home", "tasks", ("TaskCreate", {"subject": "a"}), ("TaskCreate", {"subject": "b"}),
        ("TaskUpdate", update), ended=ended,
    )  # fmt: skip
    assert polypod(["--home", str(tmp_path / "home"), "tasks", "計画"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "1   completed  a",
        "2   pending    b",
        "2 tasks: 1 pending, 1 completed",
    ]


def test_a_todo_list_is_shown_in_its_own_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    todos = [{"id": "one", "content": "A", "status": "in_progress"}, {"id": "x", "content": "B", "status": "cancelled"}]
    stored(tmp_path / "home", "todo", ("todo", {"todos": todos}))
    assert polypod(["--home", str(tmp_path / "home"), "tasks", "計画", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tasks"] == [
        {"taskid": "one", "status": "in_progress", "subject": "A"},
        {"taskid": "x", "status": "cancelled", "subject": "B"},
    ]
    assert (told["planning"], told["head_seq"]) == ("todo", 2)


@pytest.mark.parametrize(("face", "says"), [("tasks", "no tasks"), ("none", "no planning tools")])
def test_an_empty_list_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str], face: Face, says: str) -> None:
    stored(tmp_path / "home", face)
    assert polypod(["--home", str(tmp_path / "home"), "tasks", ROOT[:12]]) == 0
    assert says in capsys.readouterr().out
