"""`task_snapshot`: the task list as it was where a fork or a compaction begins a new history."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.system_items.kind import ItemKind, framed
from actors.protocol.tasks import Face, Task, one_line, read_tasks, shown_id, shown_status
from session_store.items import Json

_LINE = 200


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """`tasks`: the list in its stored form, nothing left out; `next`: the first id not used yet (0: follows from it).

    The machine reads it back from here; the model reads the body, in the words of `face`.
    """

    tasks: tuple[dict[str, Json], ...]
    next: int = 0
    face: Face = "tasks"


def _render(payload: TaskSnapshot) -> str:
    tasks = read_tasks(list(payload.tasks)) or ()
    lines = [_line(task, payload.face) for task in tasks]
    return framed("task-snapshot", {}, "\n".join(["The task list as it stands:", *(lines or ["(no tasks)"])]))


def _line(task: Task, face: Face) -> str:
    return f"- {shown_id(task, face)} [{shown_status(task.status, face)}] {one_line(task.subject, _LINE)}"


TASK_SNAPSHOT = ItemKind("task_snapshot", TaskSnapshot, _render)
