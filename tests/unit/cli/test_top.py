"""`polypod top`: over a home that nobody owns, and the words of one look."""

from __future__ import annotations

import io
import json
from argparse import Namespace
from pathlib import Path
from typing import Any, cast

import pytest

from orchestrator.cli.main import run as polypod
from orchestrator.cli.paint import Screen
from orchestrator.cli.reaching import Reader
from orchestrator.cli.top import lines, watch
from session_store.backends.sqlite import SqliteStore
from tests.support import store as words

POD = "01990000-0000-7000-8000-000000000001"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "polypod.toml").write_text('[models.default]\nprovider = "scripted"\nscript = "x"\n', encoding="utf-8")
    home = tmp_path / "home"
    home.mkdir()
    return home


def test_a_home_without_a_store_has_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert polypod(["--home", str(home), "top", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["pods"]["live"], told["pods"]["parked"], told["store"]["entries"], told["pool"]) == (0, 0, 0, None)


def test_the_store_is_read_where_nobody_owns_the_home(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = SqliteStore(home / "store.db")
    words.running(store, POD).end()
    words.deliver(store, POD, words.message("later"))
    store.close()
    assert polypod(["--home", str(home), "top"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "pods       0 live, 1 parked, 1 running"
    assert out[1] == "pool       no owner"
    assert out[2].startswith("queue      1 messages, the oldest for ")
    assert out[2].endswith(" (1 prompt); 1 in the fullest inbox")
    assert out[4] == "store      4 entries, 1 turns, 0 requests, 0 refusals"


FIGURES: dict[str, Any] = {
    "now": 1_000,
    "pods": {"live": 2, "parked": 7, "by_status": {"idle": 9, "ended": 4, "running": 0}},
    "pool": {"ready": 2, "processes": {"ready": 4, "starting": 0}, "nodes": 1},
    "queue": {"waiting": 0, "oldest": None, "deepest": 0, "by_kind": {}},
    "questions": {"waiting": 1, "oldest": 75.0},
    "store": {
        "entries": 1_500, "turns": 3, "requests": 8, "refusals": 0, "append_ms": {"p50": 2, "p99": None},
    },
    "limits": {"gpt\x1b[2J": {"under_way": 3, "waiting": 1}},
    "directory": {"epoch": 2, "restarts": 1, "given_up": 0, "blocked": 1},
}  # fmt: skip


def test_the_words_of_one_look() -> None:
    before = {**FIGURES, "now": 0, "store": {**FIGURES["store"], "entries": 1_000}}
    assert lines(FIGURES, before, Screen(io.StringIO())) == [
        "pods       2 live, 7 parked, 9 idle, 4 ended",
        "pool       2 ready; processes: 4 ready; nodes: 1",
        "queue      0 messages",
        "questions  1 open, the oldest for 1m15s",
        "store      1.5k entries (500/s), 3 turns, 8 requests, 0 refusals; append < 2 ms, p99 beyond all bounds",
        "limits     gpt: 3 under way, 1 waiting",
        "directory  epoch 2, 1 restarts, 0 given up, 1 blocked",
    ]


def test_what_does_not_answer_is_said() -> None:
    nothing = dict.fromkeys(FIGURES) | {"now": 5}
    assert lines(nothing, FIGURES, Screen(io.StringIO()))[4] == "store      does not answer"


def test_each_look_is_drawn_over_the_last_and_ctrl_c_leaves_a_sound_terminal(home: Path) -> None:
    class Looks:
        left = 2

        def top(self) -> dict[str, Any]:
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            return FIGURES

    out = io.StringIO()
    watch(cast(Reader, Looks()), Screen(out), Namespace(home=str(home), interval=0.001))
    written = out.getvalue()
    first, second = written.split("\x1b[8A")
    assert first.count("\n") == second.count("\n") == 8
    assert first.startswith("\x1b[?7l")
    assert second.endswith("\x1b[?7h")
