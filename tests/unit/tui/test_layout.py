"""Blocks as rows: one look per kind, and none wider than the screen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from inline_snapshot import snapshot
from rich.cells import cell_len

from orchestrator.tui.blocks import AssistantText, Block, Reasoning, SystemNote, ToolCall, UserPrompt
from orchestrator.tui.layout import OPEN_ROWS, Layout, rows_of
from tests.unit.tui.test_history import folded

LONG = "とても長い行 " * 40 + "x" * 500


def told(blocks: list[Block], width: int, opened: bool) -> str:
    layout = Layout(width, details=opened)
    rows = [row for block in blocks for row in layout.rows(block, opened)]
    return "\n".join("".join(text for text, _ in row).rstrip() for row in rows)


def test_folded() -> None:
    assert told(folded().blocks(), 60, False) == snapshot("""\
= segment  model m · workspace ?

> 数えて
▸ thinks: hm

  見ます
▸ Shell ls  2 lines
* notification <n>hi</n>

? Which 色?
    answered by user: 青
-- waiting on user

  (an answer, no longer in the history)
> 青
-- withdrawn
= rewound to before entry 12
? from_the_future (a kind this version does not know):
  {"x":1}
? tool_results: {"results":[{"name":"no more than that"}]}
= the Pod has ended: stop\
""")


def test_opened() -> None:
    assert told(folded().blocks(), 60, True) == snapshot("""\
= segment  model m · workspace ?
= run r1 starts (prompt)

> 数えて
▾ thinks
    hm

  見ます
▾ Shell ls  2 lines
    {
     "command": "ls"
    }
    a
   request: 1.2k tokens in, 34 out, 0.5s
▾ notification <n>hi</n>

? Which 色?
    1. red
    2. 青: sky
    answered by user: 青
-- waiting on user
= run r2 starts (answer)

  (an answer, no longer in the history)
> 青
-- withdrawn
= rewound to before entry 12
? from_the_future (a kind this version does not know):
  {"x":1}
? tool_results: {"results":[{"name":"no more than that"}]}
= the Pod has ended: stop\
""")


@given(some.integers(12, 90), some.booleans())
def test_V09_no_row_is_wider_than_the_screen(width: int, opened: bool) -> None:
    blocks = [
        *folded().blocks(),
        UserPrompt("a", 1, LONG, "user", "m"),
        AssistantText("b", 2, LONG),
        AssistantText("live:c", 0, LONG, live=True),
        ToolCall("d", 3, "Shell", LONG, LONG, status="ok", summary=LONG, content=LONG),
        SystemNote("e", 4, "file_attachment", "file_attachment", LONG, LONG),
    ]
    layout = Layout(width, details=opened)
    for block in blocks:
        for row in layout.rows(block, opened):
            assert sum(cell_len(text) for text, _ in row) <= width, block


def test_a_very_long_part_says_where_the_rest_is() -> None:
    block = ToolCall("d", 3, "Shell", "ls", "", status="ok", summary="s", content="line\n" * (OPEN_ROWS + 50))
    rows = rows_of(block, 60, True)
    assert len(rows) == OPEN_ROWS + 2
    assert "polypod logs" in rows[-1][0][0]


def test_text_of_a_model_cannot_move_the_cursor() -> None:
    nasty = "a\x1b[2Jb\x07c\u202ed"
    for block in (AssistantText("b", 1, nasty), Reasoning("c", 1, nasty)):
        text = "".join(text for row in rows_of(block, 40, False) for text, _ in row)
        assert "abcd" in text


@pytest.mark.parametrize("width", [2, 3, 5, 9])
def test_a_sliver_of_a_screen_breaks_nothing(width: int) -> None:
    for block in folded().blocks():
        rows_of(block, width, True)


def test_only_what_changed_is_laid_out_again() -> None:
    layout = Layout(40)
    block = AssistantText("b", 1, "text")
    assert layout.rows(block, False) is layout.rows(block, False)
    layout.keep_only([])
    assert layout.rows(block, False) == tuple(rows_of(block, 40, False))
