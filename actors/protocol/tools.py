"""The tool port: what a tool is told, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from actors.protocol.tasks import TASK_TOOLS, TODO_TOOLS, TaskList
from session_store.entries import ToolSpec
from session_store.items import Json, ResultStatus, ToolCall
from session_store.requests import Scope

FILE_TOOLS = ("Read", "Write", "Edit", "Glob", "Grep", "Shell")
CHILD_TOOLS = ("SpawnPod", "SendToPod", "ReadPodOutput", "WaitForPods", "StopPod", "ListPods")
ASKING_TOOLS = ("clarify",)
"""End the run when they succeed."""
PLANNING_TOOLS = (*TASK_TOOLS, *TODO_TOOLS)
ALL_TOOLS = (*FILE_TOOLS, *CHILD_TOOLS, *ASKING_TOOLS, *PLANNING_TOOLS)
"""Every tool that a profile may name."""


@dataclass(frozen=True, slots=True)
class CallKey:
    """Identity of a tool call: session, seq of the assistant entry, index of the call. Effects are keyed by it."""

    session: str
    call_seq: int
    index: int

    def __str__(self) -> str:
        return f"{self.session}:{self.call_seq}:{self.index}"


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A file as this session last read or wrote it: `digest` is the SHA-256 hex digest of its bytes."""

    path: str
    digest: str


@dataclass(frozen=True, slots=True)
class ToolContext:
    """All a tool may know. `workspace` is absolute and resolved; relative paths in arguments are relative to it.

    `scope` None means the whole workspace, read and write. `seen` maps resolved paths to what was last read of them.
    `output` takes live text (Shell). `spill` is the folder for outputs too large to keep (made on demand).
    `forbidden` are resolved folders that no general tool may write (memory, staging); `hidden` are those that none may
    read either (the home with the store and its secret). `heard` holds the ids of the Pods whose conclusion an earlier
    WaitForPods result of this log listed or an earlier wait ended on; `read_positions` maps a Pod's id to the seq up to
    which the last successful ReadPodOutput of this log read it. `concluded` holds the children whose conclusion stands
    in this log: what they do since is for somebody else, and this Pod would not be told of its end. `lent` are resolved
    folders that children have to write in until their conclusion stands in this log. `tasks` is the task list of this
    log, with what earlier calls of the same reply did to it. `permitted` is the subject that a person allowed this very
    call with, `grants` are those allowed for the session (`PermissionAsk.subject`). `judged` is the real path that the
    rules were matched with: the call may touch no other.
    """

    key: CallKey
    call_id: str
    run_id: str
    epoch: int
    pod_name: str
    workspace: Path
    scope: Scope | None
    seen: Mapping[str, FileSeen]
    output: Callable[[str], None]
    spill: Path
    forbidden: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    heard: frozenset[str] = frozenset()
    read_positions: Mapping[str, int] = field(default_factory=dict)
    concluded: frozenset[str] = frozenset()
    lent: tuple[str, ...] = ()
    tasks: TaskList = field(default_factory=TaskList)
    permitted: str | None = None
    grants: frozenset[str] = frozenset()
    judged: str | None = None


@dataclass(frozen=True, slots=True)
class PermissionAsk:
    """What a person is asked before a call may run. `subject`: tool and resolved argument, what a grant covers."""

    question: str
    subject: str


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call came to. `summary` is one line, always kept; `content` is what the model reads (None: the summary).

    `data` is for machines: `{"file": {"path", "digest"}}` for a file read or written, `{"pod_id", "name",
    "detached"}` for a spawn (and `write`: folders that moved to the child), `{"pod_id", "after"}` for a message to
    a Pod (the head of its log when it was sent), `{"concluded": [pod ids]}` for a stop, `{"awaiting": [pod ids],
    "mode"}` when the run shall wait, `{"listed": [pod ids]}` when WaitForPods told conclusions, `{"read":
    {"pod_id", "to"}}` for a ReadPodOutput, `{"tasks": {"put", "next", …}}` for a change of the task list
    (`actors.protocol.tasks.TaskChange`), `{"exit_code"}` for a Shell, `{"question": {"question", "choices"}}` when the
    run shall ask. With `asks` the call was not run and this is no result yet: a person decides first.
    """

    status: ResultStatus
    summary: str
    content: str | None = None
    data: dict[str, Json] | None = None
    asks: PermissionAsk | None = None


class Tool(Protocol):
    """One tool. `parse` checks arguments (raises `ToolArgumentError`), `run` does the work."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def idempotent(self) -> bool:
        """Whether a call cut off by a crash may be run again (its effect is keyed, or it only reads)."""

    def parse(self, arguments: dict[str, Json]) -> Any: ...

    def resource(self, arguments: Any, context: ToolContext) -> str | None:
        """What two calls of one reply must not touch at once (a resolved path); None when free."""

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Do the work. Cancellable; an exception becomes an error result of the call."""


class ToolArgumentError(Exception):
    """Arguments that do not fit, in words for the model."""


class ToolGuard(Protocol):
    """The tool processes of one Pod. The first two may be called from any thread, never block and never fail."""

    def feed_all(self) -> None:
        """The heartbeat is fresh: every live tool process may go on for another lease."""

    def kill_all(self) -> None:
        """End every tool process at once (also those being started)."""

    @property
    def live(self) -> int:
        """How many tool processes are running or not yet proven dead."""

    async def close(self) -> None:
        """End them all, wait (bounded) until they are gone, and refuse new ones."""


class Toolbox(Protocol):
    """The tools of one Pod."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...

    def idempotent(self, name: str) -> bool:
        """False for an unknown tool."""

    def resource(self, call: ToolCall, context: ToolContext) -> str | None:
        """As `Tool.resource`; None for a call that will be answered without running."""

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutcome:
        """Answer one call, whatever it is: unknown tools, bad arguments and exceptions give an error outcome."""

    async def close(self) -> None:
        """End every process the tools started."""


@dataclass(frozen=True, slots=True)
class ChildView:
    """A child as its parent's tools see it. `concluded` as DESIGN §1; `open` holds a place."""

    pod_id: str
    name: str
    status: str
    concluded: bool
    outcome: str | None = None
    text: str | None = None
    error: str | None = None
    question: dict[str, Json] | None = None
    head: int = 0
    """Head of its log when looked at: events up to it are from before."""


@dataclass(frozen=True, slots=True)
class SpawnOrder:
    """What SpawnPod asks for, with the machine's own marks: `key` makes the effect one, however often it is asked."""

    key: CallKey
    run_id: str
    epoch: int
    task: str
    name: str | None = None
    profile: str | None = None
    scope: Scope | None = None
    limits: dict[str, float] = field(default_factory=dict)
    detached: bool = False


class ChildrenError(Exception):
    """A child tool's refusal, in words for the model (unknown Pod, limit, name taken, scope, ended, …)."""


class Children(Protocol):
    """The port to the Directory for the child tools. Each effect is keyed by the call. Raises `ChildrenError`."""

    async def spawn(self, order: SpawnOrder) -> ChildView:
        """Returns once the child has committed its task."""

    async def send(self, key: CallKey, pod: str, message: str) -> ChildView:
        """A prompt to a descendant (by id, or by name among the own children)."""

    async def read_output(self, key: CallKey, pod: str, after: int | None) -> tuple[str, int]:
        """Text a descendant wrote after seq `after`, and the seq it reaches to."""

    async def stop(self, key: CallKey, pod: str) -> ChildView:
        """Stop a descendant and what is below it; bounded; returns its final state."""

    async def resolve(self, pod: str) -> str:
        """The id of a descendant (by id, or by name among the own children)."""

    async def list(self, session: str) -> tuple[ChildView, ...]:
        """The children, oldest first."""
