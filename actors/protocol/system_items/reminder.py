"""`reminder`: the tasks still open, shown again after a while without a change to them."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.system_items.kind import ItemKind, framed


@dataclass(frozen=True, slots=True)
class RemindedTask:
    taskid: int | str
    status: str
    subject: str


@dataclass(frozen=True, slots=True)
class Reminder:
    tasks: tuple[RemindedTask, ...]


def _render(payload: Reminder) -> str:
    lines = [f"- {task.taskid} [{task.status}] {task.subject}" for task in payload.tasks]
    return framed("system-reminder", {}, "\n".join(["Tasks that are still open:", *lines]))


REMINDER = ItemKind("reminder", Reminder, _render)
