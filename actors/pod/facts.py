"""What a Pod derives from its own log beyond history and status: the run's account, its children, what was read.

One more pure fold over the same entries: a restart derives the same facts. A rewind divides them: what the model has
read follows the history (`HISTORY_FACTS`), what is so in the world stays (children, requests made, the parent's work).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from actors.pod.attempts import Attempts
from actors.pod.occupancy import Occupancy
from actors.pod.permits import Permits
from actors.protocol.compaction import NO_PROGRESS
from actors.protocol.task_log import TaskFold
from actors.protocol.tools import FileSeen
from session_store.entries import (
    AssistantItems,
    Invoke,
    LlmUsage,
    LogEntry,
    Outcome,
    QuestionClosed,
    Rewound,
    RunEnd,
    SegmentStart,
    SystemItems,
    ToolResults,
    UserInput,
)
from session_store.items import Json, Problem, SystemItem, ToolResult, ToolResultGroup
from session_store.restore import present
from session_store.status import CONTINUING, GIVEN_UP, concludes, event_seq

NOT_THE_MODELS = frozenset({GIVEN_UP, "store_unavailable", NO_PROGRESS})
"""Errors of a run that are not those of a request."""
HISTORY_FACTS = ("seen", "read_positions", "occupancy")
"""Fields of `PodFacts` that a rewind takes back to what the kept entries say."""


@dataclass(slots=True)
class ChildFact:
    """A child as the log tells. `parents_work`: spawned in a run that was this Pod's own parent's work."""

    name: str
    detached: bool
    parents_work: bool
    concluded: bool = False
    after: int = 0
    """Events up to this seq of the child are from before the last message it was sent."""
    write: tuple[str, ...] = ()
    """Folders that are the child's to write until it has concluded."""
    spawned: int = 0
    """Seq of the result that told of it."""


@dataclass(slots=True)
class PodFacts:
    """`parent_id` is this Pod's own parent, if it has one."""

    parent_id: str | None = None
    requests: int = 0
    """Requests of the session with committed items."""
    failed: int = 0
    """Runs that ended because a request failed for good, with nothing of it kept."""
    run_requests: int = 0
    run_tokens: int = 0
    run_started: int = 0
    """ts of the run's `invoke` (ms), later by the time that the run was paused."""
    run_inputs: list[UserInput] = field(default_factory=list)
    run_replied: bool = False
    """Whether an assistant item of the run is committed."""
    run_answers: bool = False
    parents_work: bool = False
    """Whether the current (or last) run is work the parent gave (DESIGN §4, *What reaches the parent*)."""
    work_open: bool = False
    """Whether the parent gave work that has not concluded: in a run, in a rest, or with children spawned for it.

    Once concluded, only a message of the parent or `resume` opens it anew: an event of a child that goes on after its
    work has failed is told on, but takes no place (DESIGN §4)."""
    run_text: str = ""
    """Text of the run's last reply."""
    children: dict[str, ChildFact] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    """Children whose conclusion a WaitForPods result listed or that ended a wait; and the seq of what told it."""
    read_positions: dict[str, int] = field(default_factory=dict)
    seen: dict[str, FileSeen] = field(default_factory=dict)
    """Files by path, the one touched last at the end."""
    planning: TaskFold = field(default_factory=TaskFold)
    """The task list, and how long nobody has looked after it."""
    permits: Permits = field(default_factory=Permits)
    occupancy: Occupancy = field(default_factory=Occupancy)
    attempts: Attempts = field(default_factory=Attempts)
    _last_request: str = ""
    _last_reply_seq: int = -2
    _awaited: frozenset[str] = frozenset()
    _paused_at: int | None = None
    _rests_unfinished: bool = False
    _run_children: list[str] = field(default_factory=list)

    def apply(self, entry: LogEntry) -> None:
        """Take one entry, in order of seq."""
        self.planning.apply(entry)
        self.permits.apply(entry)
        self.occupancy.apply(entry)
        self.attempts.apply(entry)
        if isinstance(entry, (*CONTINUING, QuestionClosed)) and self._paused_at is not None:
            self.run_started += entry.ts - self._paused_at
            self._paused_at = None
        match entry:
            case Invoke():
                self._start_run(entry)
            case UserInput():
                self.run_inputs.append(entry)
                self.run_answers |= entry.answers is not None
                if entry.sender == self.parent_id:
                    self.work_open = True
                    self._is_parents_work()
            case AssistantItems():
                self._count_reply(entry)
            case LlmUsage():
                self.run_tokens += entry.input + entry.output
            case ToolResults():
                for result in entry.results:
                    if result.status == "ok" and result.data:
                        self._take_data(result, result.data, entry.seq)
            case SystemItems():
                for item in entry.items:
                    self._take_item(item, entry.seq)
            case RunEnd():
                self._end_run(entry)
            case Rewound():
                self._awaited, self._paused_at, self._rests_unfinished = frozenset(), None, False
                self.heard = {pod_id: seq for pod_id, seq in self.heard.items() if seq < entry.to}
            case SegmentStart() if entry.origin is not None and entry.origin.session != entry.session:
                self._inherit(entry)
            case _:
                pass

    @property
    def next_number(self) -> int:
        """The next request's number in the session, from 1; a retried one keeps its number, a failed run's is spent."""
        return self.requests + self.failed + 1

    @property
    def open_children(self) -> int:
        """Undetached children spawned for the parent's work that have not concluded."""
        return sum(1 for c in self.children.values() if c.parents_work and not c.detached and not c.concluded)

    def concludes_with(self, outcome: Outcome, error: Problem | None) -> bool:
        """Whether a run's end so is the conclusion of all that the parent gave (DESIGN §1, *concluded*).

        While children work for the parent, only the parent's work itself can fail; the end of another run changes
        nothing. A cancel ends the children too, and whoever is given up takes nothing up by itself.
        """
        match outcome:
            case "waiting_on_children" | "waiting_on_user" | "paused":
                return False
            case "cancelled" | "withdrawn":
                return True
            case "finished":
                return self.open_children == 0 or not self.work_open
            case _:
                given_up = error is not None and error.type == GIVEN_UP
                return self.open_children == 0 or not self.work_open or self.parents_work or given_up

    @property
    def lent(self) -> tuple[str, ...]:
        """Folders that children have to write in now."""
        return tuple(path for c in self.children.values() if not c.concluded for path in c.write)

    def _start_run(self, entry: Invoke) -> None:
        self.run_requests = self.run_tokens = 0
        self.run_started, self.run_replied, self.run_answers = entry.ts, False, False
        self.run_inputs, self.run_text = [], ""
        self._paused_at, self._run_children = None, []
        # The end of a wait, an answer and `resume` go on with what was begun; whatever else comes in with them.
        continues = self.parents_work and (self._rests_unfinished or entry.trigger == "resume")
        given = any(served.sender == self.parent_id for served in entry.serves)
        self.parents_work = continues or given
        self.work_open |= given or (continues and entry.trigger == "resume")

    def _is_parents_work(self) -> None:
        """The run turns out to be the parent's work: so are the children that it has spawned already."""
        self.parents_work = True
        for pod_id in self._run_children:
            self.children[pod_id].parents_work = True

    def _end_run(self, entry: RunEnd) -> None:
        kept = entry.seq - self._last_reply_seq <= 2  # its items (and usage) stand right before the end
        if entry.outcome == "errored" and not kept and entry.error and entry.error.type not in NOT_THE_MODELS:
            self.failed += 1
        self.work_open &= not self.concludes_with(entry.outcome, entry.error)
        self._awaited = frozenset(entry.waits_for or ())
        asks = entry.outcome == "waiting_on_user" and self.permits.asked is not None
        self._paused_at = entry.ts if entry.outcome == "paused" or asks else None
        self._rests_unfinished = entry.outcome in ("waiting_on_children", "waiting_on_user")
        if entry.outcome in ("cancelled", "withdrawn"):  # the same commit cancels the children
            for child in self.children.values():
                child.concluded |= not child.detached

    def _count_reply(self, entry: AssistantItems) -> None:
        self.run_replied, self._last_reply_seq = True, entry.seq
        if entry.request_id != self._last_request:
            self._last_request = entry.request_id
            self.requests += 1
            self.run_requests += 1
            self.run_text = ""
        self.run_text += "".join(i.text for i in entry.items if i.type == "text")

    def _inherit(self, fork: SegmentStart) -> None:
        """What the model of a fork has read, it has read in its origin; children and their output are not inherited."""
        for group in fork.history:
            for result in group.results if isinstance(group, ToolResultGroup) else ():
                if result.status == "ok" and result.data:
                    self._see(result.data)

    def _see(self, data: dict[str, Json]) -> None:
        if "file" in data:
            seen = FileSeen(str(data["file"]["path"]), str(data["file"]["digest"]))
            self.seen.pop(seen.path, None)
            self.seen[seen.path] = seen

    def _take_data(self, result: ToolResult, data: dict[str, Json], seq: int) -> None:
        if result.name == "SpawnPod" and "pod_id" in data:
            self.children[data["pod_id"]] = ChildFact(
                str(data.get("name", "")),
                bool(data.get("detached")),
                self.parents_work,
                write=tuple(map(str, data.get("write") or ())),
                spawned=seq,
            )
            self._run_children.append(data["pod_id"])
        self._see(data)
        if "read" in data:
            self.read_positions[str(data["read"]["pod_id"])] = int(data["read"]["to"])
        for pod_id in data.get("listed") or ():
            self.heard[str(pod_id)] = seq
        for pod_id in data.get("concluded") or ():
            self._conclude(str(pod_id))
        if result.name == "SendToPod" and "pod_id" in data:
            self._reopen(str(data["pod_id"]), int(data.get("after") or 0))

    def _take_item(self, item: SystemItem, seq: int) -> None:
        event = item.payload.get("event") if item.kind == "pod_event" else None
        if not isinstance(event, dict) or event.get("stale"):
            return
        pod_id = str(event.get("pod_id"))
        child = self.children.get(pod_id)
        if child is not None and child.parents_work:
            self._is_parents_work()
        if concludes(event) and (child is None or event_seq(event) > child.after):
            self._conclude(pod_id)
            if pod_id in self._awaited:
                self.heard[pod_id] = seq

    def _conclude(self, pod_id: str) -> None:
        child = self.children.get(pod_id)
        if child is not None:
            child.concluded = True

    def _reopen(self, pod_id: str, after: int) -> None:
        child = self.children.get(pod_id)
        if child is not None:
            child.concluded, child.after = False, after
        self.heard.pop(pod_id, None)


def pod_facts(entries: Iterable[LogEntry], parent_id: str | None) -> PodFacts:
    """The facts of a whole log, rewinds and all."""
    log = list(entries)
    facts = PodFacts(parent_id)
    for entry in log:
        facts.apply(entry)
    if any(isinstance(entry, Rewound) for entry in log):
        kept = PodFacts(parent_id)
        for entry in present(log):
            kept.apply(entry)
        for name in HISTORY_FACTS:
            setattr(facts, name, getattr(kept, name))
    return facts
