"""What the worker is shown of a log: one line of JSON per item, and where a slice is cut. Pure.

Shown are who spoke and the words, names of tools and summaries of their results. Not shown: reasoning, arguments, raw
output, contents of attachments, reminders and recalled knowledge. As JSON each item is one line, so that no text can
pass for another item.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from actors.protocol.sizes import tokens, without_middle
from session_store.entries import (
    AssistantItems,
    LogEntry,
    Question,
    QuestionClosed,
    RunEnd,
    SystemItems,
    ToolResults,
    UserInput,
)
from session_store.items import SystemItem, Text, ToolCall, UserMessage
from session_store.messages import USER

NOTICES = frozenset({"notification", "pod_event", "interrupt"})
"""SystemItems that tell what happened; all others repeat what is known, or are not for the memory."""

Mask = Callable[[str], str]
"""Takes secrets out of a text."""


@dataclass(frozen=True, slots=True)
class Line:
    """One item of a slice, from the entry `seq`: `who` says it, `fields` are its words."""

    seq: int
    who: str
    fields: dict[str, str]

    def text(self) -> str:
        return json.dumps({"who": self.who, **self.fields}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Piece:
    """Items of the entries up to `end`, as text; empty when none of them shows anything."""

    end: int
    text: str


@dataclass(slots=True)
class Slicer:
    """Takes the entries of a slice in order, until it is `full`; `piece` is then what fits in `budget` tokens.

    An item that alone is larger than the budget loses its middle, and says so. What a withdrawn run was asked is left
    out: it went back to who asked. `keep_whole`: the slice is fixed and cannot be cut: what does not fit loses its
    middle.
    """

    budget: int
    mask: Mask
    keep_whole: bool = False
    full: bool = False
    _end: int = 0
    _used: int = 0
    _texts: list[str] = field(default_factory=list)
    _held: list[list[Line]] = field(default_factory=list)

    def take(self, entry: LogEntry) -> None:
        if self.full:
            return
        match entry:
            case UserInput() | SystemItems():
                self._held.append(self._masked(entry))
            case RunEnd(outcome="withdrawn"):
                self._held = [[line for line in held if line.who == "notice"] for held in self._held]
            case AssistantItems() | ToolResults() | Question() | QuestionClosed() | RunEnd():
                self._held.append(self._masked(entry))
                self._flush()
            case _:
                pass

    def piece(self, through: int) -> Piece:
        """What was taken; `through` is where the slice ends."""
        self._flush()
        text = "\n".join(self._texts)
        if self.keep_whole:
            text = without_middle(text, self.budget)
        return Piece(self._end if self.full else through, text)

    def _flush(self) -> None:
        held, self._held = self._held, []
        for group in held:
            self._add(group)

    def _add(self, group: Sequence[Line]) -> None:
        """One entry: it goes in whole, or the slice is cut before it."""
        if self.full or not group:
            return
        share = self.budget if self.keep_whole else max(1, self.budget // len(group))
        texts = [line.text() if self.keep_whole else _fitted(line, share) for line in group]
        size = sum(tokens(text) + 1 for text in texts)
        if self._texts and not self.keep_whole and self._used + size > self.budget:
            self.full, self._end = True, group[0].seq - 1
            return
        self._texts += texts
        self._used += size

    def _masked(self, entry: LogEntry) -> list[Line]:
        return [
            Line(line.seq, line.who, {name: self.mask(text) for name, text in line.fields.items()})
            for line in lines(entry)
        ]


def lines(entry: LogEntry) -> Iterator[Line]:
    """What an entry shows the worker."""
    match entry:
        case UserInput(segments=segments, sender=sender):
            yield Line(
                entry.seq, "user" if sender == USER else "another Pod", {"text": UserMessage(segments, "", sender).text}
            )
        case AssistantItems(items=items):
            said = "".join(i.text for i in items if isinstance(i, Text)).strip()
            calls = ", ".join(i.name for i in items if isinstance(i, ToolCall))
            fields = {name: value for name, value in (("text", said), ("calls", calls)) if value}
            if fields:
                yield Line(entry.seq, "assistant", fields)
        case ToolResults(results=results):
            for result in results:
                fields = {"tool": result.name, "status": result.status, "summary": result.summary}
                yield Line(entry.seq, "tool", fields)
        case SystemItems(items=items):
            for item in items:
                yield from _system_line(entry.seq, item)
        case Question(question=question, choices=choices):
            fields = {"text": question}
            if choices:
                fields["choices"] = " | ".join(choice.label for choice in choices)
            yield Line(entry.seq, "assistant asks", fields)
        case QuestionClosed(how="answered"):
            answer = ": ".join(filter(None, (entry.choice, entry.text)))
            if answer:
                yield Line(entry.seq, "answer", {"text": answer})
        case _:
            return


def _fitted(line: Line, budget: int) -> str:
    """The line; its longest field without its middle where it would not fit."""
    text = line.text()
    excess = tokens(text) - budget
    if excess <= 0:
        return text
    longest = max(line.fields, key=lambda name: len(line.fields[name]))
    room = max(1, tokens(line.fields[longest]) - excess - _MARK_TOKENS)
    fields = {**line.fields, longest: without_middle(line.fields[longest], room)}
    return Line(line.seq, line.who, fields).text()


def _system_line(seq: int, item: SystemItem) -> Iterator[Line]:
    if item.kind == "file_attachment":
        path = item.payload.get("path")
        yield Line(seq, "user", {"attached file": path if isinstance(path, str) else "without a name"})
    elif item.kind in NOTICES:
        yield Line(seq, "notice", {"kind": item.kind, "text": item.body})


_MARK_TOKENS = 16
"""Room for the words that say what was left out."""
