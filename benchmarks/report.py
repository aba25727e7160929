"""What a benchmark finds, as values; and how they look as text, as Markdown and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Cell: TypeAlias = str | float | int | None


@dataclass(frozen=True, slots=True)
class Table:
    """`columns` name the cells of each row; the units are in the names."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A figure beside what was asked of it: at most `bound`, or at least if `least`. `value` None: not measured."""

    what: str
    value: float | None
    bound: float
    unit: str = ""
    least: bool = False

    @property
    def met(self) -> bool | None:
        if self.value is None:
            return None
        return self.value >= self.bound if self.least else self.value <= self.bound


@dataclass(frozen=True, slots=True)
class Report:
    """One question's answer. `notes` say how it was measured and what to beware of."""

    question: str
    tables: tuple[Table, ...] = ()
    targets: tuple[Target, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)


def middle(values: Sequence[float]) -> float:
    """The median; not a number for none."""
    return statistics.median(values) if values else float("nan")


def high(values: Sequence[float]) -> float:
    """The 90th percentile."""
    return sorted(values)[min(len(values) - 1, len(values) * 9 // 10)] if values else float("nan")


def as_text(report: Report) -> str:
    lines = [f"== {report.question}"]
    for table in report.tables:
        lines += ["", table.title, *_aligned(table)]
    lines += ["", *(_verdict(t) for t in report.targets)] if report.targets else []
    return "\n".join([*lines, *(f"  {note}" for note in report.notes)])


def as_markdown(report: Report) -> str:
    lines = [f"## {report.question}"]
    for table in report.tables:
        lines += ["", f"**{table.title}**", "", _row(table.columns), _row(["---"] + ["--:"] * (len(table.columns) - 1))]
        lines += [_row([_cell(c) for c in row]) for row in table.rows]
    if report.targets:
        lines += ["", _row(["target", "asked", "found", ""]), _row(["---", "--:", "--:", "---"])]
        lines += [_row([t.what, _asked(t), _found(t), _word(t)]) for t in report.targets]
    if report.notes:
        lines += ["", *(f"- {note}" for note in report.notes)]
    return "\n".join(lines)


def as_plain(report: Report) -> dict[str, Any]:
    """For `--json`."""
    return {
        "question": report.question,
        "tables": [{"title": t.title, "columns": t.columns, "rows": t.rows} for t in report.tables],
        "targets": [
            {"what": t.what, "value": t.value, "bound": t.bound, "unit": t.unit, "least": t.least, "met": t.met}
            for t in report.targets
        ],
        "notes": report.notes,
    }


def from_plain(plain: dict[str, Any]) -> Report:
    """The inverse of `as_plain`, also through JSON."""
    return Report(
        plain["question"],
        tuple(Table(t["title"], tuple(t["columns"]), tuple(tuple(r) for r in t["rows"])) for t in plain["tables"]),
        tuple(Target(t["what"], t["value"], t["bound"], t["unit"], t["least"]) for t in plain["targets"]),
        tuple(plain["notes"]),
    )


def _aligned(table: Table) -> list[str]:
    cells = [list(table.columns), *([_cell(c) for c in row] for row in table.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    return [
        "  " + "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]


def _cell(value: Cell) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    size = abs(value)
    if isinstance(value, int) or size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _asked(target: Target) -> str:
    return f"{'≥' if target.least else '≤'} {target.bound:g} {target.unit}".rstrip()


def _found(target: Target) -> str:
    return "–" if target.value is None else f"{_cell(target.value)} {target.unit}".rstrip()


def _word(target: Target) -> str:
    return {True: "met", False: "**missed**", None: "not measured"}[target.met]


def _verdict(target: Target) -> str:
    word = {True: "met   ", False: "MISSED", None: "-     "}[target.met]
    return f"  {word} {target.what}: {_found(target)} (asked: {_asked(target)})"
