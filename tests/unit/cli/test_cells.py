"""Text in terminal cells (V09: wide characters, a very long line, control characters)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from rich.cells import cell_len

from orchestrator.cli.cells import align, clean, count, cut, duration, one_line, pad, table

FAMILY = "👨\u200d👩\u200d👧"


@given(st.text(max_size=60), st.integers(0, 40))
def test_V09_a_line_never_is_wider_than_its_room(text: str, width: int) -> None:
    line = one_line(text, width)
    assert cell_len(line) <= width
    assert "\n" not in line
    assert "\x1b" not in line


@pytest.mark.parametrize(
    ("text", "width", "expect"),
    [
        ("日本語テスト", 12, "日本語テスト"),
        ("日本語テスト", 11, "日本語テス…"),
        ("日本語テスト", 2, "…"),
        (FAMILY + "家族です", 6, FAMILY + "家…"),
        ("e\u0301tude", 3, "e\u0301t…"),
        ("abc", 0, ""),
    ],
)
def test_V09_nothing_is_cut_in_half(text: str, width: int, expect: str) -> None:
    assert cut(text, width) == expect


def test_V09_columns_of_mixed_scripts_line_up() -> None:
    rows = [["調査", "実行中", "1"], ["abc", FAMILY, "1000"]]
    assert table(["NAME", "STATE", "#N"], rows, 80) == snapshot(
        ["NAME  STATE      N", "調査  実行中     1", f"abc   {FAMILY}      1000"]
    )


def test_spaces_of_a_drawing_are_kept() -> None:
    assert align(["POD", "#N"], [["│  └─ a", "2"]], 80)[1] == "│  └─ a  2"


def test_V09_a_very_long_line_is_cut_without_reading_all_of_it() -> None:
    assert one_line("x" * 10_000_000, 10) == "xxxxxxxxx…"


@pytest.mark.parametrize(
    ("text", "expect"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("a\x9b31mb", "a31mb"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("a\u202eb", "ab"),
        ("a\ud800b", "ab"),
        ("a\tb", "a   b"),
    ],
)
def test_text_of_a_model_cannot_move_the_cursor(text: str, expect: str) -> None:
    assert clean(text) == expect


def test_padding_fills_in_cells() -> None:
    assert pad("日本", 6) == "日本  "
    assert pad("日本語", 5) == "日本…"


@pytest.mark.parametrize(
    ("number", "expect"), [(950, "950"), (12_345, "12.3k"), (999_960, "1.0M"), (4_100_000, "4.1M")]
)
def test_counts(number: int, expect: str) -> None:
    assert count(number) == expect


@pytest.mark.parametrize(
    ("seconds", "expect"), [(0.42, "0.4s"), (59.9, "59s"), (185, "3m05s"), (7800, "2h10m"), (2.6e5, "3d")]
)
def test_durations(seconds: float, expect: str) -> None:
    assert duration(seconds) == expect
