"""The task list of a session: one ordered list that two faces speak of, each in its own words. Pure values.

The stored statuses are the union of both faces' ones. A change is told in `ToolResult.data["tasks"]`, whole and
lossless; what the list is follows from the log alone (`actors.protocol.task_log`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from session_store.items import Json

Face = Literal["tasks", "todo", "none"]
TaskStatus = Literal["pending", "in_progress", "completed", "cancelled", "deleted"]
STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)

TASK_TOOLS = ("TaskCreate", "TaskUpdate", "TaskList", "TaskGet")
TODO_TOOLS = ("todo",)
FACE_TOOLS: Mapping[Face, tuple[str, ...]] = {"tasks": TASK_TOOLS, "todo": TODO_TOOLS, "none": ()}
WRITING_TOOLS = frozenset({"TaskCreate", "TaskUpdate", "todo"})
"""Tools whose successful calls may change the list."""

MOST_TASKS = 256
TEXT_LIMIT = 4_000
"""Characters (Unicode code points) of a subject, a description or a todo's content, the mark of a cut included."""
CUT_MARK = "… [cut]"

_WORDS: Mapping[Face, Mapping[TaskStatus, str]] = {
    "tasks": {"in_progress": "inprogress", "cancelled": "deleted"},
    "todo": {"deleted": "cancelled"},
    "none": {"in_progress": "inprogress", "cancelled": "deleted"},
}


@dataclass(frozen=True, slots=True)
class Task:
    """`taskid` is given by the store and never used twice in a session; `key` is the id that the `todo` face gave."""

    taskid: int
    status: TaskStatus
    subject: str
    description: str = ""
    key: str | None = None

    @property
    def active(self) -> bool:
        return self.status in ("pending", "in_progress")


@dataclass(frozen=True, slots=True)
class TaskChange:
    """What a successful call does. `put`: tasks that are new or changed, whole, or with `whole` the list itself.

    `dropped` are ids that leave the list; `next_id` is the list's afterwards.
    """

    put: tuple[Task, ...]
    next_id: int
    whole: bool = False
    dropped: tuple[int, ...] = ()

    def data(self) -> dict[str, Json]:
        """For `ToolResult.data`."""
        change: dict[str, Json] = {"put": [task_plain(t) for t in self.put], "next": self.next_id}
        if self.whole:
            change["whole"] = True
        if self.dropped:
            change["dropped"] = list(self.dropped)
        return {"tasks": change}


@dataclass(frozen=True, slots=True)
class TaskList:
    """The list, in order. `next_id` is the first id that no task has had."""

    tasks: tuple[Task, ...] = ()
    next_id: int = 1

    @property
    def active(self) -> tuple[Task, ...]:
        """Pending ones and those in progress."""
        return tuple(t for t in self.tasks if t.active)

    def find(self, taskid: int) -> Task | None:
        return next((t for t in self.tasks if t.taskid == taskid), None)

    def after(self, change: TaskChange) -> TaskList:
        """The list as the change leaves it: changed tasks keep their place, new ones stand at the end."""
        next_id = max(self.next_id, change.next_id)
        if change.whole:
            return TaskList(change.put, next_id)
        put = {t.taskid: t for t in change.put}
        gone = set(change.dropped)
        kept = [put.pop(t.taskid, t) for t in self.tasks if t.taskid not in gone]
        return TaskList((*kept, *(t for t in put.values() if t.taskid not in gone)), next_id)

    def plain(self) -> dict[str, Json]:
        """Lossless, as the payload of a `task_snapshot` holds it."""
        return {"tasks": [task_plain(t) for t in self.tasks], "next": self.next_id}

    @classmethod
    def read(cls, plain: Json) -> TaskList | None:
        """The inverse of `plain`; None when the shape is not that of a list."""
        tasks = read_tasks(plain.get("tasks")) if isinstance(plain, dict) else None
        next_id = plain.get("next", 0) if isinstance(plain, dict) else None
        if tasks is None or not isinstance(next_id, int):
            return None
        return cls(tasks, max((1, next_id, *(t.taskid + 1 for t in tasks))))


def face_in(config: Mapping[str, Json]) -> Face:
    """The planning face in a session's config as the catalogue keeps it; `none` where it says nothing."""
    return next((face for face in FACE_TOOLS if face == config.get("planning")), "none")


def shown_id(task: Task, face: Face) -> int | str:
    """A task's id in the words of a face."""
    if face == "todo":
        return task.key if task.key is not None else str(task.taskid)
    return task.taskid


def shown_status(status: TaskStatus, face: Face) -> str:
    """A status in the words of a face."""
    return _WORDS[face].get(status, status)


def counted(tasks: Iterable[Task], face: Face) -> dict[str, int]:
    """How many there are, in all and by status in the words of a face."""
    found = [shown_status(t.status, face) for t in tasks]
    words = dict.fromkeys(shown_status(status, face) for status in STATUSES)
    return {"total": len(found), **{word: found.count(word) for word in words}}


def capped(text: str, limit: int = TEXT_LIMIT) -> str:
    """At most `limit` characters; a cut is marked."""
    return text if len(text) <= limit else text[: max(0, limit - len(CUT_MARK))] + CUT_MARK


def one_line(text: str, limit: int) -> str:
    """The text on one line of at most `limit` characters; a cut is marked."""
    return capped(" ".join(text.split()), limit)


def task_plain(task: Task) -> dict[str, Json]:
    plain: dict[str, Json] = {"taskid": task.taskid, "status": task.status, "subject": task.subject}
    if task.description:
        plain["description"] = task.description
    if task.key is not None:
        plain["id"] = task.key
    return plain


def read_change(plain: Json) -> TaskChange | None:
    """A change as `TaskChange.data` tells it under `tasks`; None for any other shape."""
    if not isinstance(plain, dict) or not isinstance(plain.get("next"), int):
        return None
    put, dropped = read_tasks(plain.get("put")), plain.get("dropped", [])
    if put is None or not isinstance(dropped, list) or not all(isinstance(d, int) for d in dropped):
        return None
    return TaskChange(put, plain["next"], plain.get("whole") is True, tuple(dropped))


def read_tasks(plain: Json) -> tuple[Task, ...] | None:
    """A list of what `task_plain` gives; None for any other shape, and for an id that comes twice."""
    if not isinstance(plain, list):
        return None
    tasks = tuple(t for t in map(_read_task, plain) if t is not None)
    return tasks if len(tasks) == len(plain) == len({t.taskid for t in tasks}) else None


def _read_task(plain: Json) -> Task | None:
    if not isinstance(plain, dict):
        return None
    taskid, subject = plain.get("taskid"), plain.get("subject")
    status = next((s for s in STATUSES if s == plain.get("status")), None)
    description, key = plain.get("description", ""), plain.get("id")
    if not isinstance(taskid, int) or not isinstance(subject, str) or status is None:
        return None
    if not isinstance(description, str) or not (key is None or isinstance(key, str)):
        return None
    return Task(taskid, status, subject, description, key)


def next_ids(tasks: TaskList, count: int, keys: Sequence[str] = ()) -> tuple[int, ...]:
    """Ids for `count` new tasks. None reads like a key that a task has or, with `keys`, will have."""
    taken = {t.key for t in tasks.tasks if t.key is not None} | set(keys)
    found: list[int] = []
    candidate = tasks.next_id
    while len(found) < count:
        if str(candidate) not in taken:
            found.append(candidate)
        candidate += 1
    return tuple(found)
