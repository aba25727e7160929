"""Breaking text into rows: nothing too wide, nothing lost, no character cut, and the same rows while it grows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some
from inline_snapshot import snapshot
from rich.cells import cell_len

from orchestrator.tui.wrap import Flow, clusters, wrap

FAMILY = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"
MIXED = [
    "a",
    "word",
    " ",
    "  ",
    "\n",
    "数",
    "。",
    "「",
    "ー",
    "ｶﾞ",
    "🙂",
    FAMILY,
    "🇯🇵",
    "e\u0301",
    "か\u3099",
    "👍🏽",
    "❤\ufe0f",
]
TEXTS = some.lists(some.sampled_from(MIXED), max_size=60).map("".join)


def test_rows() -> None:
    text = f"数えて、みます。{FAMILY}がいる🇯🇵🇫🇷 hello wonderful world，on and on"
    assert wrap(text, 12) == snapshot(
        ["数えて、みま", "す。👨\u200d👩\u200d👧がいる", "🇯🇵🇫🇷 hello", "wonderful", "world，on", "and on"]
    )


@given(TEXTS, some.integers(2, 20))
def test_V09_no_row_is_too_wide_and_nothing_is_lost(text: str, width: int) -> None:
    rows = wrap(text, width)
    assert all(cell_len(row) <= width for row in rows)
    assert "".join(rows).replace(" ", "") == text.replace("\n", "").replace(" ", "")


@given(TEXTS, some.integers(2, 20))
def test_V09_no_character_is_cut(text: str, width: int) -> None:
    whole = [c for line in text.split("\n") for c, _ in clusters(line) if c.strip()]
    assert [c for row in wrap(text, width) for c, _ in clusters(row) if c.strip()] == whole


@given(some.lists(some.sampled_from(MIXED), max_size=40), some.integers(2, 12))
def test_text_that_grows_has_the_rows_of_the_whole(pieces: list[str], width: int) -> None:
    flow, text = Flow(width), ""
    for piece in pieces:
        text += piece
        assert flow.grow(text) == wrap(text, width)


def test_text_that_shrinks_is_broken_anew() -> None:
    flow = Flow(4)
    flow.grow("abcdefgh")
    assert flow.grow("xyz") == ["xyz"]
