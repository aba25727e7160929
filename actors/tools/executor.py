"""Runs the calls of one reply: side by side, those on the same resource in call order, each answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from actors.protocol.tasks import TaskList, read_change
from actors.protocol.tools import FileSeen, Toolbox, ToolContext, ToolOutcome
from session_store.items import ToolCall

AT_ONCE = 8
LAST = frozenset({"WaitForPods"})
"""Tools that are looked at after all other calls of their reply."""
INTERRUPTED = ToolOutcome(
    "interrupted",
    "interrupted: the call was cut off",
    "The call was interrupted before it was done. What it had done by then stays done; what, is not known.",
)
NOT_RUN = ToolOutcome("not_run", "not run: the run was cut off before it", "The call was not run.")

Calls = Sequence[tuple[int, ToolCall]]
ContextFor = Callable[[int], ToolContext]
OnDone = Callable[[int, ToolOutcome], None]


async def run_calls(
    calls: Calls, toolbox: Toolbox, context_for: ContextFor, on_done: OnDone, *, at_once: int = AT_ONCE
) -> None:
    """Run calls of one reply, each with its index in it, in call order, and report each as it is done.

    Those that are denied or put off are simply not among them. `context_for` gives the context of a call as it starts;
    what earlier calls of the reply read and wrote, or did to the task list, is added to it here, since it may not be
    committed yet. When cancelled, every call that is not done is ended (its processes first) and reported,
    `interrupted` or (not yet started) `not_run`; then the cancel goes on.
    `on_done` is called once per call, on the loop, and must not raise.
    """
    await _Reply(toolbox, context_for, on_done, asyncio.Semaphore(at_once)).run(calls)


class _Reply:
    def __init__(self, toolbox: Toolbox, context_for: ContextFor, on_done: OnDone, slots: asyncio.Semaphore) -> None:
        self._toolbox = toolbox
        self._context_for = context_for
        self._on_done = on_done
        self._slots = slots
        self._seen: dict[str, FileSeen] = {}
        self._tasks: TaskList | None = None
        self._started: set[int] = set()
        self._answered: set[int] = set()

    async def run(self, calls: Calls) -> None:
        try:
            await self._side_by_side([(i, call) for i, call in calls if call.name not in LAST])
            await self._side_by_side([(i, call) for i, call in calls if call.name in LAST])
        finally:
            # Also when cancelled: the history shall say of each call what became of it.
            for index, _ in calls:
                self._report(index, INTERRUPTED if index in self._started else NOT_RUN)

    async def _side_by_side(self, calls: Calls) -> None:
        if len(calls) == 1:  # most replies: nothing to put in order, and no task needed for it
            await self._one(*calls[0], None)
            return
        before: dict[str, asyncio.Task[None]] = {}
        tasks: list[asyncio.Task[None]] = []
        try:
            for index, call in calls:
                resource = self._toolbox.resource(call, self._context_for(index))
                task = asyncio.ensure_future(self._one(index, call, before.get(resource) if resource else None))
                tasks.append(task)
                if resource:
                    before[resource] = task
            if tasks:
                await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            for end in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(end, Exception):
                    raise end

    async def _one(self, index: int, call: ToolCall, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await asyncio.wait({after})
        async with self._slots:
            self._started.add(index)
            context = self._knowing(self._context_for(index))
            outcome = await self._toolbox.run(call, context)
            self._note(outcome.data, context)
            self._report(index, outcome)

    def _knowing(self, context: ToolContext) -> ToolContext:
        if self._seen:
            context = replace(context, seen={**context.seen, **self._seen})
        return context if self._tasks is None else replace(context, tasks=self._tasks)

    def _note(self, data: Mapping[str, object] | None, context: ToolContext) -> None:
        match (data or {}).get("file"):
            case {"path": str(path), "digest": str(digest)}:
                self._seen[path] = FileSeen(path, digest)
            case _:
                pass
        # Nothing but these calls, one after another, changes the list while a reply's calls run.
        change = read_change((data or {}).get("tasks"))
        if change is not None:
            self._tasks = context.tasks.after(change)

    def _report(self, index: int, outcome: ToolOutcome) -> None:
        if index not in self._answered:
            self._answered.add(index)
            self._on_done(index, outcome)
