"""`rewind`, `fork` and what `cancel` gives back, against a fake gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.main import run as polypod
from tests.support.fake_gateway import CHILD, ROOT, FakeGateway, pod, served


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeGateway]:
    gateway = FakeGateway()
    gateway.add(status="idle", name="scout")
    with served(gateway, tmp_path / "home"):
        yield gateway


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home")


def say(fake: FakeGateway, text: str, outcome: str = "finished") -> None:
    """Three entries."""
    fake.write(ROOT, "invoke", run_id=f"r-{text}", trigger="prompt", serves=[])
    segments = [{"type": "text", "text": text}]
    fake.write(ROOT, "user_input", segments=segments, message_id=text, **{"from": "user"})
    fake.write(ROOT, "run_end", run_id=f"r-{text}", outcome=outcome)


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_the_list_shows_the_prompts_of_the_present_history(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("one", "二つ\n目", "three"):
        say(fake, text)
    say(fake, "taken back", "withdrawn")
    fake.write(ROOT, "rewound", to=8)
    fake.write(ROOT, "a_kind_of_later", x=1)
    say(fake, "four")
    assert polypod(["rewind", "scout", "--list", "--home", home]) == 0
    assert told(capsys).splitlines() == ["     2  one", "     5  二つ 目", "    16  four"]
    assert polypod(["rewind", "scout", "--list", "--json", "--home", home]) == 0
    assert [p["seq"] for p in json.loads(told(capsys))] == [2, 5, 16]
    assert fake.posts == []


def test_a_rewind_says_what_it_took_back(fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(fake, "one")
    view: dict[str, Any] = {
        "pod_id": ROOT,
        "changed": True,
        "status": "idle",
        "rewound": 4,
        "prompt": {"message_id": "one", "segments": [{"type": "text", "text": "one\nmore"}]},
    }
    fake.answers["rewind"] = {**view, "rewound": None}
    fake.on_post = lambda fake, path: fake.answers.update(rewind=view) if len(fake.posts) > 1 else None
    assert polypod(["rewind", "scout", "2", "--home", home]) == 0
    assert told(capsys).splitlines() == ["scout: rewound to before entry 2; it is idle", "taken back: one more"]
    bodies = [body for _, body in fake.posts]
    assert bodies[0] == bodies[1]  # asked again by the same id until it took place
    assert (bodies[0]["to_seq"], bodies[0]["expected_head"]) == (2, 3)


def test_a_refusal_is_told(fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]) -> None:
    fake.problem = {"type": "urn:polypod:busy", "status": 409, "detail": "Session s is busy (running)."}
    assert polypod(["rewind", "scout", "2", "--home", home]) == 1
    assert "is busy (running)" in capsys.readouterr().err


def test_a_rewind_to_nowhere_names_the_list(home: str, fake: FakeGateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert polypod(["rewind", "scout", "--home", home]) == 2
    assert "polypod rewind scout --list" in capsys.readouterr().err


def test_compact_waits_for_what_comes_of_it_and_tells_the_sizes(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    view: dict[str, Any] = {"pod_id": ROOT, "changed": True, "compacted": None}
    done = {**view, "compacted": True, "before": 120_000, "after": 9_400}
    fake.answers["compact"] = view
    fake.on_post = lambda fake, path: fake.answers.update(compact=done) if len(fake.posts) > 1 else None
    assert polypod(["compact", "scout", "--home", home]) == 0
    assert told(capsys) == "scout: compacted from about 120.0k to 9.4k tokens\n"
    bodies = [body for _, body in fake.posts]
    assert bodies[0] == bodies[1]  # asked again by the same id
    assert polypod(["compact", "scout", "--json", "--home", home]) == 0
    assert json.loads(told(capsys)) == done


def test_a_compaction_that_fails_is_told_and_exits_1(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"type": "no_progress", "message": "there is nothing to summarise"}
    fake.answers["compact"] = {"pod_id": ROOT, "compacted": False, "before": 90, "error": error}
    assert polypod(["compact", "scout", "--home", home]) == 1
    assert told(capsys) == "scout: not compacted: there is nothing to summarise (no_progress)\n"
    fake.problem = {"type": "urn:polypod:busy", "status": 409, "detail": "Session s is busy (running)."}
    assert polypod(["compact", "scout", "--home", home]) == 1
    assert "is busy (running)" in capsys.readouterr().err


def test_a_fork_names_the_new_pod_and_how_to_go_on(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    question = {"question": "Which?"}
    fake.answers["fork"] = pod(CHILD, name="my twin", status="waiting_on_user", question=question)
    assert polypod(["fork", "scout", "--at", "7", "--name", "my twin", "--home", home]) == 0
    out = told(capsys)
    assert out.startswith("my twin  ")
    assert "forked from scout" in out
    assert "it asks: Which?" in out
    assert 'polypod send "my twin" "…"' in out
    ((path, body),) = fake.posts
    assert path == f"/v1/pods/{ROOT}/fork"
    assert (body["at_seq"], body["name"]) == (7, "my twin")
    assert polypod(["fork", "scout", "--json", "--home", home]) == 0
    assert json.loads(told(capsys))["name"] == "my twin"
    assert fake.posts[1][1].keys() == {"message_id"}


def test_T01_a_cancel_shows_the_prompts_that_it_gave_back(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    back = [{"message_id": "m1", "segments": [{"type": "text", "text": "first\nline two"}]}]
    fake.answers["cancel"] = {"pod_id": ROOT, "changed": True, "outcome": "withdrawn", "withdrawn": back}
    assert polypod(["cancel", "scout", "--home", home]) == 0
    assert "given back: first\nline two" in told(capsys)
    assert polypod(["cancel", "scout", "--json", "--home", home]) == 0
    assert json.loads(told(capsys))["withdrawn"] == back


def test_T01_a_cancel_that_takes_longer_than_the_gateway_waits_still_shows_them(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    late = {"pod_id": ROOT, "changed": True, "outcome": None, "withdrawn": []}
    back = [{"message_id": "m1", "segments": [{"type": "text", "text": "first"}]}]

    def answer(gateway: FakeGateway, path: str) -> None:
        asked_again = len(gateway.posts) > 1
        gateway.answers["cancel"] = {**late, "outcome": "withdrawn", "withdrawn": back} if asked_again else late

    fake.on_post = answer
    assert polypod(["cancel", "scout", "--home", home]) == 0
    assert "given back: first" in told(capsys)
    (_, first), (_, second) = fake.posts
    assert first == second
    assert first["message_id"].startswith("cancel-")
