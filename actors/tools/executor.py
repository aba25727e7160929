"""Runs the calls of one reply: side by side, those on the same resource in call order, each answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from actors.protocol.tools import FileSeen, Toolbox, ToolContext, ToolOutcome
from session_store.entries import CallRef

AT_ONCE = 8
LAST = frozenset({"WaitForPods"})
"""Tools that are looked at after all other calls of their reply."""
INTERRUPTED = ToolOutcome(
    "interrupted",
    "interrupted: the call was cut off",
    "The call was interrupted before it was done. What it had done by then stays done; what, is not known.",
)
NOT_RUN = ToolOutcome("not_run", "not run: the run was cut off before it", "The call was not run.")

ContextFor = Callable[[CallRef], ToolContext]
OnDone = Callable[[CallRef, ToolOutcome], None]


async def run_calls(
    calls: Sequence[CallRef], toolbox: Toolbox, context_for: ContextFor, on_done: OnDone, *, at_once: int = AT_ONCE
) -> None:
    """Run the calls (in call order; those denied or put off are not among them) and report each as it is done.

    `context_for` gives each call's context as of the start of the reply; what earlier calls of it read and wrote is
    added to `seen` here. When cancelled, every call that is not done is ended (its processes first), then reported as
    `interrupted`, or `not_run` if it had not started; then the cancel goes on. `on_done` is called once per call, on
    the loop, and must not raise.
    """
    await _Reply(toolbox, context_for, on_done, asyncio.Semaphore(at_once)).run(calls)


class _Reply:
    def __init__(self, toolbox: Toolbox, context_for: ContextFor, on_done: OnDone, slots: asyncio.Semaphore) -> None:
        self._toolbox = toolbox
        self._context_for = context_for
        self._on_done = on_done
        self._slots = slots
        self._seen: dict[str, FileSeen] = {}
        self._started: set[int] = set()
        self._answered: set[int] = set()

    async def run(self, calls: Sequence[CallRef]) -> None:
        first = [ref for ref in calls if ref.call.name not in LAST]
        last = [ref for ref in calls if ref.call.name in LAST]
        try:
            await self._side_by_side(first)
            await self._side_by_side(last)
        finally:
            # Also when cancelled: the history shall say of each call what became of it.
            for ref in calls:
                self._report(ref, INTERRUPTED if ref.index in self._started else NOT_RUN)

    async def _side_by_side(self, calls: Sequence[CallRef]) -> None:
        before: dict[str, asyncio.Task[None]] = {}
        tasks: list[asyncio.Task[None]] = []
        try:
            for ref in calls:
                context = self._context_for(ref)
                resource = self._toolbox.resource(ref.call, context)
                task = asyncio.ensure_future(self._one(ref, context, before.get(resource) if resource else None))
                tasks.append(task)
                if resource:
                    before[resource] = task
            if tasks:
                await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _one(self, ref: CallRef, context: ToolContext, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await asyncio.wait({after})
        async with self._slots:
            self._started.add(ref.index)
            outcome = await self._toolbox.run(ref.call, self._knowing(context))
            self._note(outcome.data)
            self._report(ref, outcome)

    def _knowing(self, context: ToolContext) -> ToolContext:
        return replace(context, seen={**context.seen, **self._seen}) if self._seen else context

    def _note(self, data: Mapping[str, object] | None) -> None:
        match (data or {}).get("file"):
            case {"path": str(path), "digest": str(digest)}:
                self._seen[path] = FileSeen(path, digest)
            case _:
                pass

    def _report(self, ref: CallRef, outcome: ToolOutcome) -> None:
        if ref.index not in self._answered:
            self._answered.add(ref.index)
            self._on_done(ref, outcome)
