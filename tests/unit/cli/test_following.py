"""`run` and its kin against a fake gateway: what is printed, and the exit code."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.embedding import Link
from orchestrator.cli.failure import CommandError
from orchestrator.cli.main import run as polypod
from orchestrator.cli.run import audience_for
from orchestrator.cli.running import Journey, follow_to_end
from orchestrator.cli.seam import Gateway
from orchestrator.cli.watch import LOOK_AT_LEAST_EVERY, LOOK_EVERY, pause_after
from orchestrator.home import Home
from tests.support.fake_gateway import CHILD, ROOT, SECRET, STAMP, FakeGateway, served

Stage = Callable[[FakeGateway], None]
QUESTION = {
    "question_id": "q1",
    "pod_id": CHILD,
    "pod_name": "files",
    "kind": "clarify",
    "question": "Which 色?",
    "choices": [{"label": "red"}, {"label": "青"}],
    "asked_at": "2026-11-30T12:00:00.000Z",
}


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeGateway]:
    gateway = FakeGateway()
    with served(gateway, tmp_path / "home"):
        yield gateway


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home")


def rests(status: str, outcome: str | None, **result: Any) -> list[Stage]:
    def end(fake: FakeGateway) -> None:
        fake.set(status=status)
        fake.result = {"status": status, "outcome": outcome, "text": "done", **result}

    return [lambda fake: None, end]


def child_waits(status: str, root_status: str = "waiting_on_children") -> list[Stage]:
    def stage(fake: FakeGateway) -> None:
        question = {"question": QUESTION} if status == "waiting_on_user" else {}
        fake.add(CHILD, name="files", parent_id=ROOT, status=status, **question)
        fake.set(status=root_status)
        fake.result = {"status": root_status, "outcome": None, "text": None}

    return [stage]


ENDINGS = [
    ("finished", rests("idle", "finished"), 0, "finished"),
    ("an error", rests("errored", "errored", error={"type": "auth", "message": "bad key"}), 1, "bad key (auth)"),
    ("a limit", rests("idle", "limit_reached"), 1, "limit reached"),
    ("cancelled elsewhere", rests("idle", "cancelled"), 1, "cancelled"),
    ("stopped elsewhere", rests("ended", "stopped"), 1, "stopped"),
    ("paused", rests("paused", "paused"), 3, f"polypod resume {ROOT}"),
    ("test_Q06: a child asks", child_waits("waiting_on_user"), 3, f"polypod answer {CHILD} --choice red"),
    ("the root has finished, a child asks", child_waits("waiting_on_user", "idle"), 3, "  Which 色?"),
    ("a child is paused", child_waits("paused"), 3, f"polypod resume {CHILD}"),
]


@pytest.mark.parametrize(("stages", "code", "says"), [e[1:] for e in ENDINGS], ids=[e[0] for e in ENDINGS])
def test_the_exit_code_says_how_a_run_ended(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str], stages: list[Stage], code: int, says: str
) -> None:
    fake.stages = list(stages)
    assert polypod(["--home", home, "run", "count"]) == code
    assert says in capsys.readouterr().out


def test_Q06_programs_get_the_question_in_the_last_line(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.stages = child_waits("waiting_on_user")
    assert polypod(["--home", home, "run", "count", "--json"]) == 3
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["pod_id"] == ROOT
    assert lines[-1]["status"] == "waiting_on_children"
    assert lines[-1]["questions"] == [QUESTION]
    assert [line["event"] for line in lines[:-1]] == ["pod", "pod"]


def test_a_run_goes_on_through_waiting_on_children(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def spawns(fake: FakeGateway) -> None:
        fake.add(CHILD, name="files", parent_id=ROOT)
        fake.set(status="waiting_on_children")

    def works(fake: FakeGateway) -> None:
        call = {"type": "tool_call", "call_id": "c", "name": "Shell", "arguments": {"command": "wc -l 一.py"}}
        fake.write(CHILD, "assistant_items", request_id="r", items=[call])
        result = {
            "call_seq": 1,
            "index": 0,
            "name": "Shell",
            "status": "ok",
            "summary": "`wc -l 一.py` exited with code 0",
        }
        fake.write(CHILD, "tool_results", results=[result])

    def ends(fake: FakeGateway) -> None:
        fake.set(CHILD, status="idle", last_outcome="finished")
        fake.set(status="idle")
        fake.write(ROOT, "assistant_items", request_id="r", items=[{"type": "text", "text": "All 三 counted."}])
        fake.result = {"status": "idle", "outcome": "finished", "text": "All 三 counted."}

    fake.stages = [lambda f: None, spawns, works, ends]
    assert polypod(["--home", home, "run", "count"]) == 0
    out = capsys.readouterr().out
    assert "+ files" in out
    assert "files  -> Shell wc -l 一.py · exited with code 0" in out
    assert out.count("All 三 counted.") == 1
    assert "└─ files" in out
    assert "finished · 2 Pods · 4 requests · 2.4k tokens in, 68 out" in out


def test_what_was_ordered_reaches_the_gateway(fake: FakeGateway, home: str, tmp_path: Path) -> None:
    fake.stages = rests("idle", "finished")
    words = ["run", "count", "--name", "c", "--model", "m", "--limit-requests", "3", "--limit-seconds", "1.5"]
    assert polypod(["--home", home, *words, "--workspace", str(tmp_path)]) == 0
    path, body = fake.posts[0]
    assert body.pop("message_id")
    assert (path, body) == (
        "/v1/pods",
        {
            "prompt": "count",
            "name": "c",
            "model": "m",
            "limits": {"requests": 3, "seconds": 1.5},
            "workspace": str(tmp_path),
        },
    )


@pytest.mark.parametrize(
    ("kind", "status", "code"), [("invalid", 422, 2), ("invalid", 409, 2), ("busy", 409, 1), ("limit", 429, 1)]
)
def test_a_refusal_is_one_plain_line(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str], kind: str, status: int, code: int
) -> None:
    fake.problem = {"type": f"urn:polypod:{kind}", "status": status, "detail": "There is no model `x`."}
    assert polypod(["--home", home, "run", "count", "--model", "x"]) == code
    assert capsys.readouterr().err == "polypod: There is no model `x`.\n"


def test_L03_ctrl_c_cancels_the_own_tree_and_ends_with_130(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def press(fake: FakeGateway) -> None:
        threading.Timer(0.05, _interrupt).start()

    def cancelled(fake: FakeGateway, path: str) -> None:
        if path.endswith("/cancel"):
            fake.set(status="idle")
            fake.result = {"status": "idle", "outcome": "cancelled", "text": None}

    fake.stages, fake.on_post = [press], cancelled
    assert polypod(["--home", home, "run", "count"]) == 130
    assert [path for path, _ in fake.posts] == ["/v1/pods", f"/v1/pods/{ROOT}/cancel"]
    assert "cancelled · 1 Pod" in capsys.readouterr().out


def test_an_empty_task_is_wrong_use(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert polypod(["--home", home, "run", "  "]) == 2
    assert capsys.readouterr().err == "polypod: the task is empty\n"


def test_live_text_is_shown_once(fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]) -> None:
    fake.add()
    fake.live[ROOT] = [
        ("delta", {"request_id": "r", "block": "r.1.0", "offset": 0, "text": "こん", "after": 0}),
        ("delta", {"request_id": "r", "block": "r.1.0", "offset": 2, "text": "にちは", "after": 0}),
        ("delta", {"request_id": "r", "block": "tool:1.0", "offset": 0, "text": "what a tool prints", "after": 0}),
    ]
    fake.write(
        ROOT, "assistant_items", request_id="r", items=[{"type": "text", "text": "こんにちは", "block": "r.1.0"}]
    )
    fake.stages = [lambda f: None, *rests("idle", "finished", text="こんにちは")]
    assert polypod(["--home", home, "run", "count"]) == 0
    out = capsys.readouterr().out
    assert out.count("こんにちは") == 1
    assert "what a tool prints" not in out


def test_a_reply_that_broke_off_a_retry_and_an_alert_are_told(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.add()
    fake.live[ROOT] = [
        ("delta", {"request_id": "r", "block": "r.1.0", "offset": 0, "text": "half a wo", "after": 0}),
        ("discard", {"request_id": "r"}),
        ("retry", {"request_id": "r", "attempt": 2, "wait": 2.0, "reason": "overloaded"}),
        ("alert", {"alert_id": "a", "level": "warning", "code": "c", "message": "disk is filling", "ts": STAMP}),
        ("from-the-future", {"x": 1}),
    ]
    fake.stages = [lambda f: None, *rests("idle", "finished")]
    assert polypod(["--home", home, "run", "count"]) == 0
    out = capsys.readouterr().out
    assert "half a wo\n  (this reply broke off)\n" in out
    assert "asks the model again in 2.0s: overloaded" in out
    assert "warning: disk is filling" in out


@pytest.mark.parametrize(
    ("command", "before", "after", "says"),
    [
        ("pause", "running", "paused", "census: running -> paused"),
        ("cancel", "running", "idle", "census: running -> idle"),
        ("stop", "idle", "ended", "census: idle -> ended"),
        ("pause", "idle", "idle", "census is idle: nothing to pause"),
    ],
)
def test_steering_says_what_it_changed(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str], command: str, before: str, after: str, says: str
) -> None:
    fake.add(status=before)
    fake.on_post = lambda fake, path: fake.set(status=after)
    assert polypod(["--home", home, command, "census"]) == 0
    ((path, body),) = fake.posts
    assert path == f"/v1/pods/{ROOT}/{command}"
    assert set(body) == ({"message_id"} if command == "cancel" else set())
    assert capsys.readouterr().out == says + "\n"


def test_send_waits_for_the_run_when_asked(fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]) -> None:
    fake.add(status="idle")
    fake.write(ROOT, "assistant_items", request_id="r", items=[{"type": "text", "text": "old news"}])
    fake.on_post = lambda fake, path: fake.set(status="running")
    fake.stages = [lambda f: None, *rests("idle", "finished", text="new")]
    assert polypod(["--home", home, "send", "census", "go on", "--steer", "--wait"]) == 0
    path, body = fake.posts[0]
    assert (path, body["content"], body["when_busy"]) == (f"/v1/pods/{ROOT}/messages", "go on", "steer")
    out = capsys.readouterr().out
    assert "old news" not in out
    assert "new" in out


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_look_that_was_slow_once_does_not_blind_the_run() -> None:
    assert pause_after(0.01) == LOOK_EVERY
    assert pause_after(0.1) == pytest.approx(0.9)
    assert pause_after(10.0) == LOOK_AT_LEAST_EVERY


def test_a_run_bears_a_store_that_restarts(fake: FakeGateway, home: str) -> None:
    def away(fake: FakeGateway) -> None:
        fake.unavailable = 2

    fake.stages = [away, *rests("idle", "finished")]
    assert polypod(["--home", home, "run", "count"]) == 0


def test_a_run_that_cannot_be_followed_says_how_to_go_on(fake: FakeGateway, home: str) -> None:
    link = Link(Gateway(fake.address, SECRET, patience=0.1))
    fake.add()
    fake.stages = [lambda fake: setattr(fake, "unavailable", 1000)]
    with pytest.raises(CommandError) as told:
        follow_to_end(Journey(Home(Path(home)), link, audience_for(ROOT, as_json=False), ROOT))
    assert told.value.message.endswith(f"`polypod resume {ROOT}` goes on with it")


def test_S02_a_run_ends_with_the_reason_when_only_damaged_pods_could_move(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage = {"reason": "store-damaged", "head_seq": 9, "snapshot": None, "detail": "damaged at entry 5"}
    fake.add()
    fake.live[ROOT] = [("resync", damage)]
    assert polypod(["--home", home, "send", "census", "go on", "--wait"]) == 1
    assert "damaged at entry 5" in capsys.readouterr().err
    fake.live[ROOT], fake.live[CHILD] = [], [("resync", damage)]
    fake.add(CHILD, name="files", parent_id=ROOT)
    fake.stages = [lambda fake: None] * 3 + [lambda fake: fake.set(status="waiting_on_children")]
    assert polypod(["--home", home, "run", "count"]) == 1
    assert "damaged at entry 5" in capsys.readouterr().err
