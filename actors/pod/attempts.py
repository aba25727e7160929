"""What became of a session's compactions, as far as it decides about the next one. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.compaction import NO_PROGRESS, CompactionRecord, read_record
from session_store.entries import AssistantItems, Extension, Invoke, LlmUsage, LogEntry

MAX_TRIES = 2
"""Attempts that gain nothing, in one turn (case C02)."""
BREAKER = 6
"""Such attempts in a row, over turns: after so many none is made until a person orders one."""


@dataclass(slots=True)
class Attempts:
    """`tries` counts those since the turn began, `in_a_row` those since one gained something. `fruitless`: nothing can
    be gained (else something failed). `overflow_tried`: for the request that is too long.

    A success counts once the next request has shown it: an estimate that is wrong every time would go on for ever.
    """

    tries: int = 0
    in_a_row: int = 0
    fruitless: bool = False
    overflow_tried: bool = False
    _goal: int = 0

    @property
    def spent(self) -> bool:
        """Whether this turn has had its attempts, or nothing is tried any more."""
        return self.tries >= MAX_TRIES or self.broken

    @property
    def broken(self) -> bool:
        return self.in_a_row >= BREAKER

    def apply(self, entry: LogEntry) -> None:
        """Take one entry, in order of seq."""
        match entry:
            case Invoke():
                self.tries, self.fruitless, self.overflow_tried = 0, False, False
            case AssistantItems():
                self.overflow_tried = False
            case LlmUsage() if self._goal and entry.input > 0:
                self._measured(entry.input)
            case Extension():
                record = read_record(entry)
                if record is not None:
                    self._note(record)
            case _:
                pass

    def _measured(self, tokens: int) -> None:
        goal, self._goal = self._goal, 0
        if tokens >= goal:
            self._gained_nothing(True)
        else:
            self.tries, self.in_a_row, self.fruitless = 0, 0, False

    def _note(self, record: CompactionRecord) -> None:
        self.overflow_tried |= record.trigger == "overflow"
        if record.trigger == "order":
            self.tries, self.in_a_row, self.fruitless = 0, 0, False
        if record.error is None:
            self._goal = record.limit if record.trigger == "request" else record.before
            return
        fruitless = record.error.type == NO_PROGRESS
        self._gained_nothing(fruitless)
        if fruitless:
            self.tries = MAX_TRIES  # the same history would come to the same

    def _gained_nothing(self, fruitless: bool) -> None:
        self.tries += 1
        self.in_a_row += 1
        self.fruitless = fruitless
