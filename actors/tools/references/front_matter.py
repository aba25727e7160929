"""The head of a note: `key: value` lines between two lines `---`. A small part of YAML, read without running anything.

Known keys are `name`, `description` and `requires` (`[a, b]`, `a, b`, or lines `- a`); others are skipped. A text
whose head does not end is all body.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+|$)(.*)")
_ENTRY = re.compile(r"[ \t]*-[ \t]+(.*)")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """`requires`: slugs of knowledge that comes along."""

    name: str | None = None
    description: str | None = None
    requires: tuple[str, ...] = ()


def split(text: str) -> tuple[FrontMatter, str]:
    """The head of a note and the text below it."""
    found = _HEAD.match(text)
    if found is None:
        return FrontMatter(), text
    values: dict[str, list[str]] = {}
    key = ""
    for line in found[1].splitlines():
        if (pair := _LINE.match(line)) is not None:
            key = pair[1]
            values[key] = [pair[2]] if pair[2].strip() else []
        elif (entry := _ENTRY.match(line)) is not None and key:
            values[key].append(entry[1])
        elif line[:1] in (" ", "\t") and key and line.strip():
            values[key].append(line)  # a folded text
    head = FrontMatter(_text(values.get("name")), _text(values.get("description")), _slugs(values.get("requires")))
    return head, text[found.end() :]


def _text(lines: list[str] | None) -> str | None:
    told = " ".join(_plain(line) for line in lines or () if line.strip() not in (">", "|", ">-", "|-"))
    return told.strip() or None


def _slugs(lines: list[str] | None) -> tuple[str, ...]:
    parts = (part for line in lines or () for part in line.strip().removeprefix("[").removesuffix("]").split(","))
    return tuple(dict.fromkeys(slug for part in parts if (slug := _plain(part).removeprefix("#"))))


def _plain(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
