"""Text broken into rows of at most so many cells: at spaces, between wide characters, never within a character. Pure.

Rows are stable: more text at the end changes the last row only, so text in the making is broken from there on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.cells import cell_len, split_graphemes

_PLAIN = re.compile(r"[ -~]*")
_WORDS = re.compile(r" +|[^ ]+")
# Marks that must not begin a row in Japanese and Chinese text.
_CLOSING = frozenset("、。，．・：；？！ー）」』】］｝〉》〕’”…‥々ゝゞぁぃぅぇぉっゃゅょァィゥェォッャュョ")


def wrap(text: str, width: int) -> list[str]:
    """All rows of a text with line ends."""
    return [row for _, row in wrap_from(text, 0, width)]


def wrap_from(text: str, start: int, width: int) -> list[tuple[int, str]]:
    """The rows from index `start` (where a row begins) on, each with the index where it begins."""
    rows: list[tuple[int, str]] = []
    for line in text[start:].split("\n"):
        rows += _wrap_line(line, start, max(width, 2))
        start += len(line) + 1
    return rows


@dataclass(slots=True)
class Flow:
    """The rows of a text that grows at its end."""

    width: int
    text: str = ""
    rows: list[tuple[int, str]] = field(default_factory=list)

    def grow(self, text: str) -> list[str]:
        """The rows of `text`; what the text before had in common with it is not broken again."""
        start = self.rows[-1][0] if self.rows else 0
        if text.startswith(self.text[:start]):
            del self.rows[-1:]
        else:
            self.rows, start = [], 0
        self.rows += wrap_from(text, start, self.width)
        self.text = text
        return [row for _, row in self.rows]


def clusters(text: str) -> list[tuple[str, int]]:
    """What a reader sees as characters, with their cells. The two halves of a flag are one."""
    if _PLAIN.fullmatch(text):
        return [(char, 1) for char in text]
    spans = [(text[a:b], cells) for a, b, cells in split_graphemes(text)[0]]
    joined: list[tuple[str, int]] = []
    open_flag = False
    for part, cells in spans:
        if open_flag and _is_regional(part):
            head, before = joined.pop()
            joined.append((head + part, before + cells))
            open_flag = False
        else:
            joined.append((part, cells))
            open_flag = _is_regional(part)
    return joined


def _is_regional(part: str) -> bool:
    return len(part) == 1 and "\U0001f1e6" <= part <= "\U0001f1ff"


def _wrap_line(line: str, at: int, width: int) -> list[tuple[int, str]]:
    if len(line) <= width and (_PLAIN.fullmatch(line) or cell_len(line) <= width):
        return [(at, line)]
    rows: list[tuple[int, str]] = []
    begin, row, used = at, "", 0
    for piece, cells in _pieces(line, width):
        if piece.isspace() and used + cells > width:
            at += len(piece)  # spaces at the end of a row hang over it unseen
            continue
        if used + cells > width and row:
            rows.append((begin, row.rstrip(" ")))
            begin, row, used = at, "", 0
        row, used, at = row + piece, used + cells, at + len(piece)
    return [*rows, (begin, row)]


def _pieces(line: str, width: int) -> Iterator[tuple[str, int]]:
    """What stays together on a row: words, single wide characters, and parts of what is too long for any row."""
    for found in _WORDS.finditer(line):
        word = found[0]
        if _PLAIN.fullmatch(word):
            for start in range(0, len(word), width):
                part = word[start : start + width]
                yield part, len(part)
            continue
        yield from _wide_pieces(word, width)


def _wide_pieces(word: str, width: int) -> Iterator[tuple[str, int]]:
    part, used = "", 0
    was_wide = False
    for cluster, cells in clusters(word):
        together = cluster in _CLOSING or not (was_wide or cells > 1)
        if part and (used + cells > width or not together):
            yield part, used
            part, used = "", 0
        part, used, was_wide = part + cluster, used + cells, cells > 1
    if part:
        yield part, used
