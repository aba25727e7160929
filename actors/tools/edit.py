"""Edit: put one passage of a file in place of another."""

from __future__ import annotations

from pydantic import Field

from actors.protocol.tools import Tool, ToolContext, ToolOutcome
from actors.tools.files import Target, current, file_data, known, put
from actors.tools.limits import ToolLimits
from actors.tools.offload import StopSign, in_thread
from actors.tools.scope import Reach
from actors.tools.text import SAMPLE, detect, printable
from actors.tools.typed import Arguments, ToolRefusal, typed_tool

_PLACES = 5


class Edit(Arguments):
    says = (
        "Replace a passage of a text file. `old` is the exact text, white space included and without the line numbers "
        "that Read shows; it must occur exactly once, unless `replace_all` is true. The file must have been read in "
        "this session and not have changed since. Encoding and line ends of the file are kept."
    )
    path: str = Field(description="File to change.")
    old: str = Field(description="The text to replace, exactly as in the file.")
    new: str = Field(description="The text to put in its place.")
    replace_all: bool = Field(default=False, description="Replace every occurrence of `old`.")


def edit_tool(limits: ToolLimits) -> Tool:
    async def edit(arguments: Edit, context: ToolContext) -> ToolOutcome:
        return await in_thread(lambda stop: _edit(arguments, context, limits, stop))

    return typed_tool(Edit, edit, touches=lambda a, c: Reach.of(c).resolve(a.path, "write"))


def _edit(arguments: Edit, context: ToolContext, limits: ToolLimits, stop: StopSign) -> ToolOutcome:
    reach = Reach.of(context)
    real = reach.resolve(arguments.path, "write")
    path = printable(arguments.path)
    if not arguments.old:
        raise ToolRefusal("`old` is empty: say which text to replace, or use Write for a whole file.")
    if arguments.old == arguments.new:
        raise ToolRefusal("`old` and `new` are the same: nothing to do.")
    before = current(real, path, limits.editable, stop)
    if before is None:
        raise ToolRefusal(f"`{path}` does not exist: use Write to create it.")
    known(real, path, before, context)
    encoding, text = _text(before.data, path)
    old, new = _with_line_ends(text, arguments.old, arguments.new)
    places = text.count(old)
    if places == 0:
        raise ToolRefusal(_not_found(path, text, old))
    if places > 1 and not arguments.replace_all:
        lines = ", ".join(str(n) for n in _lines_of(text, old)[:_PLACES]) + (", …" if places > _PLACES else "")
        raise ToolRefusal(
            f"`old` occurs {places} times in `{path}` (lines {lines}): give more of the text around the place you "
            "mean, or set replace_all."
        )
    first = _lines_of(text, old)[0]
    digest = put(Target(real, path, before), _encoded(text.replace(old, new), encoding), stop)
    where = f"line {first}" if places == 1 else f"{places} places from line {first}"
    return ToolOutcome("ok", f"edited {reach.shown(real)} at {where}", None, file_data(real, digest))


def _text(data: bytes, path: str) -> tuple[str, str]:
    """Encoding and text of a file whose bytes come out again unchanged. Raises `ToolRefusal`."""
    encoding = detect(data[:SAMPLE])
    if encoding is None:
        raise ToolRefusal(f"`{path}` is a binary file: Edit changes text only.")
    try:
        text = data.decode(encoding)
        exact = text.encode(encoding) == data
    except UnicodeError:
        exact, text = False, ""
    if not exact:
        raise ToolRefusal(f"`{path}` reads as {encoding} but with errors: Edit would damage the rest of it.")
    return encoding, text


def _encoded(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        bad = error.object[error.start]
        if encoding.startswith("utf"):
            raise ToolRefusal("`new` holds half a character (a lone surrogate).") from None
        raise ToolRefusal(f"the file is in {encoding}, which has no `{bad}`: use other words.") from None


def _with_line_ends(text: str, old: str, new: str) -> tuple[str, str]:
    """`old` and `new` with the file's own line ends, where the model wrote plain ones."""
    if "\r\n" in text and "\r" not in old and old not in text:
        return old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    if "\r\n" in text and "\r" not in old + new and text.count("\r\n") == text.count("\n"):
        return old, new.replace("\n", "\r\n")
    return old, new


def _lines_of(text: str, old: str) -> list[int]:
    """The lines in which the first occurrences begin."""
    lines: list[int] = []
    at = text.find(old)
    while at >= 0 and len(lines) <= _PLACES:
        lines.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + len(old))
    return lines


def _not_found(path: str, text: str, old: str) -> str:
    start = next((line.split() for line in old.split("\n") if line.split()), [])
    for number, line in enumerate(text.split("\n"), 1):
        if start and line.split() == start:
            return (
                f"`old` does not occur in `{path}`. Line {number} begins like it: compare white space and the lines "
                "that follow with what Read shows."
            )
    return f"`old` does not occur in `{path}`: Read it and copy the passage exactly."
