"""A prompt in the making: pasted text as one token, the segments that are sent, earlier prompts. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.sigils import parse

LONG_PASTE: Final = 400
"""Characters from which a paste is one token in the box."""
PASTE_LINES: Final = 4
HISTORY: Final = 200

_TOKEN = re.compile(r"\[paste (\d+): \d+ lines?, \d+ characters\]")
_LAST_TOKEN = re.compile(_TOKEN.pattern + r"\Z")


@dataclass(slots=True)
class Pastes:
    """Long pasted texts, each standing in the box as a token until the prompt is sent."""

    _texts: dict[int, str] = field(default_factory=dict)

    def token(self, text: str) -> str | None:
        """The token that stands for a pasted text; None when it is short enough to stand there itself."""
        lines = text.count("\n") + 1
        if len(text) < LONG_PASTE and lines < PASTE_LINES:
            return None
        number = len(self._texts) + 1
        self._texts[number] = text
        plural = "s" if lines != 1 else ""
        return f"[paste {number}: {lines} line{plural}, {len(text)} characters]"

    def token_before(self, text: str) -> int:
        """Length of the token at the end of `text`, 0 when there is none."""
        found = _LAST_TOKEN.search(text)
        return len(found[0]) if found is not None and int(found[1]) in self._texts else 0

    def segments(self, text: str) -> list[dict[str, Any]]:
        """The prompt as segments: what was typed with its references, what was pasted as `paste`."""
        segments: list[dict[str, Any]] = []
        at = 0
        for found in _TOKEN.finditer(text):
            pasted = self._texts.get(int(found[1]))
            if pasted is None:
                continue
            segments += _text(text[at : found.start()])
            segments.append({"type": "paste", "text": pasted})
            at = found.end()
        return segments + _text(text[at:])

    def expanded(self, text: str) -> str:
        """The text with what its tokens stand for in their places."""
        return _TOKEN.sub(lambda found: self._texts.get(int(found[1]), found[0]), text)


def _text(text: str) -> list[dict[str, Any]]:
    return [piece.segment for piece in parse(text)] if text.strip() else []


@dataclass(slots=True)
class Earlier:
    """Earlier prompts, walked through with up and down; what was being written is kept at the end."""

    _texts: list[str] = field(default_factory=list)
    _at: int | None = None
    _draft: str = ""

    def add(self, text: str) -> None:
        if text.strip() and (not self._texts or self._texts[-1] != text):
            self._texts.append(text)
            del self._texts[:-HISTORY]
        self._at = None

    def seed(self, texts: Sequence[str]) -> None:
        """Prompts from before, older than what was sent here."""
        self._texts = [*texts, *(t for t in self._texts if t not in texts)][-HISTORY:]
        self._at = None

    def back(self, current: str) -> str | None:
        """The prompt before; None when there is none."""
        at = len(self._texts) if self._at is None else self._at
        if at == 0:
            return None
        if self._at is None:
            self._draft = current
        self._at = at - 1
        return self._texts[self._at]

    def forth(self) -> str | None:
        """The prompt after, in the end what was being written."""
        if self._at is None:
            return None
        self._at += 1
        if self._at < len(self._texts):
            return self._texts[self._at]
        self._at = None
        return self._draft


@dataclass(frozen=True, slots=True)
class Answer:
    """What the box and the choice that is marked come to, as the answer to a question. `problem`: why they do not."""

    choice: str | None = None
    text: str | None = None
    problem: str | None = None


def answer_of(choices: Sequence[str], kind: str, marked: int | None, text: str) -> Answer:
    """`marked` is the index of the marked choice. A bare number in the box is that choice."""
    text = text.strip()
    number = choice_number(text, len(choices))
    if number is not None:
        marked, text = number, ""
    choice = choices[marked] if marked is not None and marked < len(choices) else None
    if choice is None and not text:
        words = "choose by number or with the arrows" + ("" if kind == "permission" else ", or write an answer")
        return Answer(problem=words if choices else "write an answer")
    if kind == "permission" and choice is None:
        return Answer(problem="choose by number or with the arrows; what you write goes along as the reason")
    return Answer(choice, text or None)


def choice_number(text: str, choices: int) -> int | None:
    """The index of the choice that a bare number names."""
    text = text.strip()
    if text.isascii() and text.isdecimal() and len(text) < 3 and 1 <= int(text) <= choices:
        return int(text) - 1
    return None
