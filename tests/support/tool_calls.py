"""A workspace with a toolbox over it, for tests of tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from actors.protocol.tools import (
    ASKING_TOOLS,
    CHILD_TOOLS,
    FILE_TOOLS,
    CallKey,
    Children,
    FileSeen,
    Toolbox,
    ToolContext,
    ToolOutcome,
)
from actors.tools.guard import GuardPool
from actors.tools.limits import ToolLimits
from actors.tools.registry import ToolSetup, build_toolbox
from session_store.items import ToolCall
from session_store.requests import Scope

SESSION = "01900000-0000-7000-8000-000000000001"


@dataclass
class Bench:
    """Runs calls one after another as a session would: what is read or written counts as seen afterwards."""

    folder: Path
    children: Children | None = None
    limits: ToolLimits = field(default_factory=ToolLimits)
    lease: float = 4.0
    environment: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        self.workspace = self.folder / "ws"
        self.workspace.mkdir()
        self.live: list[str] = []
        self.guard = GuardPool(self.lease, self.environment)
        names = (*FILE_TOOLS, *(CHILD_TOOLS if self.children else ()), *ASKING_TOOLS)
        self.toolbox: Toolbox = build_toolbox(names, self.children, self.guard, ToolSetup(limits=self.limits))
        self.context = ToolContext(
            key=CallKey(SESSION, 7, 0),
            call_id="call_1",
            run_id="run",
            epoch=1,
            pod_name="root",
            workspace=self.workspace,
            scope=None,
            seen={},
            output=self.live.append,
            spill=self.folder / "spill",
        )

    def scoped(self, read: tuple[str, ...] = (), write: tuple[str, ...] = ()) -> Bench:
        self.context = replace(self.context, scope=Scope(read, write))
        return self

    def write(self, path: str, data: str | bytes) -> Path:
        """A file made by somebody else."""
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        return file

    async def call(self, name: str, /, **arguments: Any) -> ToolOutcome:
        return await self.answer(ToolCall("call_1", name, arguments))

    async def answer(self, call: ToolCall) -> ToolOutcome:
        outcome = await self.toolbox.run(call, self.context)
        self.learn(outcome)
        return outcome

    def learn(self, outcome: ToolOutcome) -> None:
        file = (outcome.data or {}).get("file")
        if file:
            seen = {**self.context.seen, file["path"]: FileSeen(file["path"], file["digest"])}
            self.context = replace(self.context, seen=seen)
        index = self.context.key.index + 1
        self.context = replace(self.context, key=replace(self.context.key, index=index))


def told(outcome: ToolOutcome) -> str:
    """What the model reads."""
    return outcome.content if outcome.content is not None else outcome.summary
