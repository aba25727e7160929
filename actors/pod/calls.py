"""The calls of one reply while they run: stages, what runs, what has finished and is not committed yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from actors.protocol.tools import ASKING_TOOLS, PermissionAsk, ToolOutcome
from session_store.items import AssistantMessage, ToolResult

LAST_TOOLS = frozenset({"WaitForPods"})
"""Looked at after the other calls of their reply (DESIGN §5)."""
NOT_RUN = "The call was not run."
UNASKED = ToolOutcome("not_run", "not run: the run ended before it was asked", f"{NOT_RUN} The run ended before it.")


@dataclass(slots=True)
class CallBoard:
    """`indexes` are the calls to answer, as positions in `message.calls`; one in `alone` goes first, by itself."""

    message: AssistantMessage
    indexes: tuple[int, ...]
    alone: tuple[int, ...] = ()
    running: set[int] = field(default_factory=set)
    finished: dict[int, ToolOutcome] = field(default_factory=dict)
    asked: dict[int, PermissionAsk] = field(default_factory=dict)
    """Calls that wait for a person's permission: they were not run."""
    _stages: list[tuple[int, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        calls = self.message.calls
        last = tuple(i for i in self.indexes if calls[i].name in LAST_TOOLS and i not in self.alone)
        stages: list[tuple[int, ...]] = [self.alone, ()]
        for index in self.indexes:
            if index in last or index in self.alone:
                continue
            if calls[index].name in ASKING_TOOLS:  # calls before it have ended by then, those behind have not begun
                stages += [(index,), ()]
            else:
                stages[-1] += (index,)
        self._stages = [stage for stage in (*stages, last) if stage]

    def more_stages(self) -> bool:
        return bool(self._stages)

    def next_stage(self) -> tuple[int, ...]:
        """Start the next stage: its indexes."""
        stage = self._stages.pop(0)
        self.running.update(stage)
        return stage

    def finish(self, index: int, outcome: ToolOutcome) -> None:
        """A call ended. A second answer for the same call is ignored: each is answered once."""
        if index not in self.running:
            return
        self.running.discard(index)
        if outcome.asks is not None:
            self.asked[index] = outcome.asks
        else:
            self.finished[index] = outcome

    @property
    def news(self) -> bool:
        """Whether something is to be committed: what has finished, or what is to be asked now that all else has."""
        return bool(self.finished) or (bool(self.asked) and not self.running)

    def put_back(self, results: Iterable[ToolResult]) -> None:
        """Results whose commit failed: the calls have finished all the same and are never run again."""
        for r in results:
            if r.call_seq == self.message.seq:
                self.finished[r.index] = ToolOutcome(r.status, r.summary, r.content, r.data)

    def take_results(self) -> list[ToolResult]:
        """The finished calls as results, in call order; they are not finished-and-waiting any more."""
        results = [answered_result(self.message, i, self.finished[i]) for i in sorted(self.finished)]
        self.finished.clear()
        return results

    def last_results(self) -> list[ToolResult]:
        """What has finished, for a run that ends now: nothing is asked any more."""
        for index, outcome in self.finished.items():
            if self.message.calls[index].name in ASKING_TOOLS and outcome.status == "ok":
                self.finished[index] = UNASKED
        self.finished.update(dict.fromkeys(self.asked, UNASKED))
        self.asked.clear()
        return self.take_results()


def behind_question(message: AssistantMessage, open_calls: tuple[int, ...]) -> frozenset[int]:
    """The open calls that stand behind an open clarify: none of them has begun."""
    first = next((i for i in open_calls if message.calls[i].name in ASKING_TOOLS), None)
    return frozenset() if first is None else frozenset(i for i in open_calls if i > first)


def answered_result(message: AssistantMessage, index: int, outcome: ToolOutcome) -> ToolResult:
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
