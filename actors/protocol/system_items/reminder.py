"""`reminder`: the tasks still open, shown again after a while without a change to them."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.system_items.kind import ItemKind, framed
from actors.protocol.tasks import one_line

SUBJECT_LIMIT = 200
"""Characters of a subject that a reminder shows."""

_TODO = (
    "Your todo list has open items, and you have not written it for a while. If it no longer says how things are, "
    "bring it up to date with todo: set what is done completed, cancel what is not needed any more."
)
_TASKS = (
    "You have open tasks, and you have not changed your task list for a while. If it no longer says how things are, "
    "bring it up to date: TaskUpdate sets what is done completed and deletes what is not needed any more, TaskCreate "
    "adds what is missing."
)
_TAIL = "If it is right as it stands, go on. This comes from the system, not from the person: do not answer it."


@dataclass(frozen=True, slots=True)
class RemindedTask:
    """In the words of the face it is for: the ids of the task tools are numbers, those of `todo` strings."""

    taskid: int | str
    status: str
    subject: str


@dataclass(frozen=True, slots=True)
class Reminder:
    tasks: tuple[RemindedTask, ...]


def _render(payload: Reminder) -> str:
    words = _TODO if any(isinstance(task.taskid, str) for task in payload.tasks) else _TASKS
    lines = [f"- {t.taskid} [{t.status}] {one_line(t.subject, SUBJECT_LIMIT)}" for t in payload.tasks]
    return framed("system-reminder", {}, "\n".join([words, _TAIL, *lines]))


REMINDER = ItemKind("reminder", Reminder, _render)
