"""The calls of one reply while they run: stages, what runs, what has finished and is not committed yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from actors.protocol.tools import ToolOutcome
from session_store.items import AssistantMessage, ToolResult

LAST_TOOLS = frozenset({"WaitForPods"})
"""Looked at after the other calls of their reply (DESIGN §5)."""


@dataclass(slots=True)
class CallBoard:
    """`indexes` are the calls to answer, as positions in `message.calls`."""

    message: AssistantMessage
    indexes: tuple[int, ...]
    running: set[int] = field(default_factory=set)
    finished: dict[int, ToolOutcome] = field(default_factory=dict)
    _stages: list[tuple[int, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        calls = self.message.calls
        last = tuple(i for i in self.indexes if calls[i].name in LAST_TOOLS)
        first = tuple(i for i in self.indexes if i not in last)
        self._stages = [stage for stage in (first, last) if stage]

    def more_stages(self) -> bool:
        return bool(self._stages)

    def next_stage(self) -> tuple[int, ...]:
        """Start the next stage: its indexes."""
        stage = self._stages.pop(0)
        self.running.update(stage)
        return stage

    def finish(self, index: int, outcome: ToolOutcome) -> None:
        """A call ended. A second answer for the same call is ignored: each is answered once."""
        if index in self.running:
            self.running.discard(index)
            self.finished[index] = outcome

    def put_back(self, results: Iterable[ToolResult]) -> None:
        """Results whose commit failed: the calls have finished all the same and are never run again."""
        for r in results:
            if r.call_seq == self.message.seq:
                self.finished[r.index] = ToolOutcome(r.status, r.summary, r.content, r.data)

    def take_results(self) -> list[ToolResult]:
        """The finished calls as results, in call order; they are not finished-and-waiting any more."""
        results = [result_of(self.message, i, self.finished[i]) for i in sorted(self.finished)]
        self.finished.clear()
        return results


def result_of(message: AssistantMessage, index: int, outcome: ToolOutcome) -> ToolResult:
    call = message.calls[index]
    return ToolResult(
        message.seq, index, call.call_id, call.name, outcome.status, outcome.summary, outcome.content, outcome.data
    )


@dataclass(frozen=True, slots=True)
class Wait:
    """The run shall rest until these Pods have concluded."""

    pods: tuple[str, ...]
    mode: Literal["all", "any"]


def wait_directive(results: Iterable[ToolResult]) -> Wait | None:
    """The wait that a successful WaitForPods among these results asks for, if any."""
    for result in results:
        awaiting = (result.data or {}).get("awaiting") if result.status == "ok" else None
        if result.name in LAST_TOOLS and awaiting:
            mode: Literal["all", "any"] = "any" if (result.data or {}).get("mode") == "any" else "all"
            return Wait(tuple(str(p) for p in awaiting), mode)
    return None
