"""The real task tools over a list, without a Pod around them, and a plain model to compare them with."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actors.protocol.tasks import TaskList, read_change
from actors.protocol.tools import PLANNING_TOOLS, CallKey, ToolContext, ToolOutcome
from actors.tools.guard import GuardPool
from actors.tools.limits import ToolLimits
from actors.tools.registry import ToolSetup, build_toolbox
from session_store.items import ToolCall
from tests.support.at_once import at_once

TOOLBOX = build_toolbox(PLANNING_TOOLS, None, GuardPool())


def answer(tasks: TaskList, call: ToolCall, index: int = 0) -> ToolOutcome:
    """What the tool answers over this list."""
    return at_once(TOOLBOX.run(call, context_over(tasks, index)))


def context_over(tasks: TaskList, index: int = 0) -> ToolContext:
    folder = Path("/nowhere")
    key = CallKey("01900000-0000-7000-8000-000000000001", 7, index)
    return ToolContext(key, "c", "run", 1, "root", folder, None, {}, lambda _: None, folder, tasks=tasks)


def toolbox_of(limit: int) -> Any:
    """With results of at most so many characters."""
    return build_toolbox(PLANNING_TOOLS, None, GuardPool(), ToolSetup(limits=ToolLimits(result=limit)))


@dataclass
class Session:
    """The list of a session whose calls are committed one by one."""

    tasks: TaskList = field(default_factory=TaskList)

    def call(self, name: str, /, **arguments: Any) -> ToolOutcome:
        outcome = answer(self.tasks, ToolCall("c", name, arguments))
        change = read_change((outcome.data or {}).get("tasks"))
        assert outcome.status == "ok" or change is None
        if change is not None:
            self.tasks = self.tasks.after(change)
        return outcome

    def told(self, name: str, /, **arguments: Any) -> Any:
        """The JSON of a successful call."""
        outcome = self.call(name, **arguments)
        assert outcome.status == "ok", outcome
        return json.loads(outcome.content or "")

    def refused(self, name: str, /, **arguments: Any) -> str:
        """The text of a call that fails, and leaves the list as it was."""
        before = self.tasks
        outcome = self.call(name, **arguments)
        assert outcome.status == "error", outcome
        assert self.tasks is before
        return outcome.content or ""
