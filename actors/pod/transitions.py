"""The turn machine's phases and the table of its moves. `scripts/draw_states.py` draws the diagram from it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from actors.pod import stimuli as s


class Phase(StrEnum):
    NEW = "new"
    """Restored, not begun."""
    RESTING = "resting"
    """Nothing is in flight."""
    COMMITTING = "committing"
    """One append is in flight; its answer decides what comes next."""
    RESOLVING = "resolving"
    """The references of a prompt are looked up; nothing else is in flight."""
    FIXING = "fixing"
    """Before a compaction the extractor takes its range; nothing else is in flight."""
    COMPACTING = "compacting"
    """The history is being made shorter; nothing else is in flight."""
    REQUESTING = "requesting"
    """A request is in flight; nothing else is."""
    CALLING = "calling"
    """Tools run; results are appended as they finish."""
    STALLED = "stalled"
    """The store cannot commit; the run's end is tried again."""
    RESTORING = "restoring"
    """A rewind is committed; the log is folded anew."""
    RELEASING = "releasing"
    """The lease is being given up."""
    GONE = "gone"
    """Done: fenced, parked or ended. Every stimulus is ignored."""


_ANYTHING_NEXT = frozenset(
    {
        Phase.RESTING,
        Phase.COMMITTING,
        Phase.RESOLVING,
        Phase.FIXING,
        Phase.REQUESTING,
        Phase.CALLING,
        Phase.GONE,
    }
)
_FENCED = frozenset({Phase.GONE})
_CUT_SHORT = frozenset({Phase.COMMITTING, Phase.RESOLVING, Phase.FIXING, Phase.REQUESTING})
_RESOLVED = frozenset({Phase.COMMITTING, Phase.RESOLVING, Phase.FIXING})

TRANSITIONS: Final[dict[tuple[Phase, type[Any]], frozenset[Phase]]] = {
    (Phase.NEW, s.Opened): _ANYTHING_NEXT,
    (Phase.NEW, s.LeaseLost): _FENCED,
    (Phase.RESTING, s.MessagesArrived): frozenset(
        {Phase.RESTING, Phase.COMMITTING, Phase.RESOLVING, Phase.FIXING, Phase.REQUESTING, Phase.CALLING}
    ),
    (Phase.RESTING, s.ParkingAsked): frozenset({Phase.RELEASING}),
    (Phase.RESTING, s.DeadlinePassed): frozenset({Phase.RESTING}),
    (Phase.RESTING, s.RunHalted): frozenset({Phase.RESTING}),
    (Phase.RESTING, s.LeaseLost): _FENCED,
    (Phase.COMMITTING, s.MessagesArrived): frozenset({Phase.COMMITTING}),
    (Phase.COMMITTING, s.Appended): _ANYTHING_NEXT | {Phase.RESTORING},
    (Phase.COMMITTING, s.AppendRefused): _FENCED,
    (Phase.COMMITTING, s.AppendFailed): frozenset({Phase.STALLED, Phase.GONE}),
    (Phase.COMMITTING, s.DeadlinePassed): frozenset({Phase.COMMITTING}),
    (Phase.COMMITTING, s.RunHalted): frozenset({Phase.COMMITTING}),
    (Phase.COMMITTING, s.ParkingAsked): frozenset({Phase.COMMITTING}),
    (Phase.COMMITTING, s.LeaseLost): _FENCED,
    (Phase.RESOLVING, s.MessagesArrived): frozenset({Phase.RESOLVING}),
    (Phase.RESOLVING, s.ReferencesResolved): _RESOLVED,
    (Phase.RESOLVING, s.ResolvingAborted): _RESOLVED,
    (Phase.RESOLVING, s.DeadlinePassed): frozenset({Phase.RESOLVING}),
    (Phase.RESOLVING, s.RunHalted): frozenset({Phase.RESOLVING}),
    (Phase.RESOLVING, s.ParkingAsked): frozenset({Phase.RESOLVING}),
    (Phase.RESOLVING, s.LeaseLost): _FENCED,
    (Phase.FIXING, s.MessagesArrived): frozenset({Phase.FIXING}),
    (Phase.FIXING, s.ExtractionFixed): _CUT_SHORT | {Phase.COMPACTING},
    (Phase.FIXING, s.CompactionAborted): _CUT_SHORT,
    (Phase.FIXING, s.DeadlinePassed): frozenset({Phase.FIXING}),
    (Phase.FIXING, s.RunHalted): frozenset({Phase.FIXING}),
    (Phase.FIXING, s.ParkingAsked): frozenset({Phase.FIXING}),
    (Phase.FIXING, s.LeaseLost): _FENCED,
    (Phase.COMPACTING, s.MessagesArrived): frozenset({Phase.COMPACTING}),
    (Phase.COMPACTING, s.Compacted): frozenset({Phase.COMMITTING}),
    (Phase.COMPACTING, s.CompactionFailed): frozenset({Phase.COMMITTING}),
    (Phase.COMPACTING, s.CompactionAborted): _CUT_SHORT,
    (Phase.COMPACTING, s.DeadlinePassed): frozenset({Phase.COMPACTING}),
    (Phase.COMPACTING, s.RunHalted): frozenset({Phase.COMPACTING}),
    (Phase.COMPACTING, s.ParkingAsked): frozenset({Phase.COMPACTING}),
    (Phase.COMPACTING, s.LeaseLost): _FENCED,
    (Phase.REQUESTING, s.MessagesArrived): frozenset({Phase.REQUESTING}),
    (Phase.REQUESTING, s.ReplyCompleted): frozenset({Phase.COMMITTING}),
    (Phase.REQUESTING, s.RequestFailed): frozenset({Phase.COMMITTING, Phase.REQUESTING, Phase.FIXING}),
    (Phase.REQUESTING, s.RequestAborted): frozenset({Phase.COMMITTING, Phase.REQUESTING}),
    (Phase.REQUESTING, s.DeadlinePassed): frozenset({Phase.REQUESTING}),
    (Phase.REQUESTING, s.RunHalted): frozenset({Phase.REQUESTING}),
    (Phase.REQUESTING, s.ParkingAsked): frozenset({Phase.REQUESTING}),
    (Phase.REQUESTING, s.LeaseLost): _FENCED,
    (Phase.CALLING, s.MessagesArrived): frozenset({Phase.CALLING}),
    (Phase.CALLING, s.CallsFinished): frozenset({Phase.CALLING, Phase.COMMITTING}),
    (Phase.CALLING, s.Appended): frozenset({Phase.CALLING, Phase.COMMITTING}),
    (Phase.CALLING, s.AppendRefused): _FENCED,
    (Phase.CALLING, s.AppendFailed): frozenset({Phase.STALLED}),
    (Phase.CALLING, s.DeadlinePassed): frozenset({Phase.CALLING}),
    (Phase.CALLING, s.RunHalted): frozenset({Phase.CALLING}),
    (Phase.CALLING, s.ParkingAsked): frozenset({Phase.CALLING}),
    (Phase.CALLING, s.LeaseLost): _FENCED,
    (Phase.STALLED, s.MessagesArrived): frozenset({Phase.STALLED}),
    (Phase.STALLED, s.CallsFinished): frozenset({Phase.STALLED}),
    (Phase.STALLED, s.RetryDue): frozenset({Phase.STALLED, Phase.COMMITTING, Phase.RESOLVING}),
    (Phase.STALLED, s.DeadlinePassed): frozenset({Phase.STALLED}),
    (Phase.STALLED, s.RunHalted): frozenset({Phase.STALLED}),
    (Phase.STALLED, s.ParkingAsked): frozenset({Phase.STALLED}),
    (Phase.STALLED, s.LeaseLost): _FENCED,
    (Phase.RESTORING, s.Restored): frozenset({Phase.RESTING, Phase.RESOLVING, Phase.FIXING, Phase.COMMITTING}),
    (Phase.RESTORING, s.RestoreFailed): _FENCED,
    (Phase.RESTORING, s.MessagesArrived): frozenset({Phase.RESTORING}),
    (Phase.RESTORING, s.DeadlinePassed): frozenset({Phase.RESTORING}),
    (Phase.RESTORING, s.RunHalted): frozenset({Phase.RESTORING}),
    (Phase.RESTORING, s.ParkingAsked): frozenset({Phase.RESTORING}),
    (Phase.RESTORING, s.LeaseLost): _FENCED,
    (Phase.RELEASING, s.MessagesArrived): frozenset({Phase.RELEASING}),
    (Phase.RELEASING, s.ParkingAsked): frozenset({Phase.RELEASING}),
    (Phase.RELEASING, s.DeadlinePassed): frozenset({Phase.RELEASING}),
    (Phase.RELEASING, s.RunHalted): frozenset({Phase.RELEASING}),
    (Phase.RELEASING, s.Released): frozenset({Phase.GONE}),
    (Phase.RELEASING, s.ReleaseRefused): _ANYTHING_NEXT,
    (Phase.RELEASING, s.LeaseLost): _FENCED,
}


class IllegalStimulus(Exception):
    """A stimulus that the phase has no move for: the shell's fault. Nothing was changed."""

    def __init__(self, phase: Phase, stimulus: s.Stimulus) -> None:
        super().__init__(f"{type(stimulus).__name__} has no meaning while the machine is {phase}")
        self.phase = phase
        self.stimulus = stimulus


class BrokenInvariant(Exception):
    """The machine made a move that its table does not allow: our fault."""
