"""`inbox`, `answer` and the views of who waits for whom, against a fake gateway."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.asking import form
from orchestrator.cli.failure import CommandError
from orchestrator.cli.main import run as polypod
from orchestrator.cli.paint import Screen
from orchestrator.cli.questions import question_lines
from tests.support.fake_gateway import CHILD, ROOT, FakeGateway, served

CLARIFY = {
    "question_id": "q-000000000002-7-0",
    "pod_id": CHILD,
    "pod_name": "files",
    "kind": "clarify",
    "question": "Which 色?",
    "choices": [{"label": "red", "description": "warm"}, {"label": "青"}],
    "asked_at": "2026-11-30T12:00:00.000Z",
}
PERMISSION = {
    **CLARIFY,
    "question_id": "p-000000000002-7-0",
    "kind": "permission",
    "question": "May files use Shell: git push\n(the rule ask Shell)",
    "choices": [{"label": "allow_once"}, {"label": "allow_session"}, {"label": "deny"}],
}
ODD = {**CLARIFY, "choices": [{"label": "--force", "description": "a\nb"}, {"label": "a\u200e\nb"}]}
FREE = {**CLARIFY, "choices": []}


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeGateway]:
    gateway = FakeGateway()
    gateway.add(name="boss", status="waiting_on_children", waits_for=[CHILD])
    with served(gateway, tmp_path / "home"):
        yield gateway


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home")


def asks(fake: FakeGateway, question: dict[str, Any]) -> None:
    fake.add(CHILD, name="files", parent_id=ROOT, status="waiting_on_user", question=question)


@pytest.mark.parametrize(
    ("question", "words", "body"),
    [
        (CLARIFY, ["files", "--choice", "red"], {"choice": "red"}),
        (CLARIFY, [CHILD[:-1] + "2", "red"], {"choice": "red"}),
        (CLARIFY, ["files", "neither"], {"text": "neither"}),
        (CLARIFY, ["files", "--text", "red"], {"text": "red"}),
        (CLARIFY, ["files", "--choice", "青", "--text", "the dark one"], {"choice": "青", "text": "the dark one"}),
        (CLARIFY, [str(CLARIFY["question_id"]), "--choice", "青"], {"choice": "青"}),
        (CLARIFY, ["files", "red", "--text", "the dark one"], {"choice": "red", "text": "the dark one"}),
        (ODD, ["files", "--choice=--force"], {"choice": "--force"}),
        (ODD, ["files", "--choice", "a b"], {"choice": "a\u200e\nb"}),
        (FREE, ["files", "blue"], {"text": "blue"}),
        (PERMISSION, ["files", "deny", "--text", "not today"], {"choice": "deny", "text": "not today"}),
        (PERMISSION, ["files", "allow_once"], {"choice": "allow_once"}),
        (PERMISSION, ["files", "--choice", "deny", "--text", "not today"], {"choice": "deny", "text": "not today"}),
    ],
)
def test_an_answer_goes_to_the_pod_that_asks(
    fake: FakeGateway,
    home: str,
    capsys: pytest.CaptureFixture[str],
    question: dict[str, Any],
    words: list[str],
    body: dict[str, str],
) -> None:
    asks(fake, question)
    assert polypod(["--home", home, "answer", *words]) == 0
    assert fake.posts == [(f"/v1/pods/{CHILD}/answer", {**body, "question_id": question["question_id"]})]
    assert "files: accepted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("question", "words", "code", "says"),
    [
        (
            CLARIFY,
            ["files", "--choice", "green"],
            2,
            "'green' is no choice of this question; the choices are 'red', '青'",
        ),
        (FREE, ["files", "--choice", "x"], 2, "it has no choices: answer by text"),
        (PERMISSION, ["files", "--text", "fine"], 2, "decided by one of its choices (allow_once, allow_session, deny)"),
        (CLARIFY, ["files", "--text", " "], 2, "the answer is empty"),
        (CLARIFY, ["files", "a", "--text", "b"], 2, "give the text once"),
        (CLARIFY, ["boss", "red"], 1, "boss asks nothing (it is waiting_on_children)"),
        (CLARIFY, ["nobody", "red"], 2, "there is no Pod 'nobody'"),
    ],
)
def test_an_answer_that_cannot_be_is_not_sent(
    fake: FakeGateway,
    home: str,
    capsys: pytest.CaptureFixture[str],
    question: dict[str, Any],
    words: list[str],
    code: int,
    says: str,
) -> None:
    asks(fake, question)
    assert polypod(["--home", home, "answer", *words]) == code
    assert fake.posts == []
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("words", [["answer", "files"], ["answer", "files", "--json"]])
def test_Q06_without_a_terminal_nobody_invents_an_answer(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    asks(fake, CLARIFY)
    assert polypod(["--home", home, *words]) == 2
    assert fake.posts == []
    err = capsys.readouterr().err
    assert "there is no terminal to ask at" in err
    assert f"polypod answer {CHILD} --choice red" in err


def test_Q09_the_answer_to_a_question_that_is_closed_is_refused_by_the_one_who_knows(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.add(CHILD, name="files", parent_id=ROOT, status="idle")
    fake.problem = {"status": 409, "type": "urn:polypod:question-closed", "detail": "It was cancelled."}
    assert polypod(["--home", home, "answer", "q-000000000002-7-0", "red"]) == 1
    assert "It was cancelled." in capsys.readouterr().err


def test_the_inbox_shows_each_question_whole_with_the_command_that_answers(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert polypod(["--home", home, "inbox"]) == 0
    assert "nobody asks anything" in capsys.readouterr().out
    asks(fake, CLARIFY)
    assert polypod(["--home", home, "inbox"]) == 0
    out = capsys.readouterr().out
    for words in ("files asks", "q-000000000002-7-0", "Which 色?", "1. red: warm", "2. 青", "--choice red"):
        assert words in out
    assert polypod(["--home", home, "inbox", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [CLARIFY]


@pytest.mark.parametrize("command", [["ps", "--waiting"], ["tree"]])
def test_who_waits_for_whom_is_shown_with_the_question(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    asks(fake, PERMISSION)
    assert polypod(["--home", home, *command]) == 0
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if "files" in line and "boss" not in line)
    assert "a person: a permission" in row
    assert "May files use Shell: git push" in out
    assert f"polypod answer {CHILD} --choice allow_once|allow_session|deny" in out
    assert ("boss" in out) is (command == ["tree"])
    if command == ["tree"]:
        assert next(line for line in out.splitlines() if "boss" in line).split()[3] == "files"


def test_a_choice_is_one_line_and_the_printed_way_to_answer_can_be_typed() -> None:
    lines = question_lines(ODD, 80)
    assert lines[-3:-1] == ["  1. --force: a b", "  2. a b"]
    assert "--choice=--force" in lines[-1]


def test_nobody_who_waits_is_not_nobody_at_all(
    fake: FakeGateway, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert polypod(["--home", home, "ps", "--waiting"]) == 0
    assert "no Pod waits for a person in" in capsys.readouterr().out


def test_a_question_cannot_move_the_cursor(fake: FakeGateway) -> None:
    lines = question_lines({**CLARIFY, "question": "a\x1b[2Jb\nc\x07", "choices": [{"label": "x\x1b[1my"}]}, 80)
    assert not any("\x1b" in line or "\x07" in line for line in lines)
    assert lines[1:4] == ["  ab", "  c", "  1. xy"]


@pytest.mark.parametrize(
    ("question", "typed", "said"),
    [
        (CLARIFY, ["2"], {"choice": "青"}),
        (CLARIFY, ["", " 1 "], {"choice": "red"}),
        (CLARIFY, ["red"], {"choice": "red"}),
        (CLARIFY, ["3"], {"text": "3"}),
        (CLARIFY, ["neither of them"], {"text": "neither of them"}),
        (FREE, ["1"], {"text": "1"}),
        (PERMISSION, ["yes", "0", "1"], {"choice": "allow_once"}),
        (PERMISSION, ["3", "no pushing"], {"choice": "deny", "text": "no pushing"}),
        (PERMISSION, ["deny", ""], {"choice": "deny"}),
    ],
)
def test_the_form_at_a_terminal(question: dict[str, Any], typed: list[str], said: dict[str, str]) -> None:
    out, left = io.StringIO(), iter(typed)
    assert form(question, Screen(out, {}), lambda prompt: next(left)) == said
    assert "Which 色?" in out.getvalue() or "May files" in out.getvalue()


def test_the_form_left_without_an_answer_answers_nothing() -> None:
    def closed(prompt: str) -> str:
        raise EOFError

    with pytest.raises(CommandError, match="the question stays open"):
        form(CLARIFY, Screen(io.StringIO(), {}), closed)
