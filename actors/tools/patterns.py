"""Patterns of permission rules over paths and names."""

from __future__ import annotations

import fnmatch
import os
import re
import unicodedata
from collections.abc import Callable
from functools import cache

_WILD = re.compile(r"[*?\[]")
_ANY_NAME = "\x01\x02"
"""No pattern but a wildcard matches it."""


class PathPattern:
    """A path pattern of a rule. It covers what it matches and everything below that.

    `*`, `?` and `[…]` stay within a name, `**` goes over any number of folders. A relative pattern is relative to
    `root`, `~` is the home folder. The part before the first wildcard is resolved like a path, so that a rule about a
    link is one about where it leads. Not `strict`: letter case and Unicode form do not matter, and the pattern as it is
    written counts too.
    """

    def __init__(self, pattern: str, root: str, *, strict: bool) -> None:
        written = os.path.join(root, os.path.expanduser(pattern))
        resolved = _settled(written, os.path.realpath)
        forms = [resolved] if strict else [resolved, _settled(written, os.path.normpath)]
        self._strict = strict
        self._forms = [self._parts(form) for form in forms]

    def covers(self, real: str) -> bool:
        """Whether the real path is matched, or lies below what is."""
        return any(len(form) in reached for form, reached in self._walked(real))

    def covers_tree(self, folder: str) -> bool:
        """Whether it covers everything in the folder, whatever its name."""
        return self.covers(folder) or self.covers(f"{folder}/{_ANY_NAME}")

    def touches(self, folder: str) -> bool:
        """Whether it covers the folder, or may match something below it."""
        return any(reached for _, reached in self._walked(folder))

    def _walked(self, real: str) -> list[tuple[tuple[str, ...], set[int]]]:
        names = self._parts(real)
        return [(form, _places(form, names)) for form in self._forms]

    def _parts(self, path: str) -> tuple[str, ...]:
        return tuple(filter(None, (path if self._strict else _folded(path)).split("/")))


def matches_name(pattern: str, text: str) -> bool:
    """`*`, `?` and `[…]` over a whole text. A name that is written like the pattern, `[id]`, is meant too."""
    return pattern == text or _compiled(pattern).fullmatch(text) is not None


def _places(pattern: tuple[str, ...], names: tuple[str, ...]) -> set[int]:
    """How many parts of the pattern may be used up after these names; all of them once it has matched on the way."""
    whole = len(pattern)
    places = _over_stars(pattern, {0})
    for name in names:
        if whole in places:
            return {whole}
        after = set()
        for place in places:
            if pattern[place] == "**":
                after |= {place, whole} if place == whole - 1 else {place}
            elif matches_name(pattern[place], name):
                after.add(place + 1)
        places = _over_stars(pattern, after)
    return places


def _over_stars(pattern: tuple[str, ...], places: set[int]) -> set[int]:
    """`**` may stand for no folder at all; at the end it stands for what is below, and so is never used up alone."""
    reached = set(places)
    for place in sorted(places):
        while place < len(pattern) - 1 and pattern[place] == "**":
            place += 1
            reached.add(place)
    return reached


def _settled(written: str, settle: Callable[[str], str]) -> str:
    """The path settled as far as no wildcard stands."""
    wild = _WILD.search(written)
    if wild is None:
        return settle(written)
    fixed, _, rest = written[: wild.start()].rpartition("/")
    return f"{settle(fixed or '/')}/{rest}{written[wild.start() :]}"


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
