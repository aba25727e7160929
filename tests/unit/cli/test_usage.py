"""`polypod usage` over a home that nobody owns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors.protocol.usage import NEVER_REFUSED, WorkerUsage
from orchestrator.cli.main import run as polypod
from session_store.entries import LlmUsage
from session_store.opening import open_store
from session_store.requests import Annotate
from tests.support import store as words

POD = "01990000-0000-7000-8000-000000000001"
SETTINGS = '[models.default]\nprovider = "scripted"\nscript = "x"\nprices = { input = 3.0, output = 15.0 }\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with one Pod that has asked twice, and was extracted once."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "polypod.toml").write_text(SETTINGS, encoding="utf-8")
    home = tmp_path / "home"
    home.mkdir()
    store = open_store(f"sqlite://{home / 'store.db'}")
    words.create(store, POD, name="census")
    owner = words.Owner.of(store, POD)
    for request, tokens in (("r1", 10_000), ("r2", 20_000)):
        owner.append(LlmUsage(request, 1, tokens, 0, 0, 100, 1, model="default"))
    store.execute(Annotate(POD, WorkerUsage("extract", "w", "small", 900, 0, 0, 50, 1).entry(), "w", NEVER_REFUSED))
    store.close()
    return home


def usage(home: Path, *more: str) -> int:
    return polypod(["--home", str(home), "usage", *more])


def test_usage_is_a_table_with_a_total_and_says_what_has_no_price(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert usage(home) == 0
    out = capsys.readouterr().out
    print(out)
    assert [line.split()[:3] for line in out.splitlines()[:4]] == [
        ["POD", "ID", "REQUESTS"],
        ["census", "01990000", "2"],
        ["census", "(extract)", "01990000"],
        ["total", "3", "30.9k"],
    ]
    assert "0.0930" in out  # 30,000 x 3 + 200 x 15 per million
    assert "no price is set for 1 requests" in out


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("pod", [("pod_name", "census", 30_000), ("pod_name", "census", 900)]),
        ("tree", [("root_name", "census", 30_000), ("root_name", "census", 900)]),
        ("model", [("model", "default", 30_000), ("model", "small", 900)]),
        ("worker", [("worker", "pod", 30_000), ("worker", "extract", 900)]),
    ],
)
def test_usage_as_json_by_each_grouping(
    home: Path, capsys: pytest.CaptureFixture[str], by: str, rows: list[tuple[str, str, int]]
) -> None:
    assert usage(home, "census", "--by", by, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [(name, row[name], row["input"]) for (name, _, _), row in zip(rows, told["rows"], strict=True)] == rows
    assert (told["total"]["input"], told["unread"]) == (30_900, [])


def test_nothing_spent_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert usage(tmp_path / "empty") == 0
    assert "nothing was spent" in capsys.readouterr().out
