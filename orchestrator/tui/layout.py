"""Blocks as rows of styled text. Pure: a block, a width and whether it is opened give the same rows every time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rich.cells import cell_len

from orchestrator.cli.cells import clean, cut, one_line
from orchestrator.cli.story import OUTCOME_STYLES, without_command
from orchestrator.tui import blocks as kinds
from orchestrator.tui.blocks import Block
from orchestrator.tui.wrap import Flow, wrap

Span: TypeAlias = tuple[str, str]
"""Text and the name of its style (`styles.STYLES`)."""
Row: TypeAlias = tuple[Span, ...]

INDENT = 2
OPEN_ROWS = 400
"""Rows of one opened part; what is longer is in `polypod logs`."""
TAIL_ROWS = 4
"""Rows of a running tool's output."""
LONG_PROMPT = 24
"""A prompt of more rows is folded."""
SHORT_NOTE = 3
"""A SystemItem of more rows is folded."""

RESULT_STYLES: Mapping[str, str] = {
    "ok": "dim",
    "error": "red",
    "denied": "red",
    "interrupted": "yellow",
    "not_run": "yellow",
}


def can_open(block: Block) -> bool:
    """Whether there is more of the block than its folded rows show."""
    match block:
        case kinds.Reasoning() | kinds.ToolCall() | kinds.SystemNote():
            return True
        case kinds.Question():
            return bool(block.choices)
        case kinds.Mark():
            return block.type == "segment_start"
        case kinds.UserPrompt():
            return len(block.text) > LONG_PROMPT * 40 or block.text.count("\n") > LONG_PROMPT
        case _:
            return False


@dataclass(slots=True)
class Laid:
    block: Block
    opened: bool
    rows: tuple[Row, ...]


@dataclass(slots=True)
class Layout:
    """Rows of many blocks at one width; only what changed is laid out again.

    `details`: minor blocks (starts of runs, tokens of requests) show too.
    """

    width: int
    details: bool = False
    _laid: dict[str, Laid] = field(default_factory=dict)
    _flows: dict[str, Flow] = field(default_factory=dict)

    def rows(self, block: Block, opened: bool) -> tuple[Row, ...]:
        known = self._laid.get(block.key)
        if known is not None and known.block is block and known.opened is opened:
            return known.rows
        rows = tuple(self._lay(block, opened))
        self._laid[block.key] = Laid(block, opened, rows)
        return rows

    def keep_only(self, keys: Iterable[str]) -> None:
        """Forget blocks that are gone."""
        wanted = set(keys)
        for key in [k for k in self._laid if k not in wanted]:
            del self._laid[key]
            self._flows.pop(key, None)

    def _lay(self, block: Block, opened: bool) -> list[Row]:
        if not self.details and _is_minor(block):
            return []
        if isinstance(block, kinds.AssistantText) and block.live:
            flow = self._flows.setdefault(block.key, Flow(self.width - INDENT))
            return [(), *(_indented(row, "text") for row in flow.grow(clean(block.text)))]
        rows = rows_of(block, self.width, opened)
        return [_faded(row) for row in rows] if block.left else rows


def rows_of(block: Block, width: int, opened: bool) -> list[Row]:
    """The rows of one block; an empty row sets it off from what stands before it."""
    lay: Callable[..., list[Row]] = _LAYS[type(block)]
    return lay(block, width, opened)


def _is_minor(block: Block) -> bool:
    if isinstance(block, kinds.Mark):
        return block.type in ("invoke", "extension")
    return isinstance(block, kinds.Usage)


def _prompt(block: kinds.UserPrompt, width: int, opened: bool) -> list[Row]:
    rows = _marked("> ", block.text, width, "user")
    if len(rows) > LONG_PROMPT and can_open(block) and not opened:
        more = len(rows) - LONG_PROMPT // 2
        rows = [*rows[: LONG_PROMPT // 2], _line(f"▸ {more} more lines", "dim", width)]
    notes = []
    if block.sender != "user":
        notes.append(f"from {block.sender}")
    if block.answers:
        notes.append("an answer")
    if block.left:
        notes.append("no longer in the history")
    return [(), *([_line(f"  ({', '.join(notes)})", "dim", width)] if notes else []), *rows]


def _assistant(block: kinds.AssistantText, width: int, opened: bool) -> list[Row]:
    text = clean(block.text).strip("\n")
    return [(), *(_indented(row, "text") for row in wrap(text, width - INDENT))] if text.strip() else []


def _reasoning(block: kinds.Reasoning, width: int, opened: bool) -> list[Row]:
    if not opened:
        return [_line(f"▸ thinks: {one_line(block.text, width)}", "dim", width)]
    return [_line("▾ thinks", "dim", width), *_part(block.text, width, "dim")]


def _call(block: kinds.ToolCall, width: int, opened: bool) -> list[Row]:
    rows = [_call_line(block, width, "▾" if opened else "▸")]
    if block.problem:
        rows += _part(f"not run: {block.problem}", width, "red")
    if opened:
        rows += _part(block.detail, width, "dim")
        rows += _part(block.output if block.status is None else block.content or block.summary, width, "plain")
    elif block.status is None and block.output:
        rows += _part(block.output.rstrip("\n"), width, "dim")[-TAIL_ROWS:]
    return rows


def _call_line(block: kinds.ToolCall, width: int, sign: str) -> Row:
    """The call and how it went on one row: the call gives way, but not below half of it."""
    words = one_line(block.words, width)
    if block.status is None:
        tail = f"  {block.summary or 'runs'} …"
        style = "running"
    else:
        summary = without_command(block.summary)
        said = summary if block.status == "ok" or summary.startswith(block.status) else f"{block.status}: {summary}"
        tail, style = f"  {one_line(said, width)}", RESULT_STYLES.get(block.status, "dim")
    room = max(width - 2, 4)
    words = cut(words, max(room - cell_len(tail), room // 2))
    tail = cut(tail, max(room - cell_len(words), 0))
    return ((f"{sign} ", "dim"), (words, "call"), (tail, style))


def _note(block: kinds.SystemNote, width: int, opened: bool) -> list[Row]:
    head = f"{one_line(block.mark, max(width // 3, 4))} "
    rows = wrap(clean(block.words).strip("\n"), width - INDENT - cell_len(head))
    folded = len(rows) > SHORT_NOTE
    sign = "▾ " if opened else "▸ " if folded else "* "
    shown = rows[:1] if folded and not opened else rows[:OPEN_ROWS]
    laid: list[Row] = [((sign, "note"), (head, "note"), (shown[0], "plain"))]
    laid += [((" " * (INDENT + cell_len(head)), "plain"), (row, "plain")) for row in shown[1:]]
    if folded and not opened:
        laid[0] += ((f"  (+{len(rows) - 1} lines)", "dim"),) if cell_len(rows[0]) + 16 < width - cell_len(head) else ()
    if opened and block.body.strip() and block.body != block.words:
        laid += _part(block.body, width, "dim")
    return laid


def _question(block: kinds.Question, width: int, opened: bool) -> list[Row]:
    """While it is open its choices stand in the form; later they are folded."""
    rows: list[Row] = [(), *_marked("? ", block.question, width, "ask")]
    for number, (label, description) in enumerate(block.choices if opened else (), 1):
        rows += _part(f"{number}. {label}{': ' + description if description else ''}", width, "plain")
    if block.closed:
        rows += _part(block.closed, width, "dim")
    return rows


def _run_end(block: kinds.RunEnd, width: int, opened: bool) -> list[Row]:
    style = OUTCOME_STYLES.get(block.outcome, "plain")
    return _marked("-- ", block.words, width, "dim" if block.outcome == "finished" else style)


def _usage(block: kinds.Usage, width: int, opened: bool) -> list[Row]:
    return _marked("   ", block.words, width, "dim")


def _mark(block: kinds.Mark, width: int, opened: bool) -> list[Row]:
    if block.type == "segment_start" and not opened:
        return [_line(f"= {block.words}", block.style, width)]
    return _marked("= ", block.words, width, block.style)


def _unknown(block: kinds.Unknown, width: int, opened: bool) -> list[Row]:
    return _marked("? ", block.words, width, "dim")[:OPEN_ROWS]


def _live(block: kinds.Live, width: int, opened: bool) -> list[Row]:
    return _marked("… ", block.words, width, "yellow")


_LAYS: Mapping[type[Any], Callable[..., list[Row]]] = {
    kinds.UserPrompt: _prompt,
    kinds.AssistantText: _assistant,
    kinds.Reasoning: _reasoning,
    kinds.ToolCall: _call,
    kinds.SystemNote: _note,
    kinds.Question: _question,
    kinds.RunEnd: _run_end,
    kinds.Usage: _usage,
    kinds.Mark: _mark,
    kinds.Unknown: _unknown,
    kinds.Live: _live,
}


def _marked(mark: str, text: str, width: int, style: str) -> list[Row]:
    """Text with a mark before its first row, the others set in."""
    room = width - len(mark)
    first, *others = wrap(clean(text).strip("\n"), room)
    return [((mark, style), (first, style)), *(((" " * len(mark), "plain"), (row, style)) for row in others)]


def _part(text: str, width: int, style: str) -> list[Row]:
    """A part of an opened block, set in, cut where it is very long."""
    if not text:
        return []
    rows = wrap(clean(text[: OPEN_ROWS * max(width, 2) * 2]).rstrip("\n"), width - 2 * INDENT)
    laid: list[Row] = [((" " * (2 * INDENT), "plain"), (row, style)) for row in rows[:OPEN_ROWS]]
    if len(rows) > OPEN_ROWS:
        laid.append(_line(" " * 2 * INDENT + "… more: `polypod logs` shows all of it", "dim", width))
    return laid


def _line(text: str, style: str, width: int) -> Row:
    return ((cut(clean(text), width), style),)


def _indented(row: str, style: str) -> Row:
    return ((" " * INDENT, "plain"), (row, style))


def _faded(row: Row) -> Row:
    return tuple((text, "left") for text, _ in row)
