"""Text in terminal cells: Japanese and emoji take two, and are never cut in half."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len, chop_cells, set_cell_size

MORE = "…"
# Escape sequences whole, then every other control character but newline and tab; a model's text may hold any.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """Text that cannot move the cursor, change colours or turn the reading direction of what surrounds it."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))).expandtabs(4)


def one_line(text: str, width: int) -> str:
    """The text on one line of at most `width` cells; `…` says that there is more."""
    return cut(" ".join(clean(text[: 8 * width + 1000]).split()), width)


def cut(text: str, width: int) -> str:
    """At most `width` cells of one line."""
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    first = chop_cells(text, width - 1)[0] if width > 1 else ""
    return first.rstrip() + MORE


def pad(text: str, width: int) -> str:
    """Exactly `width` cells: filled with spaces, or cut with `…`."""
    return set_cell_size(cut(text, width), width)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """As `align`, with every cell made safe and put on one line first."""
    return align(head, [[one_line(cell, width) for cell in row] for row in rows], width)


def align(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Columns that line up, cut at `width`. Those named `#…` are set to the right; spaces in cells are kept."""
    titles = [name.removeprefix("#") for name in head]
    sizes = [max([cell_len(title), *(cell_len(row[i]) for row in rows)]) for i, title in enumerate(titles)]
    lines = []
    for row in [titles, *rows]:
        parts = []
        for i, cell in enumerate(row):
            space = " " * (sizes[i] - cell_len(cell))
            parts.append(space + cell if head[i].startswith("#") else cell + space)
        lines.append(cut("  ".join(parts).rstrip(), width))
    return lines


def count(number: float) -> str:
    """`950`, `12.3k`, `4.1M`."""
    if number < 1000:
        return str(int(number))
    if number < 999_950:
        return f"{number / 1000:.1f}k"
    return f"{number / 1_000_000:.1f}M"


def duration(seconds: float) -> str:
    """`0.4s`, `12s`, `3m05s`, `2h10m`, `3d`."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d"
