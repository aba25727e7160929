"""The turn machine: stimulus in, instructions out. No Ray, no I/O, no clock, no randomness.

It decides by level, not by edge: `_advance` looks at the folds of what is committed and at the inbox, and says the one
next thing. What is committed is only ever changed by `_committed`, with what the store acknowledged; after a rewind it
is folded anew from the log (`Restored`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from actors.pod import compacting, referring, steps
from actors.pod import instructions as do
from actors.pod import stimuli as st
from actors.pod.calls import CallBoard
from actors.pod.compacting import Due
from actors.pod.endings import (
    OUT_OF_TIME,
    Commit,
    Ending,
    closing_results,
    end_run,
    ordered_ending,
    stop_pod,
    withdraw_cancelled,
)
from actors.pod.facts import PodFacts
from actors.pod.state import Identity, PodState
from actors.pod.transitions import TRANSITIONS, BrokenInvariant, IllegalStimulus, Phase
from actors.protocol.config import PodConfig
from actors.protocol.tools import ToolOutcome
from session_store.entries import Extension, Invoke, LogEntry, Rewound, RunEnd, ToolResults
from session_store.items import Problem
from session_store.messages import Message
from session_store.requests import Appended, Lease
from session_store.restore import RestoredState
from session_store.status import CONTINUING

MAX_STALLS = 40
"""Tries to commit while the store cannot; with waits up to `STALL_WAIT` seconds that is about 18 minutes."""
STALL_WAIT = 30.0
ENDING_ORDERS = ("stop", "cancel", "interrupt")


class TurnMachine:
    """One incarnation of a Pod's mind. `idempotent(tool name)` says what may run again after a crash."""

    def __init__(
        self, config: PodConfig, state: RestoredState, facts: PodFacts, lease: Lease, idempotent: Callable[[str], bool]
    ) -> None:
        who = Identity(lease.session, config.name, config.parent_id, lease.epoch)
        self.state = PodState(config, who, state.history, state.status, facts, lease.head)
        self.phase = Phase.NEW
        self._idempotent = idempotent
        self._opened_head = lease.head
        self._tag = f"{lease.session[-12:]}-{lease.epoch}"
        self._count = 0
        self._flight: do.Append | None = None
        self._request: str | None = None
        self._resolving = ""
        self._compacting: do.Compact | None = None
        self._aborting = False
        self._board: CallBoard | None = None
        self._late: Problem | None = None
        """Why the run must end now: its time is up, or a hook stopped it."""
        self._over_wakes = False
        self._broken = 0
        self._stalls = 0
        self._out: list[do.Instruction] = []
        self.state.note(lease.messages)

    def handle(self, stimulus: st.Stimulus) -> list[do.Instruction]:
        """Take one fact; say what to do.

        Raises `IllegalStimulus` (and changes nothing) when the phase has no move for it.
        """
        if self.phase is Phase.GONE:
            return []
        allowed = TRANSITIONS.get((self.phase, type(stimulus)))
        if allowed is None:
            raise IllegalStimulus(self.phase, stimulus)
        before, self._out = self.phase, []
        self._take(stimulus)
        if self.phase not in allowed:
            raise BrokenInvariant(f"{before} -> {self.phase} on {type(stimulus).__name__}")
        return self._out

    def _take(self, stimulus: st.Stimulus) -> None:
        match stimulus:
            case st.Opened():
                if self.state.fold.run_open:
                    self._set_deadline()
                self._advance()
            case st.MessagesArrived(messages):
                self.state.note(messages)
                self._heed()
            case st.Appended():
                self._committed(stimulus.reply)
            case st.AppendFailed():
                self._stall(stimulus.message)
            case st.RetryDue():
                self._retry_commit()
            case st.ReferencesResolved() | st.ResolvingAborted():
                self._resolved(stimulus)
            case st.ExtractionFixed() | st.Compacted() | st.CompactionFailed() | st.CompactionAborted():
                self._compact_on(stimulus)
            case st.ReplyCompleted() | st.RequestFailed() | st.RequestAborted():
                self._request, self._aborting = None, False
                self._follow(self._answered(stimulus))
            case st.CallsFinished(outcomes):
                self._calls_finished(outcomes)
            case st.Restored(state, facts):
                self.state.history, self.state.fold, self.state.facts = state.history, state.status, facts
                self._advance()
            case st.RestoreFailed(reason):
                self._do(do.Quit("store", reason), Phase.GONE)
            case st.DeadlinePassed(run_id):
                self._cut_short(run_id, OUT_OF_TIME)
            case st.RunHalted(run_id, problem):
                self._cut_short(run_id, problem)
            case st.ParkingAsked():
                if self.phase is Phase.RESTING:
                    self._do(do.Release(), Phase.RELEASING)
            case st.ReleaseRefused(stale, messages):
                self._release_refused(stale, messages)
            case st.Released():
                self._do(do.Quit("parked"), Phase.GONE)
            case st.AppendRefused():
                self._fence(f"{stimulus.code}: {stimulus.message}")
            case st.LeaseLost(reason):
                self._fence(reason)

    def _advance(self) -> None:
        """Say the next thing. Nothing is in flight now."""
        if self.state.fold.ended:
            self._do(do.Quit("ended"), Phase.GONE)
        elif self.state.order() == "stop":
            self._append(stop_pod(self.state, Commit(), self._board))
        elif self.state.running:
            self._follow(steps.in_run(self.state, self._ordered_to_end(), self._over_wakes))
        else:
            self._follow(steps.at_rest(self.state, lambda: self._next_id("run")))

    def _no_use_resolving(self) -> bool:
        return self._late is not None or referring.overtaken(self.state, self._resolving)

    def _no_use_compacting(self) -> bool:
        return self._late is not None or compacting.overtaken(self.state)

    def _resolved(self, stimulus: st.ReferencesResolved | st.ResolvingAborted) -> None:
        self._aborting = False
        if isinstance(stimulus, st.ReferencesResolved):
            self.state.lookup = stimulus
            self._out.extend(referring.alerts(stimulus))
        self._advance()

    def _begin_compaction(self, due: Due) -> None:
        """Extract, then compact: first the extractor takes its range, then the history is made shorter."""
        if self._stalls:
            self._append(Commit())  # nothing is paid for before the log can be written again
            return
        self._compacting = do.Compact(self._next_id("compact"), due.trigger, due.limit)
        self._do(do.FixExtraction(self._compacting.compaction_id, self.state.head), Phase.FIXING)

    def _compact_on(
        self, stimulus: st.ExtractionFixed | st.Compacted | st.CompactionFailed | st.CompactionAborted
    ) -> None:
        wanted, aborting, self._aborting = self._compacting, self._aborting, False
        assert wanted is not None
        match stimulus:
            case st.ExtractionFixed() if not aborting:
                size = self.state.facts.occupancy.tokens
                words = f"The history, about {size} tokens, is being compacted."
                self._out.append(do.RaiseAlert("info", "compaction_started", words))
                self._do(wanted, Phase.COMPACTING)
            case st.Compacted() | st.CompactionFailed():
                self._follow(steps.after_compaction(self.state, wanted, stimulus, self._ordered_to_end()))
            case _:
                self._advance()

    def _cut_short(self, run_id: str, problem: Problem) -> None:
        if self._late is None and run_id == self.state.fold.run_id and self.state.fold.run_open:
            self._late = problem
        self._heed()

    def _heed(self) -> None:
        """A message or the deadline came: cut short what an order or the time forbids."""
        order = self.state.order()
        if self.phase is Phase.RESTING:
            self._advance()
        elif self.phase is Phase.RESOLVING and not self._aborting and self._no_use_resolving():
            self._aborting = True
            self._out.append(do.AbortResolving(self._resolving))
        elif self.phase in (Phase.FIXING, Phase.COMPACTING) and not self._aborting and self._no_use_compacting():
            self._aborting = True
            self._out.append(do.AbortCompaction(self._compacting.compaction_id if self._compacting else ""))
        elif self.phase is Phase.REQUESTING and not self._aborting and (order is not None or self._late):
            self._aborting = True
            self._out.append(do.AbortRequest(self._request or ""))
        elif self.phase is Phase.CALLING and not self._aborting and (order in ENDING_ORDERS or self._late):
            self._aborting = True
            self._out.append(do.AbortCalls())

    def _send_request(self) -> None:
        self._request = self._next_id("req")
        facts = self.state.facts
        self._do(do.SendRequest(self._request, facts.next_number, facts.run_requests + 1), Phase.REQUESTING)

    def _answered(self, stimulus: st.ReplyCompleted | st.RequestFailed | st.RequestAborted) -> steps.Step:
        state, ordered = self.state, self._ordered_to_end()
        match stimulus:
            case st.ReplyCompleted():
                step, self._broken = steps.after_reply(state, stimulus, self._broken, ordered)
            case st.RequestFailed():
                step, self._broken = steps.after_failure(state, stimulus, self._broken, ordered)
            case _:
                return steps.after_abort(state, stimulus, ordered)
        return step

    def _ordered_to_end(self) -> bool:
        return self._late is not None or self.state.order() in ENDING_ORDERS

    def _end_as_ordered(self, commit: Commit) -> None:
        """Stop, cancel, interrupt or time: end, with the last text the model produced in the same commit."""
        if self.state.order() == "stop":
            self._append(stop_pod(self.state, commit, self._board))
        else:
            self._end(ordered_ending(self.state, commit, self._late), commit)

    def _follow(self, step: steps.Step) -> None:
        match step:
            case steps.Ask():
                self._send_request()
            case steps.Write(commit, calling):
                self._append(commit, Phase.CALLING if calling else Phase.COMMITTING)
            case steps.End(ending, commit):
                self._end(ending, commit)
            case steps.Obey(commit):
                self._end_as_ordered(commit)
            case steps.Call():
                self._take_up_calls()
            case Due():
                self._begin_compaction(step)
            case do.ResolveReferences(message_id):
                self._resolving = message_id
                self._do(step, Phase.RESOLVING)
            case do.Rest():
                self._do(step, Phase.RESTING)

    def _take_up_calls(self) -> None:
        """Run the calls of the last reply; of a revived run only those that may run again (law 6)."""
        message = self.state.history.open_message
        assert message is not None
        runnable = self.state.history.open_calls
        if message.seq <= self._opened_head:
            cut = steps.cut_calls(self.state, message, self._opened_head, self._idempotent)
            self._opened_head = message.seq - 1  # from here on what begins begins here
            if cut:
                self._append(Commit(entries=[ToolResults(tuple(closing_results(message, cut)))]))
                return
        alone = tuple(i for i in runnable if self.state.facts.permits.permit_for(message.seq, i) is not None)
        self._board = CallBoard(message, runnable, alone)
        self._do(do.RunCalls(message, self._board.next_stage()), Phase.CALLING)

    def _calls_finished(self, outcomes: tuple[tuple[int, ToolOutcome], ...]) -> None:
        board = self._board
        if board is None:
            return  # a stalled run's calls, ended on our order
        for index, outcome in outcomes:
            board.finish(index, outcome)
        if self.phase is Phase.CALLING and self._flight is None and (board.news or self._aborting):
            self._commit_results(board)

    def _commit_results(self, board: CallBoard) -> None:
        if not self._aborting:
            free = self.state.order() is None and not self._late
            self._follow(steps.after_calls(self.state, board, free))
        elif not board.running:  # the others report within a bound; one commit ends the run
            self._aborting = False
            self._end_as_ordered(Commit())

    def _go_on_calling(self) -> None:
        board = self._board
        assert board is not None
        self._heed()
        if board.news or (self._aborting and not board.running):
            self._commit_results(board)
        elif not board.running and board.more_stages():
            self._do(do.RunCalls(board.message, board.next_stage()), Phase.CALLING)

    def _end(self, ending: Ending, commit: Commit | None = None) -> None:
        commit = end_run(self.state, ending, commit or Commit(), self._board)
        if ending.outcome in ("cancelled", "withdrawn"):
            withdraw_cancelled(self.state, commit)
        self._append(commit)

    def _append(self, commit: Commit, phase: Phase = Phase.COMMITTING) -> None:
        fold = self.state.fold
        if fold.outcome == "paused" and not fold.run_open and any(isinstance(e, CONTINUING) for e in commit.entries):
            commit.consumes.extend(m.message_id for m in self.state.messages if m.kind == "resume")
        self._count += 1
        self._flight = commit.append(f"{self._tag}-{self._count}", self.state.head, self.state.cursor)
        self._do(self._flight, phase)

    def _committed(self, reply: Appended) -> None:
        """The only place where the Pod's memory changes: exactly as the log did."""
        flight, self._flight = self._flight, None
        assert flight is not None
        self._stalls = 0
        for offset, entry in enumerate(flight.entries):
            placed = replace(entry, seq=reply.first_seq + offset, ts=reply.ts)
            resting = not self.state.fold.run_open
            self.state.apply(placed)
            self._note_run(placed, reply)
            if resting and self.state.fold.run_open:
                self._set_deadline()
        self.state.head = reply.head
        self.state.forget(flight.consumes)
        self.state.note(reply.messages)
        hinted = tuple(dict.fromkeys((*(d.session for d in flight.deliveries), *reply.cascaded)))
        if hinted:
            self._out.append(do.Hint(hinted))
        if any(isinstance(e, Rewound) for e in flight.entries):
            self._do(do.Restore(), Phase.RESTORING)
        elif self.phase is Phase.COMMITTING:
            self._advance()
        else:
            self._go_on_calling()

    def _note_run(self, entry: LogEntry, reply: Appended) -> None:
        match entry:
            case Invoke(trigger=trigger):
                self._late, self._broken = None, 0
                self._over_wakes = trigger == "pod_event" and reply.wakes > self.state.config.max_wakes
            case RunEnd():
                self._board, self._late, self.state.lookup = None, None, None
                self._out.append(do.OfferExtraction())
                if self.state.config.limits.seconds is not None:
                    self._out.append(do.ClearDeadline())
            case Extension():
                self._out.extend(compacting.alerts(self.state, entry))
            case _:
                pass

    def _set_deadline(self) -> None:
        seconds = self.state.config.limits.seconds
        if seconds is not None:
            at = self.state.facts.run_started + round(seconds * 1000)
            self._out.append(do.SetDeadline(self.state.fold.run_id or "", at))

    def _stall(self, reason: str) -> None:
        """The store cannot commit: nothing of the failed batch exists (law 2). Tell people, try the run's end later."""
        flight, self._flight = self._flight, None
        self._stalls += 1
        if self._board is not None and flight is not None:
            self._board.put_back(r for e in flight.entries if isinstance(e, ToolResults) for r in e.results)
        if self._board is not None and self._board.running and not self._aborting:
            self._out.append(do.AbortCalls())
        self._aborting = False
        if self._stalls > MAX_STALLS:
            self._do(do.Quit("store", reason), Phase.GONE)
            return
        self._out.append(do.RaiseAlert("error", "store_unavailable", f"The session's log cannot be written: {reason}"))
        self._do(do.RetryLater(min(0.25 * 2 ** (self._stalls - 1), STALL_WAIT)), Phase.STALLED)

    def _retry_commit(self) -> None:
        if self._board is not None and self._board.running:
            self._do(do.RetryLater(0.25), Phase.STALLED)  # AbortCalls is bounded: its answer comes first
        elif self.state.running and not self._ordered_to_end():
            self._end(Ending("errored", Problem("store_unavailable", "The log could not be written for a while.")))
        else:
            self._advance()

    def _release_refused(self, stale: bool, messages: tuple[Message, ...]) -> None:
        if stale:
            self._fence("stale_epoch")
            return
        self.state.note(messages)
        self.phase = Phase.RESTING
        self._advance()

    def _fence(self, reason: str) -> None:
        """Another incarnation owns the session: stop at once, tool processes first (law 3)."""
        if self._board is not None and self._board.running:
            self._out.append(do.AbortCalls())
        if self._request is not None:
            self._out.append(do.AbortRequest(self._request))
        self._do(do.Quit("fenced", reason), Phase.GONE)

    def _next_id(self, kind: str) -> str:
        """Unique without chance: an epoch is never used twice."""
        self._count += 1
        return f"{kind}-{self._tag}-{self._count}"

    def _do(self, instruction: do.Instruction, phase: Phase) -> None:
        self._out.append(instruction)
        self.phase = phase
