"""`@path`, `#slug` and `/slug` in what a person types, as typed segments of a prompt: one parser for all clients.

    @path       after the start, white space, an opening bracket or quote, or a character beyond ASCII; up to white
                space, one of `` " < > | , ; ` `` or of 、。，；「」『』【】, without stops and closers at its end.
                `@"a path with spaces"`: anything on one line, `\\"` and `\\\\` for `"` and `\\`.
    #slug       at the same places; a letter, then letters, digits, `_`, `-` and `.`; no heading, no number.
    /slug       at the start of the prompt or of a line only (spaces before it are fine), up to white space or the end.
    \\@ \\# \\/    the sigil itself where it would begin a reference; the backslash goes. Elsewhere a backslash stays.

Pieces keep the text they were made from: put together they are the prompt again, nothing lost. Imports nothing but the
standard library: the command line starts with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, TypeAlias

Sigil: TypeAlias = Literal["@", "#", "/"]
PieceType: TypeAlias = Literal["text", "file_ref", "knowledge_ref", "workflow_invoke"]

REFERENCES = frozenset({"file_ref", "knowledge_ref", "workflow_invoke"})

_OPENERS = "([{<\"'`"
_ENDS = r"\s\"<>|,;`、。，；「」『』【】"
_CLOSERS = {")": "(", "]": "[", "}": "{", "）": "（"}
_TRAILING = ".:!?'…！？：" + "".join(_CLOSERS)
_SLUG = r"[^\W\d_][\w.-]*"

_CANDIDATE = re.compile(r"\\?[@#/]")
_QUOTED = re.compile(r'@"((?:[^"\\\n]|\\["\\])+)"')
_PATH = re.compile(rf"@([^{_ENDS}]+)")
_KNOWLEDGE = re.compile(rf"#({_SLUG})")
_WORKFLOW = re.compile(rf"/({_SLUG})(?!\S)")
SLUG = re.compile(_SLUG)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a prompt. `source` is what was typed, `text` what the model reads for it, `target` the path or slug."""

    type: PieceType
    source: str
    text: str
    target: str | None = None

    @property
    def segment(self) -> dict[str, Any]:
        """The piece as a segment of the HTTP seam (docs/formats/http.md)."""
        match self.type:
            case "text":
                return {"type": "text", "text": self.text}
            case "file_ref":
                return {"type": "file_ref", "text": self.text, "path": self.target}
            case _:
                return {"type": self.type, "text": self.text, "slug": self.target}


@dataclass(frozen=True, slots=True)
class Typing:
    """A reference being typed at the end of a text: what to complete. `start` is the place of its sigil."""

    sigil: Sigil
    prefix: str
    start: int


def parse(text: str) -> tuple[Piece, ...]:
    """The pieces of a prompt, in order; text between references is one piece. `"".join(p.source)` is `text`."""
    pieces: list[Piece] = []
    place = 0
    for found in _CANDIDATE.finditer(text):
        start = found.start()
        piece = _reference(text, found.end() - 1, start) if start >= place else None
        if piece is None:
            continue
        if found[0].startswith("\\"):
            piece = Piece("text", found[0], found[0][1:])
        pieces += (Piece("text", text[place:start], text[place:start]), piece)
        place = start + len(piece.source)
    pieces.append(Piece("text", text[place:], text[place:]))
    return tuple(_joined(pieces))


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The same without empty pieces, neighbouring texts as one."""
    for kind, run in groupby((p for p in pieces if p.source), key=lambda p: p.type):
        if kind == "text":
            texts = list(run)
            yield Piece("text", "".join(p.source for p in texts), "".join(p.text for p in texts))
        else:
            yield from run


def has_references(pieces: Iterable[Piece]) -> bool:
    return any(piece.type in REFERENCES for piece in pieces)


def typing_at_end(text: str) -> Typing | None:
    """What a person who has typed `text` is about to refer to, if anything."""
    for start in sorted((i for i in (text.rfind(s) for s in "@#/") if i >= 0), reverse=True):
        rest = text[start + 1 :]
        match text[start]:
            case "@" if _may_begin(text, start):
                if rest.startswith('"') and '"' not in rest[1:] and "\n" not in rest:
                    return Typing("@", _unquoted(rest[1:]), start)
                if re.fullmatch(rf"[^{_ENDS}]*", rest):
                    return Typing("@", rest, start)
            case "#" if _may_begin(text, start) and re.fullmatch(rf"(?:{_SLUG})?", rest):
                return Typing("#", rest, start)
            case "/" if _starts_line(text, start) and re.fullmatch(rf"(?:{_SLUG})?", rest):
                return Typing("/", rest, start)
            case _:
                pass
    return None


def written(sigil: Sigil, target: str) -> str:
    """A reference as a person would type it: quoted where the path needs it."""
    plain = sigil + target
    if sigil != "@":
        return plain
    pieces = parse(plain)
    if [(p.type, p.source, p.target) for p in pieces] == [("file_ref", plain, target)]:
        return plain
    inside = target.replace("\\", "\\\\").replace('"', '\\"')
    return f'@"{inside}"'


def shown(segment: Mapping[str, Any]) -> str:
    """The text of a segment; that of a reference without one as a person would type it."""
    text = segment.get("text")
    if text:
        return str(text)
    data = segment.get("data") or segment
    match segment.get("type"):
        case "file_ref":
            return written("@", str(data.get("path", "")))
        case "knowledge_ref":
            return written("#", str(data.get("slug", "")))
        case "workflow_invoke":
            return written("/", str(data.get("slug", "")))
        case _:
            return ""


def prompt_text(segments: Iterable[Mapping[str, Any]]) -> str:
    """A prompt's segments as the one text that the model reads (`session_store.items.UserMessage.text`)."""
    told, inline = "", True
    for segment in segments:
        text, was_inline = shown(segment), inline
        if text:
            inline = segment.get("type") in REFERENCES
            told += text if inline or was_inline else f"\n{text}"
    return told


def _reference(text: str, at: int, start: int) -> Piece | None:
    """The reference whose sigil stands at `at`; `start` is where it begins with its escape, which decides the place."""
    match text[at]:
        case "@" if _may_begin(text, start):
            if (quoted := _QUOTED.match(text, at)) is not None:
                return Piece("file_ref", quoted[0], quoted[0], _unquoted(quoted[1]))
            if (found := _PATH.match(text, at)) is not None and (path := _trimmed(found[1])):
                return Piece("file_ref", "@" + path, "@" + path, path)
        case "#" if _may_begin(text, start):
            if (found := _KNOWLEDGE.match(text, at)) is not None:
                slug = found[1].rstrip(".-")
                return Piece("knowledge_ref", "#" + slug, "#" + slug, slug)
        case "/" if _starts_line(text, start):
            if (found := _WORKFLOW.match(text, at)) is not None:
                return Piece("workflow_invoke", found[0], found[0], found[1])
        case _:
            pass
    return None


def _may_begin(text: str, start: int) -> bool:
    """Whether a reference may begin here: not within a word, an address or a path of ASCII."""
    if start == 0:
        return True
    before = text[start - 1]
    return before.isspace() or before in _OPENERS or not before.isascii()


def _starts_line(text: str, start: int) -> bool:
    line = text.rfind("\n", 0, start) + 1
    return not text[line:start].strip(" \t")


def _trimmed(run: str) -> str:
    """The run without the marks of the sentence around it; a bracket stays where its partner is inside."""
    while run and run[-1] in _TRAILING:
        last = run[-1]
        if last == "." and (run in (".", "..") or run.endswith(("/.", "/.."))):
            break
        if last in _CLOSERS and run.count(last) <= run.count(_CLOSERS[last]):
            break
        run = run[:-1]
    return run


def _unquoted(inside: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", inside)
