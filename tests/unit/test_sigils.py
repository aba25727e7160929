"""`@path`, `#slug` and `/slug` in what people type."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from orchestrator.sigils import Piece, Typing, parse, prompt_text, shown, typing_at_end, written
from session_store.codec import from_plain
from session_store.items import Segment, UserMessage

PARSED: list[tuple[str, list[tuple[str, str | None]]]] = [
    ("look at @src/a.py, please", [("look at ", None), ("@src/a.py", "src/a.py"), (", please", None)]),
    ("@a.md.", [("@a.md", "a.md"), (".", None)]),
    ("(see @docs/b.md)", [("(see ", None), ("@docs/b.md", "docs/b.md"), (")", None)]),
    ("@app/(group)/[id]/page.tsx!", [("@app/(group)/[id]/page.tsx", "app/(group)/[id]/page.tsx"), ("!", None)]),
    ("@. @.. @../x", [("@.", "."), (" ", None), ("@..", ".."), (" ", None), ("@../x", "../x")]),
    ('@"my notes/a b.md" and', [('@"my notes/a b.md"', "my notes/a b.md"), (" and", None)]),
    (r'@"a\"b\\c"', [(r'@"a\"b\\c"', 'a"b\\c')]),
    ("これは@設定.toml を見て。@議事録、#設計", [
        ("これは", None), ("@設定.toml", "設定.toml"), (" を見て。", None),
        ("@議事録", "議事録"), ("、", None), ("#設計", "設計"),
    ]),
    ("by #house-style.", [("by ", None), ("#house-style", "house-style"), (".", None)]),
    ("/review @a\n  /tests\nand", [
        ("/review", "review"), (" ", None), ("@a", "a"), ("\n  ", None), ("/tests", "tests"), ("\nand", None),
    ]),
]  # fmt: skip

LITERAL = [
    "mail me@example.com or a.b+c@x.org",
    "# Heading\n## Another\n#1 and #42",
    "C#sharp, http://x/#top, a#b",
    "use /tmp and a/b, not /usr/bin",
    "/usr/bin/env",
    "and then /review",
    "a @ b # c / d",
    '@"not closed',
    r"C:\#x \\@a",
    "",
]


@pytest.mark.parametrize(("text", "expect"), PARSED)
def test_what_a_prompt_refers_to(text: str, expect: list[tuple[str, str | None]]) -> None:
    assert [(p.text, p.target) for p in parse(text)] == expect


@pytest.mark.parametrize("text", LITERAL)
def test_what_is_no_reference_is_text(text: str) -> None:
    assert parse(text) == ((Piece("text", text, text),) if text else ())


def test_an_escape_makes_the_sigil_text_and_goes_only_where_it_was_needed() -> None:
    assert parse(r"\@a \#b" + "\n" + r"\/c d\@e \#1 x \/y") == (
        Piece("text", r"\@a \#b" + "\n" + r"\/c d\@e \#1 x \/y", "@a #b\n/c d\\@e \\#1 x \\/y"),
    )


PROMPTS = some.text(alphabet=some.sampled_from(list('@#/\\" \nab.1(),。設é🙂')), max_size=40)


@given(PROMPTS | some.text(max_size=60))
@example("@a@b")
@example('@"a"@b')
@example("\\\\@a")
def test_no_character_is_ever_lost(text: str) -> None:
    pieces = parse(text)
    assert "".join(p.source for p in pieces) == text
    assert all(p.source for p in pieces)
    for before, after in pairwise(pieces):
        assert (before.type, after.type) != ("text", "text")
    # Only the backslash of an escape goes, and what is sent reads as one text.
    assert len(text) - sum(len(p.text) for p in pieces) <= text.count("\\")
    segments = [p.segment for p in pieces]
    plain = [{"type": s["type"], "text": s["text"]} for s in segments]
    said = UserMessage(from_plain(tuple[Segment, ...], plain), "m", "user").text
    assert said == prompt_text(segments) == "".join(p.text for p in pieces)


@given(some.text(alphabet=some.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), min_size=1))
def test_any_path_of_one_line_can_be_written_and_read_back(path: str) -> None:
    assert [(p.type, p.target) for p in parse(written("@", path))] == [("file_ref", path)]


def test_texts_and_pastes_stand_on_lines_of_their_own_and_references_in_their_sentence() -> None:
    plain = [
        {"type": "text", "text": "fix"},
        {"type": "paste", "text": "log"},
        {"type": "text", "text": ""},
        {"type": "text", "text": "in "},
        {"type": "file_ref", "data": {"path": "a b"}},
        {"type": "text", "text": " now"},
    ]
    full = [{**s, "text": shown(s)} for s in plain]
    assert prompt_text(plain) == 'fix\nlog\nin @"a b" now'
    assert UserMessage(from_plain(tuple[Segment, ...], full), "m", "user").text == prompt_text(plain)


TYPED = [
    ("look at @src/ma", Typing("@", "src/ma", 8)),
    ('@"my no', Typing("@", "my no", 0)),
    ('@"done" x', None),
    ("#設", Typing("#", "設", 0)),
    ("# ", None),
    ("/re", Typing("/", "re", 0)),
    ("a\n /", Typing("/", "", 3)),
    ("a /re", None),
    ("me@ex", None),
    (r"\@ex", None),
    ("@a b", None),
]


@pytest.mark.parametrize(("text", "expect"), TYPED)
def test_what_is_being_typed_can_be_completed(text: str, expect: Typing | None) -> None:
    assert typing_at_end(text) == expect


def test_the_parser_is_cheap_to_import() -> None:
    code = "import sys, orchestrator.sigils; print(sorted({'pydantic', 'msgpack', 'asyncio'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
