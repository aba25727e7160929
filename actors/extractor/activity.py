"""What a log says about memory: activity tokens, the pointer, the range being worked on. One pure, incremental fold.

Activity is the growth of the measured prompt occupancy (`llm_usage.input`, cached or not) since the pointer, each token
once (DESIGN §5). It is kept as one growing counter over the history that still counts: every rise of the occupancy from
one request to the next adds to it, a fall adds nothing, so ten requests of 20k … 29k after a pointer at 19k are 10k. A
compaction or a change of model only says that the next figure cannot be compared with the last; a rewind takes the
counter back to where it stood. Estimates count until the provider's next own figure, which covers the same ground.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace

from actors.extractor.ranges import POINTER, RANGE, Range, read_pointer, read_range
from session_store.entries import (
    ConfigChanged,
    Extension,
    LlmUsage,
    LogEntry,
    Rewound,
    RunEnd,
    SegmentStart,
)
from session_store.items import Json

FOLDED = (b"llm_usage", b"rewound", b"run_end", b"segment_start", b"config_changed", b"extension")
"""One of these is in the stored body of every entry that the fold looks at; others need not be decoded."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the counter stood after the entry `seq`.

    `settled` is growth by the provider's figures, `guessed` what estimates add to it. `measured` and `estimated` are
    the occupancies that the next figure of that kind is compared with; None: it is the first to compare with.
    """

    seq: int = 0
    settled: int = 0
    guessed: int = 0
    measured: int | None = 0
    estimated: int | None = 0

    @property
    def growth(self) -> int:
        return self.settled + self.guessed


@dataclass(slots=True)
class Activity:
    """`processed`: seq up to which the pointer says all is extracted. `rest`: seq of the last entry at which the
    session came to rest. `open`: the range that is fixed and not finished. `goal`: where a slice ends that was cut in
    pieces, while pieces are missing. `voided`: ranges that a rewind overtook; a file of theirs is to be removed.
    """

    head: int = 0
    rest: int = 0
    processed: int = 0
    open: Range | None = None
    goal: int | None = None
    voided: list[Range] = field(default_factory=list)
    rewinds: list[Rewound] = field(default_factory=list)
    config: dict[str, Json] = field(default_factory=dict)
    _marks: list[Mark] = field(default_factory=list)
    _base: int = 0

    def apply(self, entry: LogEntry) -> None:
        """Take one committed entry, in order of seq; entries that are not of `FOLDED` may be left out."""
        self.head = max(self.head, entry.seq)
        match entry:
            case LlmUsage():
                self._marks.append(_counted(self._mark, entry))
            case SegmentStart():
                self.config = entry.config
                if entry.seq > 1 or entry.origin is not None:
                    self._compare_anew(entry.seq)
            case ConfigChanged(config=config):
                self.config = {**self.config, **(config or {})}
                if config and "model" in config:
                    self._compare_anew(entry.seq)
            case RunEnd():
                self.rest = entry.seq
            case Rewound():
                self._rewind(entry)
            case Extension():
                self._note(entry)
            case _:
                pass

    def tokens(self, through: int) -> int:
        """Activity tokens between the pointer and the entry `through`."""
        return max(0, self._growth_at(through) - self._base)

    def removed(self, seq: int) -> bool:
        """Whether a rewind took the entry out of the history."""
        return any(seq < r.seq and r.to <= seq for r in self.rewinds)

    @property
    def size(self) -> int:
        """How many requests and segments are remembered; the fold grows with them."""
        return len(self._marks)

    @property
    def _mark(self) -> Mark:
        return self._marks[-1] if self._marks else Mark()

    def _compare_anew(self, seq: int) -> None:
        self._marks.append(replace(self._mark, seq=seq, measured=None, estimated=None))

    def _growth_at(self, seq: int) -> int:
        place = bisect_right(self._marks, seq, key=lambda mark: mark.seq)
        return self._marks[place - 1].growth if place else 0

    def _rewind(self, entry: Rewound) -> None:
        self.rewinds.append(entry)
        del self._marks[bisect_left(self._marks, entry.to, key=lambda mark: mark.seq) :]
        self._base = min(self._base, self._mark.growth)
        self.rest = entry.seq
        if self.open is not None and entry.to <= self.open.end:
            self.voided.append(self.open)
            self.open = None
        if self.goal is not None and entry.to <= self.goal:
            self.goal = None

    def _note(self, entry: Extension) -> None:
        if entry.domain == RANGE:
            found = read_range(entry)
            # A second one beside an open one, or one that does not follow on, is that of an extractor that lost a race.
            if found is not None and self.open is None and found.start == self.processed + 1:
                self.open = found
        elif entry.domain == POINTER:
            end = read_pointer(entry)
            if end is not None:
                self._point(end)

    def _point(self, end: int) -> None:
        self.processed, self._base = end, self._growth_at(end)
        done = self.open
        if done is not None and end >= done.end:
            self.open = None
            self.goal = done.through if done.through > end else None
        elif self.goal is not None and end >= self.goal:
            self.goal = None


def _counted(mark: Mark, usage: LlmUsage) -> Mark:
    """The mark after one request."""
    now = usage.input
    if usage.estimated:
        more = 0 if mark.estimated is None else max(0, now - mark.estimated)
        return replace(mark, seq=usage.seq, guessed=mark.guessed + more, estimated=now)
    if mark.measured is None:  # what was estimated since is all that is known of it
        return Mark(usage.seq, mark.growth, 0, now, now)
    return Mark(usage.seq, mark.settled + max(0, now - mark.measured), 0, now, now)
