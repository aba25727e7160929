"""Hooks around one Pod's work: what they see, what their verdicts come to, and what becomes of one that fails.

A hook runs in a thread of its own within a time limit. One that raises, answers nonsense or is too slow is told by an
alert; nothing waits for it longer. `HookSet.closed` says what that means for a call that it was to judge.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from actors.protocol.alerts import Level
from actors.protocol.config import PodConfig
from actors.protocol.hooks import CallView, Deny, PodView, RequestView, ResultView, RunEndView, Stop, frozen
from actors.protocol.tools import Toolbox, ToolContext, ToolOutcome
from session_store.codec import to_plain
from session_store.entries import AssistantItems, LogEntry, RunEnd, ToolSpec
from session_store.items import Problem, ToolCall
from session_store.restore import History

ALERTS_KEPT = 64
"""Different failures of hooks that one Pod tells; the same one is told once."""


class HookFailed(Exception):
    """A hook gave no usable answer; the words follow its name."""


class HookRunner:
    """One hook of this process, called one at a time. `limit` in seconds."""

    def __init__(self, name: str, hook: Any, limit: float) -> None:
        self.name = name
        self._hook = hook
        self._limit = limit
        self._turn = asyncio.Lock()
        self._stuck: threading.Thread | None = None

    def has(self, method: str) -> bool:
        return callable(getattr(self._hook, method, None))

    async def call(self, method: str, view: Any) -> Any:
        """What the hook answers. Raises `HookFailed`; a call that is over the limit is left behind in its thread, and
        until that ends the hook is not called again."""
        async with self._turn:
            if self._stuck is not None and self._stuck.is_alive():
                raise HookFailed("is still busy with an earlier call")
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[Any] = loop.create_future()
            function = getattr(self._hook, method)
            thread = threading.Thread(
                target=_carry_out, args=(function, view, loop, answer), daemon=True, name=f"hook-{self.name}"
            )
            thread.start()
            self._stuck = thread
            try:
                async with asyncio.timeout(self._limit):
                    told = await answer
            except TimeoutError:
                raise HookFailed(f"gave no answer to {method} within {self._limit:g} s") from None
            self._stuck = None
        if isinstance(told, BaseException):
            raise HookFailed(f"failed in {method}: {type(told).__name__}: {told}")
        return told


@dataclass(frozen=True, slots=True)
class HookSet:
    """The hooks of a process, in the order in which they are asked. `closed`: a call that a failing hook was to judge
    is denied; otherwise it runs."""

    runners: tuple[HookRunner, ...] = ()
    closed: bool = True


@dataclass(slots=True)
class PodHooks:
    """The hooks as one Pod has them. `alert` tells people, `halt` ends the run of that id with a problem."""

    hooks: HookSet
    pod: Callable[[], PodView]
    alert: Callable[[Level, str, str], None]
    halt: Callable[[str, Problem], None]
    fresh: Callable[[], Awaitable[None]]
    """Waits until work may start (law 3): asking hooks takes time."""
    _told: set[str] = field(default_factory=set)
    _shown: int = 0
    _removals: int = 0

    async def before_request(self, request: tuple[str, int, int], history: History) -> bool:
        """Whether the request (id, number, number in the run) may go."""
        if not self._wanted("before_request"):
            return True
        if history.removals != self._removals:
            self._shown, self._removals = 0, history.removals
        new = tuple(frozen(to_plain(item)) for item in history.items[self._shown :])
        self._shown = len(history.items)
        view = RequestView(self.pod(), *request, self._shown, new)
        return await self._ask("before_request", view, (Stop,)) is None

    async def before_call(self, view: CallView) -> str | None:
        """Why the call is not to run; None when it may."""
        for runner in self._with("before_call"):
            try:
                verdict = self._checked(await runner.call("before_call", view), (Deny, Stop))
            except HookFailed as error:
                self._tell(runner, error)
                if self.hooks.closed:
                    return f"Denied, because the hook `{runner.name}` {error}."
                continue
            match verdict:
                case Deny(reason):
                    return f"Denied by the hook `{runner.name}`: {reason}"
                case Stop(reason):
                    self._stop(view.pod, runner, reason)
                    return f"Not run: the hook `{runner.name}` stopped the run: {reason}"
                case _:
                    continue
        return None

    async def after_call(self, view: ResultView) -> None:
        await self._ask("after_call", view, (Stop,))

    def end_among(self, entries: Iterable[LogEntry], text: str) -> RunEndView | None:
        """The run's end among committed entries, if a hook wants to hear of it. `text`: of the reply before them."""
        if not self._wanted("after_run"):
            return None
        for entry in entries:
            match entry:
                case AssistantItems(items=items):
                    text = "".join(i.text for i in items if i.type == "text")
                case RunEnd(run_id=run_id, outcome=outcome, error=error):
                    problem = (None, None) if error is None else (error.type, error.message)
                    return RunEndView(replace(self.pod(), run_id=run_id), outcome, text, *problem)
                case _:
                    pass
        return None

    async def after_run(self, view: RunEndView) -> None:
        await self._ask("after_run", view, ())

    def around(self, toolbox: Toolbox) -> Toolbox:
        """The toolbox with the hooks around each call; itself when no hook looks at calls."""
        return HookedToolbox(toolbox, self) if self._wanted("before_call") or self._wanted("after_call") else toolbox

    async def _ask(self, method: str, view: Any, allowed: tuple[type, ...]) -> Stop | None:
        """Ask all; the first that stops the run is heard. One that fails is told and stops nothing."""
        for runner in self._with(method):
            try:
                verdict = self._checked(await runner.call(method, view), allowed)
            except HookFailed as error:
                self._tell(runner, error)
                continue
            if isinstance(verdict, Stop):
                self._stop(view.call.pod if isinstance(view, ResultView) else view.pod, runner, verdict.reason)
                return verdict
        return None

    def _wanted(self, method: str) -> bool:
        return any(True for _ in self._with(method))

    def _with(self, method: str) -> Iterable[HookRunner]:
        return (runner for runner in self.hooks.runners if runner.has(method))

    def _stop(self, pod: PodView, runner: HookRunner, reason: str) -> None:
        self.halt(pod.run_id, Problem("hook", f"The hook `{runner.name}` stopped the run: {reason}"))

    def _tell(self, runner: HookRunner, error: HookFailed) -> None:
        words = f"The hook `{runner.name}` {error}."
        if words not in self._told and len(self._told) < ALERTS_KEPT:
            self._told.add(words)
            self.alert("error", "hook", words)

    @staticmethod
    def _checked(verdict: Any, allowed: tuple[type, ...]) -> Any:
        if verdict is None or isinstance(verdict, allowed):
            return verdict
        names = " or ".join(["None", *(kind.__name__ for kind in allowed)])
        raise HookFailed(f"answered {type(verdict).__name__} where only {names} means something")


class HookedToolbox:
    """A `Toolbox` whose calls hooks see before they run and when they have their result. A call that is answered
    without being run (its arguments were no JSON object) is none of theirs."""

    def __init__(self, toolbox: Toolbox, hooks: PodHooks) -> None:
        self._toolbox = toolbox
        self._hooks = hooks

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._toolbox.specs

    def idempotent(self, name: str) -> bool:
        return self._toolbox.idempotent(name)

    def resource(self, call: ToolCall, context: ToolContext) -> str | None:
        return self._toolbox.resource(call, context)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutcome:
        if call.problem is not None:
            return await self._toolbox.run(call, context)
        key = context.key
        view = CallView(self._hooks.pod(), key.call_seq, key.index, call.name, frozen(call.arguments or {}))
        denied = await self._hooks.before_call(view)
        if denied is not None:
            outcome = ToolOutcome("denied", denied)
        else:
            await self._hooks.fresh()
            outcome = await self._toolbox.run(call, context)
        if outcome.asks is None:
            await self._hooks.after_call(ResultView(view, outcome.status, outcome.summary, outcome.content))
        return outcome

    async def close(self) -> None:
        await self._toolbox.close()


def pod_view(config: PodConfig, session: str, generation: int, run_id: str | None) -> PodView:
    return PodView(
        session=session,
        name=config.name,
        parent_id=config.parent_id,
        generation=generation,
        run_id=run_id or "",
        profile=config.profile,
        model=config.model.name,
        workspace=config.workspace,
    )


def _carry_out(
    function: Callable[[Any], Any], view: Any, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Any]
) -> None:
    """In the hook's thread."""
    try:
        told = function(view)
    except BaseException as error:
        told = error

    def give() -> None:
        if not answer.done():
            answer.set_result(told)

    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(give)
