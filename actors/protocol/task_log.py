"""What a log says of its session's tasks: one pure fold, the same for a Pod, a restore and whoever only reads.

Only committed successful results of the writing tools change the list, and an entry with a `task_snapshot` restores it;
text never does. A `rewound` takes the list, and the counts of the reminder, back to what they were.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from actors.protocol.system_items.reminder import REMINDER
from actors.protocol.system_items.task_snapshot import TASK_SNAPSHOT, TaskSnapshot
from actors.protocol.tasks import WRITING_TOOLS, Face, TaskChange, TaskList, read_change, task_plain
from session_store.entries import AssistantItems, LogEntry, Rewound, SystemItems, ToolResults
from session_store.items import SystemItem, ToolResult


@dataclass(frozen=True, slots=True)
class Standing:
    """The list, and how many requests with committed items came since what the reminder counts from.

    `since_reminder` None: there was none. A session that never had a task counts nothing.
    """

    tasks: TaskList = field(default_factory=TaskList)
    since_change: int = 0
    since_reminder: int | None = None
    last_request: str = ""

    @property
    def _untouched(self) -> bool:
        return self.tasks.next_id == 1 and self.since_reminder is None


def advance(standing: Standing, entry: LogEntry) -> Standing:
    """What stands after one more entry (of any seq; a `rewound` is `TaskFold`'s). The same value when nothing moved."""
    match entry:
        case AssistantItems(request_id=request_id):
            if standing._untouched or request_id == standing.last_request:
                return standing
            since = standing.since_reminder
            return Standing(standing.tasks, standing.since_change + 1, None if since is None else since + 1, request_id)
        case ToolResults(results=results):
            changes = [c for c in map(change_in, results) if c is not None]
            tasks = standing.tasks
            for change in changes:
                tasks = tasks.after(change)
            return replace(standing, tasks=tasks, since_change=0) if changes else standing
        case SystemItems(items=items):
            for item in items:
                standing = _with_item(standing, item)
            return standing
        case _:
            return standing


def change_in(result: ToolResult) -> TaskChange | None:
    """What a result changes: nothing unless it is a successful one of a writing tool."""
    if result.status != "ok" or result.name not in WRITING_TOOLS:
        return None
    return read_change((result.data or {}).get("tasks"))


@dataclass(slots=True)
class TaskFold:
    """The fold over a whole log, with what is needed to follow a `rewound`: one small value per counted request."""

    now: Standing = field(default_factory=Standing)
    _past: list[tuple[int, Standing]] = field(default_factory=list)

    def apply(self, entry: LogEntry) -> None:
        """Take one entry, in order of seq."""
        if isinstance(entry, Rewound):
            while self._past and self._past[-1][0] >= entry.to:
                self._past.pop()
            self.now = self._past[-1][1] if self._past else Standing()
            return
        after = advance(self.now, entry)
        if after is not self.now:
            self.now = after
            self._past.append((entry.seq, after))


def tasks_of(entries: Iterable[LogEntry]) -> TaskList:
    """The list at the end of a log."""
    fold = TaskFold()
    for entry in entries:
        fold.apply(entry)
    return fold.now.tasks


def snapshot_item(tasks: TaskList, face: Face, item_id: str) -> SystemItem:
    """The list as a typed SystemItem, for the start of a segment: `payload` is lossless, `body` what the model reads.

    It counts as a `system_items` entry. In a `segment_start.history` it is history like any other: the list of a
    session goes on over its segments by itself, and what a fork inherits may be long out of date.
    """
    return TASK_SNAPSHOT.item(item_id, TaskSnapshot(tuple(map(task_plain, tasks.tasks)), tasks.next_id, face))


def _with_item(standing: Standing, item: SystemItem) -> Standing:
    if item.kind == REMINDER.name:
        return replace(standing, since_reminder=0)
    tasks = TaskList.read(item.payload) if item.kind == TASK_SNAPSHOT.name else None
    return standing if tasks is None else replace(standing, tasks=tasks)
