"""The prompt in the making: pastes, earlier prompts, answers."""

from __future__ import annotations

import pytest

from orchestrator.tui.composing import Answer, Earlier, Pastes, answer_of


def test_a_long_paste_is_a_token_and_a_segment_of_its_own() -> None:
    pastes = Pastes()
    assert pastes.token("short") is None
    token = pastes.token("a\nb\nc\nd")
    assert token == "[paste 1: 4 lines, 7 characters]"
    assert pastes.segments(f"look at {token} please") == [
        {"type": "text", "text": "look at "},
        {"type": "paste", "text": "a\nb\nc\nd"},
        {"type": "text", "text": " please"},
    ]
    assert pastes.token_before(f"look at {token}") == len(token)
    assert pastes.token_before(f"look at {token} ") == 0
    assert pastes.expanded(f"<{token}>") == "<a\nb\nc\nd>"


def test_references_are_typed_segments() -> None:
    token = (pastes := Pastes()).token("@not a reference\n" * 4)
    assert pastes.segments(f"see @docs/a.md and\n{token}\n/review now") == [
        {"type": "text", "text": "see "},
        {"type": "file_ref", "text": "@docs/a.md", "path": "docs/a.md"},
        {"type": "text", "text": " and\n"},
        {"type": "paste", "text": "@not a reference\n" * 4},
        {"type": "text", "text": "\n"},
        {"type": "workflow_invoke", "text": "/review", "slug": "review"},
        {"type": "text", "text": " now"},
    ]


def test_what_only_looks_like_a_token_is_text() -> None:
    pastes = Pastes()
    text = "[paste 7: 1 line, 3 characters]"
    assert pastes.segments(text) == [{"type": "text", "text": text}]
    assert pastes.token_before(text) == 0


def test_earlier_prompts_and_back_to_the_draft() -> None:
    earlier = Earlier()
    assert earlier.back("draft") is None
    for text in ("one", "two", "two", " "):
        earlier.add(text)
    assert [earlier.back("draft"), earlier.back("two"), earlier.back("one")] == ["two", "one", None]
    assert [earlier.forth(), earlier.forth(), earlier.forth()] == ["two", "draft", None]
    earlier.seed(["zero", "one"])
    assert [earlier.back(""), earlier.back(""), earlier.back(""), earlier.back("")] == ["two", "one", "zero", None]


@pytest.mark.parametrize(
    ("kind", "marked", "text", "expect"),
    [
        ("clarify", None, "2", Answer("青", None)),
        ("clarify", 0, "", Answer("red", None)),
        ("clarify", 0, "2", Answer("青", None)),
        ("clarify", None, " 3 ", Answer(None, "3")),
        ("clarify", None, "2 of them", Answer(None, "2 of them")),
        ("clarify", 1, "but pale", Answer("青", "but pale")),
        ("permission", 1, "too risky", Answer("青", "too risky")),
    ],
)
def test_answers(kind: str, marked: int | None, text: str, expect: Answer) -> None:
    assert answer_of(["red", "青"], kind, marked, text) == expect


@pytest.mark.parametrize(("kind", "text"), [("clarify", ""), ("clarify", "  "), ("permission", "only a reason")])
def test_what_is_no_answer_says_why(kind: str, text: str) -> None:
    assert answer_of(["red", "青"], kind, None, text).problem
