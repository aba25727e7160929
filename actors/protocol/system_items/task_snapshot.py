"""`task_snapshot`: the task list as it was where a fork or a compaction begins a new history."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.system_items.kind import ItemKind, framed
from session_store.items import Json


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """`tasks`: the list, nothing left out. The machine reads it back from here; the model reads the body."""

    tasks: tuple[dict[str, Json], ...]


def _render(payload: TaskSnapshot) -> str:
    lines = [f"- {t.get('taskid', t.get('id'))} [{t.get('status')}] {t.get('subject')}" for t in payload.tasks]
    return framed("task-snapshot", {}, "\n".join(["The task list as it stands:", *(lines or ["(no tasks)"])]))


TASK_SNAPSHOT = ItemKind("task_snapshot", TaskSnapshot, _render)
