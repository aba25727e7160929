"""How patterns of permission rules meet shell commands.

Nobody can tell from its text what every command does. So a rule that allows must cover every command in a line that is
plain enough to be read for sure; a rule that denies or asks is looked for wherever a command might begin; and a line
that hides what it runs is never taken for harmless.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from actors.tools.patterns import matches_name

_HIDING = frozenset("$`\\")
"""Outside single quotes: what they stand for is known to the shell only."""
_STRUCTURE = frozenset("(){}<>#")
"""Outside quotes: subshells, groups, redirections, comments. Text of commands may follow, files may be written."""
_ENDS = frozenset(";|&\n")
_GLOB = re.compile(r"[*?\[]")
_ASSIGNMENT = re.compile(r"\w+\+?=")
_STARTS = re.compile(r"[\s;|&(){}<>=,/`]")


_UNQUOTED = str.maketrans("", "", "\"'\\")
MOST = 20_000
"""Characters of a command that anybody reads for sure."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A command line taken apart. `plain`: only simple commands with plain words. `open`: nothing in it is hidden."""

    parts: tuple[str, ...]
    plain: bool
    open: bool


def covered(patterns: Sequence[str], command: str) -> bool:
    """Whether these patterns together allow the line: it is plain, and each of its commands matches one of them."""
    reading = read(command)
    return reading.plain and bool(reading.parts) and all(_any(patterns, part) for part in reading.parts)


def mentioned(pattern: str, command: str) -> bool:
    """Whether a command that begins as the pattern says stands in the line, or may: in quotes, behind `sudo`, by its
    path, in any letter case."""
    text = " ".join(command[:MOST].casefold().translate(_UNQUOTED).split())
    wanted = pattern.casefold()
    starts = [0] if wanted.startswith("*") else [0, *(m.end() for m in _STARTS.finditer(text))]
    return any(_begins(wanted, text, start) for start in starts)


def readable(command: str) -> bool:
    """Whether the text says which commands are run."""
    return read(command).open


def read(command: str) -> Reading:
    """Take a line apart at `;`, `&`, `|` and line ends, with an eye on quotes."""
    if len(command) > MOST:
        return Reading((), False, False)
    parts = [""]
    quote = before = ""
    plain = is_open = True
    braced = False
    for character in command:
        if quote != "'" and character in _HIDING:
            plain = is_open = False
        if not character.isprintable() and character not in "\n\t":
            plain = is_open = False
        if quote:
            parts[-1] += character
            quote = "" if character == quote else quote
        elif character in _ENDS:
            parts.append("")
            braced = False
        elif character.isspace():
            parts[-1] += "" if parts[-1].endswith(" ") else " "
            braced = False
        else:
            plain = plain and character not in _STRUCTURE
            braced = braced or character == "{"
            # `r{m,}` is `rm r`, `{git,push}` is `git push`: the shell makes words of such a word.
            is_open = is_open and not (braced and (character == "," or before + character == ".."))
            quote = character if character in "'\"" else ""
            parts[-1] += character
        before = character
    words = tuple(part.strip() for part in parts if part.strip())
    if quote or any(map(_hides_its_name, words)):
        plain = is_open = False
    return Reading(words, plain, is_open)


def _any(patterns: Sequence[str], part: str) -> bool:
    """`git log *` also means `git log` alone."""
    return any(matches_name(p, part) or (p.endswith(" *") and part == p[:-2]) for p in patterns)


def _begins(wanted: str, text: str, start: int) -> bool:
    if matches_name(f"{wanted}*", text[start:]):
        return True
    bare = wanted.removesuffix(" *")
    if bare == wanted or not text.startswith(bare, start):
        return False
    after = text[start + len(bare) : start + len(bare) + 1]
    return not after or not (after.isalnum() or after in "_.-")


def _hides_its_name(part: str) -> bool:
    """Whether the command's name is a file pattern: the shell alone knows what it finds."""
    words = [word for word in part.split(" ") if not _ASSIGNMENT.match(word)]
    return bool(words) and _GLOB.search(words[0]) is not None
