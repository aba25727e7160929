"""The asyncio shell of one Pod: carries the machine's instructions out and tells it what came of them.

One task takes stimuli from a queue, in order; each effect runs in a task of its own and ends by posting one stimulus.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.pod import instructions as do
from actors.pod import stimuli as st
from actors.pod.compacting import compaction_order
from actors.pod.compaction_call import compact, fix
from actors.pod.endings import INTERRUPTED
from actors.pod.hooks import PodHooks, pod_view
from actors.pod.live import LiveLog
from actors.pod.lookup import look_up
from actors.pod.ports import HostParts
from actors.pod.store_calls import StoreCalls
from actors.pod.transitions import Phase
from actors.pod.turn import TurnMachine
from actors.protocol.alerts import Alert, Level
from actors.protocol.compaction import Compactor
from actors.protocol.hooks import PodView
from actors.protocol.live import TOOL_BLOCK
from actors.protocol.model import GrowingHistory, Model, ModelError, ModelRequest
from actors.protocol.references import References
from actors.protocol.tools import CallKey, Toolbox, ToolContext, ToolOutcome
from session_store.entries import AssistantItems, LogEntry, ToolResults
from session_store.items import AssistantMessage, Problem

ABORT_LIMIT = 5.0
"""Seconds that tools have to end when cut off; after that their calls are answered without them."""
SETTLED = (do.ResolveReferences, do.FixExtraction, do.SendRequest, do.RunCalls, do.Rest, do.RetryLater, do.Quit)


@dataclass(frozen=True, slots=True)
class PodParts:
    """One Pod's own parts. Folders are resolved."""

    model: Model
    toolbox: Toolbox
    references: References
    compactor: Compactor
    workspace: Path
    spill: Path
    forbidden: tuple[Path, ...]
    hidden: tuple[Path, ...]


class PodDriver:
    """Runs one `TurnMachine` until it quits. `on_quit(driver, quit)` is called once, when everything has ended."""

    def __init__(self, machine: TurnMachine, shared: HostParts, parts: PodParts) -> None:
        self.machine = machine
        self.live = LiveLog(lambda: machine.state.head)
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.resting_since: float | None = None
        self.quit: do.Quit | None = None
        self._shared = shared
        self._parts = parts
        self._who = machine.state.who
        self._store = StoreCalls(shared.store, self._who)
        self._queue: asyncio.Queue[st.Stimulus | BaseException] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._lookup: asyncio.Task[None] | None = None
        self._compaction: asyncio.Task[None] | None = None
        self._request: asyncio.Task[None] | None = None
        self._calls: asyncio.Task[None] | None = None
        self._over: str | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._finished: list[tuple[int, ToolOutcome]] = []
        self._hinted = self._looking = False
        self._encoded = GrowingHistory()
        self._removals = 0
        self._alerts = 0
        self._hooks = PodHooks(shared.hooks, self._pod_view, self._alert, self._halt, shared.gate.fresh)
        self._toolbox = self._hooks.around(parts.toolbox)
        self._telling: asyncio.Task[None] | None = None

    async def run(self) -> do.Quit:
        """Until the machine quits. A defect of ours ends the Pod loudly, not silently."""
        self.post(st.Opened())
        try:
            while self.quit is None:
                stimulus = await self._queue.get()
                if isinstance(stimulus, BaseException):
                    raise stimulus
                for instruction in self.machine.handle(stimulus):
                    self._carry_out(instruction)
        finally:
            await self._close()
        return self.quit

    def post(self, stimulus: st.Stimulus) -> None:
        self._queue.put_nowait(stimulus)

    def hint(self) -> None:
        """There may be messages: look, once at a time; a hint during a look causes another."""
        self._hinted = True
        if not self._looking:
            self._looking = True
            self._spawn(self._look())

    def lose(self, reason: str) -> None:
        """Another incarnation owns the session, or the actor is ending."""
        self.post(st.LeaseLost(reason))

    def _carry_out(self, instruction: do.Instruction) -> None:
        if isinstance(instruction, SETTLED) and not self.settled.done():
            self.settled.set_result(None)
        self.resting_since = self._shared.clock.monotonic() if isinstance(instruction, do.Rest) else None
        match instruction:
            case do.Append(entries=entries):
                self._settle_text(entries)
                self._spawn(self._append(instruction))
            case do.ResolveReferences():
                self._lookup = self._spawn(self._look_up(instruction))
            case do.AbortResolving():
                _cut_off(self._lookup)
            case do.FixExtraction():
                self._compaction = self._spawn(self._fix(instruction))
            case do.Compact():
                self._compaction = self._spawn(self._compact(instruction))
            case do.AbortCompaction():
                _cut_off(self._compaction)
            case do.SendRequest():
                self._settle_text(())
                self._over = instruction.request_id
                self._request = self._spawn(self._send(instruction))
            case do.AbortRequest():
                _cut_off(self._request)
            case do.RunCalls(message, indexes):
                self._calls = self._spawn(self._run_calls(message, indexes))
            case do.AbortCalls():
                _cut_off(self._calls)
            case do.Restore():
                self._spawn(self._restore())
            case do.SetDeadline(run_id, at_ms):
                self._set_deadline(run_id, at_ms)
            case do.ClearDeadline():
                self._clear_deadline()
            case do.RetryLater(seconds):
                asyncio.get_running_loop().call_later(seconds, self.post, st.RetryDue())
            case do.Hint(sessions):
                self._spawn(self._shared.directory.hint(sessions))
            case do.OfferExtraction():
                self._shared.offer_extraction(self._who.session)
            case do.RaiseAlert(level, code, message):
                self._alert(level, code, message)
            case do.Rest():
                self.hint()
                self._spawn(self._shared.directory.rested(self._who.session, self._who.generation))
            case do.Release():
                self._spawn(self._release())
            case do.Quit():
                self.quit = instruction

    async def _append(self, order: do.Append) -> None:
        told = await self._store.append(order)
        if isinstance(told, st.Appended):
            self._forget_live(order.entries)
            self._tell_end(order.entries)
        self.post(told)

    async def _restore(self) -> None:
        self.post(await self._store.restore())

    def _forget_live(self, entries: tuple[LogEntry, ...]) -> None:
        """What is in the log is not live any more."""
        for entry in entries:
            match entry:
                case AssistantItems(request_id=request_id):
                    self.live.committed(request_id)
                case ToolResults(results=results):
                    self.live.committed_blocks({f"{TOOL_BLOCK}{r.call_seq}.{r.index}" for r in results})
                case _:
                    pass

    def _settle_text(self, entries: tuple[LogEntry, ...]) -> None:
        """The last request is over: watchers forget what it said unless these entries commit it."""
        over, self._over = self._over, None
        if over is not None and not any(isinstance(e, AssistantItems) and e.request_id == over for e in entries):
            self.live.discard(over)

    async def _look_up(self, order: do.ResolveReferences) -> None:
        self.post(await look_up(self._parts.references, order))

    async def _fix(self, order: do.FixExtraction) -> None:
        fixing = self._shared.fix_extraction(self._who.session, order.through)
        self.post(await fix(fixing, order.compaction_id))

    async def _compact(self, order: do.Compact) -> None:
        wanted = compaction_order(self.machine.state, order)
        self.post(await compact(self._parts.compactor, wanted, self._shared.gate.fresh))

    async def _send(self, order: do.SendRequest) -> None:
        try:
            asked = (order.request_id, order.number, order.run_request)
            if not await self._hooks.before_request(asked, self.machine.state.history):
                self.post(st.RequestAborted(order.request_id))
                return
            await self._shared.gate.fresh()
            reply = await self._parts.model.reply(self._model_request(order), self.live)
            self.post(st.ReplyCompleted(order.request_id, reply))
        except asyncio.CancelledError:
            kept = self.live.partial(order.request_id)
            if not kept:
                self.live.discard(order.request_id)
            self.post(st.RequestAborted(order.request_id, kept))
        except ModelError as error:
            if not error.kept:
                self.live.discard(order.request_id)
            self.post(st.RequestFailed(order.request_id, error.type, error.message, error.broken, error.kept))
        except Exception as error:  # a defect in a model adapter must end the run, not hang it (case L07)
            self.live.discard(order.request_id)
            self.post(st.RequestFailed(order.request_id, "internal", f"{type(error).__name__}: {error}"))

    def _model_request(self, order: do.SendRequest) -> ModelRequest:
        history = self.machine.state.history
        if history.removals != self._removals:
            self._encoded, self._removals = GrowingHistory(), history.removals
        encode = self._parts.model.encode
        self._encoded.extend(encode(item) for item in history.items[len(self._encoded) :])
        return ModelRequest(
            request_id=order.request_id,
            session=self._who.session,
            pod_name=self._who.name,
            number=order.number,
            system_prompt=history.system_prompt,
            tools=history.tools,
            history=self._encoded,
            epoch=self._who.generation,
            run_request=order.run_request,
        )

    async def _run_calls(self, message: AssistantMessage, indexes: tuple[int, ...]) -> None:
        calls = message.calls
        unanswered = set(indexes)
        left = ToolOutcome("interrupted", INTERRUPTED)

        def done(index: int, outcome: ToolOutcome) -> None:
            if index in unanswered:
                unanswered.discard(index)
                self._call_finished(index, outcome)

        def context(index: int) -> ToolContext:
            return self._context(message, index)

        ordered = [(i, calls[i]) for i in indexes]

        try:
            await self._shared.gate.fresh()
            work = self._shared.run_calls(ordered, self._toolbox, context, done)
            await _cancel_within(asyncio.ensure_future(work), ABORT_LIMIT)
        except asyncio.CancelledError:
            pass  # ordered: what has not answered is answered below
        except Exception as error:  # a defect of ours becomes the calls' results (case L07)
            left = ToolOutcome("error", f"The tool runner failed: {type(error).__name__}: {error}")
        for index in sorted(unanswered):
            self._call_finished(index, left)

    def _call_finished(self, index: int, outcome: ToolOutcome) -> None:
        """Calls that end in one moment are told together, and so committed together."""
        if not self._finished:
            asyncio.get_running_loop().call_soon(self._tell_finished)
        self._finished.append((index, outcome))

    def _tell_finished(self) -> None:
        outcomes, self._finished = tuple(self._finished), []
        self.post(st.CallsFinished(outcomes))

    def _context(self, message: AssistantMessage, index: int) -> ToolContext:
        state, facts = self.machine.state, self.machine.state.facts
        block = f"{TOOL_BLOCK}{message.seq}.{index}"
        permit = facts.permits.permit_for(message.seq, index)
        return ToolContext(
            key=CallKey(self._who.session, message.seq, index),
            call_id=message.calls[index].call_id,
            run_id=state.fold.run_id or "",
            epoch=self._who.generation,
            pod_name=self._who.name,
            workspace=self._parts.workspace,
            scope=state.config.scope,
            seen=dict(facts.seen),
            output=lambda text: self.live.text(message.request_id, block, text),
            spill=self._parts.spill,
            forbidden=self._parts.forbidden,
            hidden=self._parts.hidden,
            heard=frozenset(facts.heard),
            read_positions=dict(facts.read_positions),
            concluded=frozenset(pod_id for pod_id, child in facts.children.items() if child.concluded),
            lent=facts.lent,
            permitted=None if permit is None else permit.subject,
            grants=frozenset(facts.permits.grants),
            tasks=facts.planning.now.tasks,
        )

    async def _look(self) -> None:
        try:
            while self._hinted and self.quit is None:
                self._hinted = False
                found = await self._store.pending(self.machine.state.cursor)
                if found is None:
                    return  # a hint may be lost: the sweep finds the message again
                if found and self.machine.phase is not Phase.NEW:
                    self.post(st.MessagesArrived(found))
        finally:
            self._looking = False

    async def _release(self) -> None:
        self.post(await self._store.release(self.machine.state.cursor))

    def _set_deadline(self, run_id: str, at_ms: int) -> None:
        self._clear_deadline()
        wait = max(0.0, (at_ms - self._shared.clock.now_ms()) / 1000)
        self._deadline = asyncio.get_running_loop().call_later(wait, self.post, st.DeadlinePassed(run_id))

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _alert(self, level: Level, code: str, message: str) -> None:
        self._alerts += 1
        alert_id = f"{self._who.session}:{self._who.generation}:{self._alerts}"
        now = self._shared.clock.now_ms()
        self._shared.directory.alert(Alert(alert_id, level, code, message, now, self._who.session))

    def _pod_view(self) -> PodView:
        state = self.machine.state
        return pod_view(state.config, self._who.session, self._who.generation, state.fold.run_id)

    def _halt(self, run_id: str, problem: Problem) -> None:
        self.post(st.RunHalted(run_id, problem))

    def _tell_end(self, entries: tuple[LogEntry, ...]) -> None:
        """Hooks hear of an end beside all else; only the Pod's own end waits for them, within their limit."""
        view = self._hooks.end_among(entries, self.machine.state.facts.run_text)
        if view is not None:
            self._telling = self._spawn(self._hooks.after_run(view))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """An effect that failed will never be answered: the machine must not be left waiting for it (case L07)."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._queue.put_nowait(error)

    async def _close(self) -> None:
        """End tools first, then all else; leaves nothing running."""
        self._clear_deadline()
        for task in (self._calls, self._request):
            if task is not None:
                task.cancel()
        await self._parts.toolbox.close()
        if self._telling is not None:
            await asyncio.wait([self._telling], timeout=ABORT_LIMIT)
        waiting = [t for t in self._tasks if t is not asyncio.current_task()]
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting, timeout=ABORT_LIMIT)
        if not self.settled.done():
            self.settled.set_result(None)


def _cut_off(task: asyncio.Task[None] | None) -> None:
    """Cancel it once it has begun: a task that never began could not answer."""
    if task is not None:
        asyncio.get_running_loop().call_soon(task.cancel)


async def _cancel_within(work: asyncio.Future[None], limit: float) -> None:
    """Await `work`; when cancelled, cancel it and give it `limit` seconds to end."""
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        work.cancel()
        await asyncio.wait([work], timeout=limit)
        raise
