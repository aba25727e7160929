"""Read and Write."""

from __future__ import annotations

import codecs
import difflib
import hashlib
import os
from dataclasses import dataclass

from pydantic import Field

from actors.protocol.tools import Tool, ToolContext, ToolOutcome
from actors.tools.filework import ChangedMeanwhile, Snapshot, TooLarge, blocks, replace, snapshot
from actors.tools.limits import ToolLimits
from actors.tools.offload import StopSign, in_thread
from actors.tools.paths import LinkMet, NotAFile
from actors.tools.scope import OutOfReach, Reach
from actors.tools.text import SAMPLE, decoder, detect, printable, sizes
from actors.tools.typed import Arguments, ToolRefusal, typed_tool
from session_store.items import Json


class Read(Arguments):
    says = (
        "Read a text file. Lines come numbered from 1, each as its number, a tab and the line; number and tab are not "
        "part of the file. Large files are cut with a note of the full size: go on with `offset`. Any text encoding "
        "that Japanese or Western files use is read; binary files are refused. A relative path is relative to the "
        "workspace. Reading a file is what allows Write and Edit to change it."
    )
    path: str = Field(description="File to read.")
    offset: int | None = Field(default=None, ge=1, description="First line to show, from 1.")
    limit: int | None = Field(default=None, ge=1, description="How many lines to show (default 2000).")


class Write(Arguments):
    says = (
        "Write a whole file, making missing folders. A file that exists must have been read before, and not have "
        "changed since; a new path needs no reading. Use Edit to change part of a file. Text is stored as UTF-8."
    )
    path: str = Field(description="File to write.")
    content: str = Field(description="All that the file shall hold.")


def file_tools(limits: ToolLimits) -> tuple[Tool, ...]:
    async def read(arguments: Read, context: ToolContext) -> ToolOutcome:
        return await in_thread(lambda stop: _read(arguments, context, limits, stop))

    async def write(arguments: Write, context: ToolContext) -> ToolOutcome:
        return await in_thread(lambda stop: _write(arguments, context, limits, stop))

    return (
        typed_tool(Read, read, idempotent=True, touches=lambda a, c: Reach.of(c).resolve(a.path, "read")),
        typed_tool(Write, write, touches=lambda a, c: Reach.of(c).resolve(a.path, "write")),
    )


def file_data(real: str, digest: str) -> dict[str, Json]:
    """What a file's result says to machines: the session now knows this state of the file."""
    return {"file": {"path": real, "digest": digest}}


def current(real: str, path: str, limit: int, stop: StopSign) -> Snapshot | None:
    """The file as it is, for changing it. Raises `ToolRefusal` in words for the model."""
    try:
        return snapshot(real, limit, stop)
    except TooLarge as error:
        raise ToolRefusal(f"`{path}` has {sizes(error.size)}; files over {sizes(limit)} cannot be changed.") from None
    except OSError as error:
        raise refusal(error, path) from error


def known(real: str, path: str, now: Snapshot, context: ToolContext) -> None:
    """Check that the session has seen the file as it is now. Raises `ToolRefusal`."""
    seen = context.seen.get(real)
    if seen is None:
        raise ToolRefusal(f"`{path}` exists and was not read in this session: Read it first.")
    if seen.digest != now.digest:
        raise ToolRefusal(f"`{path}` has changed since it was last read: Read it again, then change it.")


@dataclass(frozen=True, slots=True)
class Target:
    """A file to be replaced: its real path, how the model wrote it, and what stands there now."""

    real: str
    path: str
    before: Snapshot | None


def put(target: Target, data: bytes, stop: StopSign) -> str:
    """Replace the file; returns the digest. Raises `ToolRefusal` in words for the model."""
    try:
        return replace(target.real, data, target.before, stop)
    except ChangedMeanwhile:
        raise ToolRefusal(f"`{target.path}` was changed by something else just now: Read it again.") from None
    except OSError as error:
        raise refusal(error, target.path) from error


def refusal(error: OSError, path: str) -> ToolRefusal:
    """An error of the file system in words for the model."""
    match error:
        case LinkMet():
            return OutOfReach(f"`{path}`: a part of it has become a symbolic link; links made meanwhile are refused.")
        case NotAFile():
            return ToolRefusal(f"`{path}` is not a regular file.")
        case IsADirectoryError():
            return ToolRefusal(f"`{path}` is a folder.")
        case NotADirectoryError():
            return ToolRefusal(f"`{path}`: a part of it is a file, not a folder.")
        case PermissionError():
            return ToolRefusal(f"`{path}`: the operating system denies it ({error.strerror}).")
        case _:
            return ToolRefusal(f"`{path}`: {error.strerror or error}.")


def _read(arguments: Read, context: ToolContext, limits: ToolLimits, stop: StopSign) -> ToolOutcome:
    reach = Reach.of(context)
    real = reach.resolve(arguments.path, "read")
    path = printable(arguments.path)
    if os.path.isdir(real):
        raise ToolRefusal(f"`{path}` is a folder: use Glob to list it.")
    window = LineWindow(arguments.offset or 1, arguments.limit or limits.read_lines, limits.result)
    try:
        text = _scan(real, window, stop)
    except FileNotFoundError:
        raise ToolRefusal(missing(path, real, reach)) from None
    except OSError as error:
        raise refusal(error, path) from error
    if text.encoding is None:
        raise ToolRefusal(f"`{path}` is a binary file of {sizes(text.size)}: it cannot be shown as text.")
    if window.first > max(window.total, 1):
        raise ToolRefusal(f"`{path}` has {window.total:,} lines: there is no line {window.first:,}.")
    notes = window.notes(text.size, text.encoding)
    content = "\n".join((*window.shown(), *notes)) or "[the file is empty]"
    shown = f"lines {window.first}–{window.last} of {window.total}" if window.total else "empty"
    return ToolOutcome("ok", f"read {reach.shown(real)}: {shown}", content, file_data(real, text.digest))


@dataclass(frozen=True, slots=True)
class Scanned:
    """A file read to its end: `encoding` None for a binary one."""

    size: int
    digest: str
    encoding: str | None


def _scan(real: str, window: LineWindow, stop: StopSign) -> Scanned:
    """One pass over the file, whatever its size: digest, encoding, and the lines of the window."""
    digest = hashlib.sha256()
    size = 0
    encoding: str | None = "utf-8"
    decode: codecs.IncrementalDecoder | None = None
    for block in blocks(real, stop):
        if size == 0:
            encoding = detect(block[:SAMPLE])
            decode = decoder(encoding) if encoding else None
        text = decode.decode(block) if decode is not None else ""
        window.feed(text.removeprefix("\ufeff") if size == 0 else text)
        size += len(block)
        digest.update(block)
    if decode is not None:
        window.feed(decode.decode(b"", True))
    return Scanned(size, digest.hexdigest(), encoding)


class LineWindow:
    """Lines `first` to `first + count - 1` of a text that comes in pieces, at most `budget` characters of them."""

    def __init__(self, first: int, count: int, budget: int) -> None:
        self.first = first
        self._end = first + count
        self._left = budget
        self._line = 1  # the one being read
        self._open = False  # whether it has a character yet
        self._parts: list[str] = []
        self._lines: list[str] = []
        self._cut = 0  # the line in which the budget ended
        self._crlf = False
        self.characters = 0

    def feed(self, text: str) -> None:
        self.characters += len(text)
        start = 0
        while start < len(text):
            if self._cut or self._line >= self._end:
                self._line += text.count("\n", start)
                self._open = not text.endswith("\n")
                return
            end = text.find("\n", start)
            piece = text[start:] if end < 0 else text[start:end]
            if self._line >= self.first:
                self._take(piece)
            self._open = self._open or bool(piece)
            if end < 0:
                return
            self._close()
            start = end + 1

    @property
    def total(self) -> int:
        return self._line - (0 if self._open else 1)

    @property
    def last(self) -> int:
        return self.first + len(self.shown()) - 1

    def shown(self) -> list[str]:
        rest = [self._row("".join(self._parts))] if self._parts and (not self._cut or not self._lines) else []
        return [*self._lines, *rest]

    def notes(self, size: int, encoding: str) -> list[str]:
        """What the reader must know besides the lines."""
        notes = []
        if self._cut and not self._lines:
            notes.append(f"line {self._cut} is cut here: only its beginning is shown")
        if self.last < self.total or self._cut:
            whole = f"{self.total:,} lines, {self.characters:,} characters, {sizes(size)}"
            more = f"; go on with offset={self.last + 1}" if self.last < self.total else ""
            notes.append(f"the whole file: {whole}{more}")
        if self._crlf:
            notes.append("lines end in CRLF")
        if encoding not in ("utf-8", "utf-8-sig"):
            notes.append(f"encoding: {encoding}")
        return [f"[{note}]" for note in notes]

    def _take(self, piece: str) -> None:
        room = self._left - (0 if self._parts else len(str(self._line)) + 2)
        if len(piece) > room:
            self._cut = self._line
            piece = piece[: max(room, 0)]
        self._left = room - len(piece)
        self._parts.append(piece)

    def _close(self) -> None:
        if self._line >= self.first and not self._cut:
            self._lines.append(self._row("".join(self._parts)))
            self._parts = []
        self._line += 1
        self._open = False

    def _row(self, line: str) -> str:
        if line.endswith("\r"):
            self._crlf = True
            line = line[:-1]
        return f"{self.first + len(self._lines)}\t{line}"


def missing(path: str, real: str, reach: Reach) -> str:
    """That there is no such file, and which names come near (only of places that may be read)."""
    folder, name = os.path.split(real)
    while not os.path.isdir(folder):
        folder, name = os.path.split(folder)
    if not any(os.path.commonpath((root, folder)) == root for root in reach.read):
        return f"`{path}` does not exist."
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if not near:
        return f"`{path}` does not exist."
    said = ", ".join(f"`{reach.shown(os.path.join(folder, other))}`" for other in near)
    return f"`{path}` does not exist. Near it: {said}."


def _write(arguments: Write, context: ToolContext, limits: ToolLimits, stop: StopSign) -> ToolOutcome:
    reach = Reach.of(context)
    real = reach.resolve(arguments.path, "write")
    path = printable(arguments.path)
    try:
        data = arguments.content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolRefusal(f"`content` holds half a character (a lone surrogate) at {error.start}.") from None
    if arguments.path.endswith("/") or os.path.isdir(real):
        raise ToolRefusal(f"`{path}` is a folder.")
    before = current(real, path, limits.editable, stop)
    if before is not None:
        known(real, path, before, context)
    digest = put(Target(real, path, before), data, stop)
    lines = arguments.content.count("\n") + (not arguments.content.endswith("\n") and bool(data))
    verb = "wrote" if before is not None else "created"
    return ToolOutcome(
        "ok", f"{verb} {reach.shown(real)}: {lines} lines, {sizes(len(data))}", None, file_data(real, digest)
    )
