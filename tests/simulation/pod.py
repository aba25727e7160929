"""One incarnation of a Pod: the real turn machine, and a shell that carries instructions out by the schedule.

Between any two steps it may be dead, cut off from the store, or superseded without knowing it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, fields
from typing import Any

from actors.pod import instructions as do
from actors.pod import stimuli as st
from actors.pod.facts import pod_facts
from actors.pod.transitions import Phase
from actors.pod.turn import TurnMachine
from actors.protocol.config import PodConfig
from actors.protocol.tasks import TaskList
from actors.protocol.tools import CallKey, ToolOutcome
from session_store.codec import pack, to_plain
from session_store.entries import Extension
from session_store.errors import Refused, StaleEpoch
from session_store.items import AssistantMessage, ToolResultGroup
from session_store.requests import Append, Lease, Pending, Release
from session_store.restore import restore
from tests.simulation import compactions, model, orders, prompts, tools
from tests.simulation.world import Event, LawBroken, World

CLIENT_TRIES = 3


@dataclass(slots=True)
class RunningCall:
    key: CallKey
    name: str
    work: Generator[int, None, ToolOutcome]
    aborted: bool = False


class Incarnation:
    """`alive` until it crashes or quits. Superseded ones stay alive until the store refuses them."""

    def __init__(self, world: World, lease: Lease, left: Callable[[Incarnation, str], None]) -> None:
        self.world = world
        self.session = lease.session
        self.epoch = lease.epoch
        self.alive = True
        self.doubtful = False
        self._left = left
        entries = list(world.references[self.session].entries)
        restored = restore(entries)
        self.config = PodConfig.read(restored.history.config)
        facts = pod_facts(entries, self.config.parent_id)
        self.machine = TurnMachine(self.config, restored, facts, lease, tools.idempotent)
        self.calls: dict[int, RunningCall] = {}
        self.planned: dict[int, TaskList] = {}
        """The task list as the calls of a reply have left it so far, by the seq of the reply."""
        self._finished: list[tuple[int, ToolOutcome]] = []
        self._request_aborted = self._resolving_aborted = self._compaction_aborted = False
        self._deadline: Event | None = None
        self.check_memory()
        self._later("open", lambda: self.feed(st.Opened()))

    @property
    def tag(self) -> str:
        return f"{self.config.name}/{self.epoch}"

    @property
    def phase(self) -> Phase:
        return self.machine.phase

    def crash(self) -> None:
        self.alive = False
        self.world.forget_owner(self)

    def feed(self, stimulus: st.Stimulus) -> None:
        if not self.alive:
            return
        before = self.machine.phase
        instructions = self.machine.handle(stimulus)
        name = type(stimulus).__name__
        self.world.moves.add((before, name, self.machine.phase))
        self.world.say(f"  {self.tag}: {name} -> {self.machine.phase} [{', '.join(map(_short, instructions))}]")
        if isinstance(stimulus, (st.Appended, st.Restored)) and self.machine.phase is not Phase.RESTORING:
            self.check_memory()
        for instruction in instructions:
            self.carry_out(instruction)

    def poll(self) -> None:
        """Look for messages, as on a hint."""
        if not self.alive or self.phase is Phase.NEW or self.phase is Phase.GONE:
            return
        reply = self.world.execute(Pending(self.session, self.machine.state.cursor))
        messages = reply.messages
        if messages:
            self._later("messages", lambda: self.feed(st.MessagesArrived(messages)))

    def carry_out(self, instruction: do.Instruction) -> None:
        match instruction:
            case do.Append():
                self._append(instruction)
            case do.ResolveReferences():
                self._resolving_aborted = False
                wait = self.world.rng.choice((0, 5, 300))
                self._later("references", lambda: self._resolved(instruction), wait)
            case do.AbortResolving():
                self._resolving_aborted = True
            case do.FixExtraction(compaction_id):
                self._compaction_aborted = False
                self._later("extraction fixed", lambda: self._fixed(compaction_id), self.world.rng.choice((0, 5)))
            case do.Compact():
                orders.check_free(self.machine.state, ("stop", "cancel", "pause"))
                self._later("compaction", lambda: self._compacted(instruction), self.world.rng.choice((0, 5, 300)))
            case do.AbortCompaction():
                self._compaction_aborted = True
            case do.SendRequest():
                self._send_request(instruction)
            case do.AbortRequest():
                self._request_aborted = True
            case do.RunCalls():
                self._run_calls(instruction)
            case do.AbortCalls():
                for call in self.calls.values():
                    call.aborted = True
            case do.Restore():
                self._later("restore", self._restore)
            case do.SetDeadline(run_id, at_ms):
                self._clear_deadline()
                wait = max(0, at_ms - self.world.now)
                self._deadline = self._later("deadline", lambda: self.feed(st.DeadlinePassed(run_id)), wait)
            case do.ClearDeadline():
                self._clear_deadline()
            case do.RetryLater(seconds):
                self._later("retry", lambda: self.feed(st.RetryDue()), int(seconds * 1000))
            case do.Hint(sessions):
                self.world.hint(sessions)
            case do.RaiseAlert():
                self.world.alerts += 1
            case do.Rest():
                self._later("poll", self.poll)
            case do.Release():
                self._later("release", self._release)
            case do.Quit(reason):
                self.crash()
                self._left(self, reason)

    # --- the store ---

    def _append(self, flight: do.Append) -> None:
        request = Append(
            self.session,
            self.epoch,
            flight.expected_head,
            flight.batch_id,
            flight.entries,
            flight.deliveries,
            flight.consumes,
            flight.inbox_cursor,
            flight.concluded,
            flight.cascade,
        )
        self._post(request, 1)
        if self.world.chance(0.03):  # the network doubles it
            self.world.later(f"{self.tag} late double", lambda: self.world.try_execute(request))

    def _post(self, request: Append, attempt: int) -> None:
        """In the network: it arrives whether or not its sender still lives."""
        self.world.later(f"{self.tag} append arrives", lambda: self._arrive(request, attempt))

    def _arrive(self, request: Append, attempt: int) -> None:
        world, batch = self.world, request.batch_id
        if world.chance(0.02):
            self._no_answer(request, attempt)  # the disk is full, or it never arrived
            return
        try:
            reply = world.execute(request)
        except Refused as refused:
            code, text = refused.code, refused.message
            if code != "stale_epoch" and self.alive and not self.doubtful:
                raise LawBroken(f"{self.tag}: the only writer is refused: {text}") from refused
            self._later("refusal", lambda: self.feed(st.AppendRefused(batch, code, text)))
            return
        if world.chance(0.03):
            self._no_answer(request, attempt)
            return
        self._later("ack", lambda: self.feed(st.Appended(batch, reply)))

    def _no_answer(self, request: Append, attempt: int) -> None:
        if not self.alive:
            return
        if attempt < CLIENT_TRIES and self.world.rng.random() < 0.7:
            self._post(request, attempt + 1)
        else:
            self.doubtful = True  # it may have been committed after all
            self._later("no answer", lambda: self.feed(st.AppendFailed(request.batch_id, "no answer")))

    def _restore(self) -> None:
        if self.world.chance(0.05):
            self.feed(st.RestoreFailed("no answer"))
            return
        entries = list(self.world.references[self.session].entries)
        self.feed(st.Restored(restore(entries), pod_facts(entries, self.config.parent_id)))

    def _release(self) -> None:
        try:
            self.world.execute(Release(self.session, self.epoch))
        except Refused as refused:
            stale = isinstance(refused, StaleEpoch)
            messages = () if stale else self.world.execute(Pending(self.session, self.machine.state.cursor)).messages
            self._later("not released", lambda: self.feed(st.ReleaseRefused(stale, messages)))
            return
        self._later("released", lambda: self.feed(st.Released()))

    def _resolved(self, order: do.ResolveReferences) -> None:
        if self._resolving_aborted and self.world.rng.random() < 0.7:
            self.feed(st.ResolvingAborted(order.message_id))
        else:
            self.feed(st.ReferencesResolved(order.message_id, prompts.looked_up(self.world, order)))

    def _fixed(self, compaction_id: str) -> None:
        if self._compaction_aborted and self.world.rng.random() < 0.7:
            self.feed(st.CompactionAborted(compaction_id))
        else:
            self.feed(st.ExtractionFixed(compaction_id))

    def _compacted(self, wanted: do.Compact) -> None:
        """By the real plan; the worker fails at times."""
        if self._compaction_aborted and self.world.rng.random() < 0.7:
            self.feed(st.CompactionAborted(wanted.compaction_id))
            return
        self.feed(compactions.made(self.world, self.machine.state, wanted))

    # --- the model ---

    def _send_request(self, instruction: do.SendRequest) -> None:
        self.world.requests += 1
        self._request_aborted = False
        orders.check_free(self.machine.state, ("stop", "cancel", "pause"))
        self.check_request()
        self._later("reply", lambda: self._reply(instruction.request_id), self.world.rng.choice((0, 5, 300)))

    def _reply(self, request_id: str) -> None:
        if self._request_aborted and self.world.rng.random() < 0.7:
            self.feed(st.RequestAborted(request_id, model.kept(self.world)))
        else:
            self.feed(model.answer(self.world, self, request_id))

    # --- tools ---

    def _run_calls(self, instruction: do.RunCalls) -> None:
        orders.check_free(self.machine.state, ("stop", "cancel"))
        for index in instruction.indexes:
            call = instruction.message.calls[index]
            key = CallKey(self.session, instruction.message.seq, index)
            if index in self.calls:
                raise LawBroken(f"{key} is started while a call of that index runs")
            self.calls[index] = RunningCall(key, call.name, tools.work(self.world, self, key, call))
            self._later(f"tool {call.name}", lambda i=index: self._work(i))

    def _work(self, index: int) -> None:
        call = self.calls[index]
        if call.aborted and self.world.rng.random() < 0.8:
            self._finish(index, ToolOutcome("interrupted", "Interrupted."))
            return
        try:
            wait = next(call.work)
        except StopIteration as end:
            self._finish(index, end.value)
            return
        self._later("tool goes on", lambda: self._work(index), wait)

    def _finish(self, index: int, outcome: ToolOutcome) -> None:
        del self.calls[index]
        self._finished.append((index, outcome))
        self._later("calls finished", self._report)

    def _report(self) -> None:
        finished, self._finished = tuple(self._finished), []
        if finished:
            self.feed(st.CallsFinished(finished))

    def _clear_deadline(self) -> None:
        if self._deadline is not None and self._deadline in self.world.events:
            self.world.events.remove(self._deadline)
        self._deadline = None

    def _later(self, label: str, act: Callable[[], None], after: int = 0) -> Event:
        return self.world.later(f"{self.tag} {label}", act, after=after, owner=self)

    # --- invariants ---

    def check_memory(self) -> None:
        """Law 1: what the machine holds is what the log says."""
        reference, state = self.world.references[self.session], self.machine.state
        if self._overtaken():
            return
        _same("history", reference.history, state.history)
        _same("facts", reference.facts, state.facts)
        _same("fold", reference.fold, state.fold, leave_out=("head", "updated_at"))

    def _overtaken(self) -> bool:
        """Whether a newer incarnation wrote what this one does not know."""
        beyond = self.world.references[self.session].entries[self.machine.state.head :]
        return any(not isinstance(e, Extension) for e in beyond)

    def check_request(self) -> None:
        """Every call answered before a request; earlier history as in the request before, byte by byte (E11)."""
        history = self.machine.state.history
        if history.open_message is not None:
            raise LawBroken(f"{self.tag} asks the model with open calls {history.open_calls}")
        for item, following in zip(history.items, [*history.items[1:], None], strict=True):
            if isinstance(item, AssistantMessage) and item.calls:
                answered = following.results if isinstance(following, ToolResultGroup) else ()
                if [(r.call_seq, r.index) for r in answered] != [(item.seq, i) for i in range(len(item.calls))]:
                    raise LawBroken(f"{self.tag}: the calls of entry {item.seq} are not answered in call order")
        encoded = [pack(to_plain(item)) for item in history.items]
        removals, last = self.world.sent_histories.get(self.session, (0, []))
        if self._overtaken():
            return
        if removals == history.removals and encoded[: len(last)] != last:
            raise LawBroken(f"{self.tag}: the history before the last request has changed")
        self.world.sent_histories[self.session] = (history.removals, encoded)


def _same(what: str, expected: Any, found: Any, leave_out: tuple[str, ...] = ()) -> None:
    for f in fields(expected):
        a, b = getattr(expected, f.name), getattr(found, f.name)
        if f.name not in leave_out and a != b:
            raise LawBroken(f"{what}.{f.name}: the log says {a!r}, memory holds {b!r}")


def _short(instruction: do.Instruction) -> str:
    name = type(instruction).__name__
    match instruction:
        case do.Append():
            kinds = "+".join(e.type + (f":{e.outcome}" if e.type == "run_end" else "") for e in instruction.entries)
            more = [f"consumes {len(instruction.consumes)}"] if instruction.consumes else []
            more += ["concluded"] if instruction.concluded else []
            more += [f"cascade {instruction.cascade}"] if instruction.cascade else []
            more += [f"tells {d.message.body['event']['kind']}" for d in instruction.deliveries]
            return f"Append({', '.join([kinds, *more])})"
        case do.RunCalls():
            return f"RunCalls({', '.join(instruction.message.calls[i].name for i in instruction.indexes)})"
        case do.Quit():
            return f"Quit({instruction.reason})"
        case _:
            return name
