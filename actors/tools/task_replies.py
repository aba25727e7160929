"""What the model reads of its task list: JSON, never longer than a result may be, in the words of a face. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable

from actors.protocol.tasks import TEXT_LIMIT, Face, Task, TaskList, capped, counted, shown_id, shown_status
from session_store.items import Json

ECHO = 400
"""Characters of a text that the reply to its own change repeats."""
_WIDTHS = (TEXT_LIMIT, 1_000, 400, 200, 100, 60, 30, 15, 8)


def task_view(task: Task, face: Face, width: int = TEXT_LIMIT, described: bool = True) -> dict[str, Json]:
    """One task in the words of a face, its texts cut to `width` characters."""
    if face == "todo":
        content = capped(task.subject, width)
        return {"id": shown_id(task, face), "content": content, "status": shown_status(task.status, face)}
    view: dict[str, Json] = {
        "taskid": task.taskid,
        "status": shown_status(task.status, face),
        "subject": capped(task.subject, width),
    }
    if described and task.description:
        view["description"] = capped(task.description, width)
    return view


def changed_reply(task: Task, tasks: TaskList, limit: int) -> str:
    """The changed task and the counts."""
    return _fitted(
        lambda w: {"task": task_view(task, "tasks", min(w, ECHO)), "summary": _summary(tasks, "tasks")}, limit
    )


def whole_reply(task: Task, limit: int) -> str:
    """One task with all of its texts."""
    return _fitted(lambda w: {"task": task_view(task, "tasks", w)}, limit)


def list_reply(tasks: TaskList, face: Face, limit: int) -> str:
    """Every task, in order. Texts are cut further, and `summary` says so, where the whole would be too long."""
    name = "todos" if face == "todo" else "tasks"

    def reply(width: int) -> dict[str, Json]:
        rows = [task_view(t, face, width, described=False) for t in tasks.tasks]
        short = any(len(t.subject) > width for t in tasks.tasks)
        note: dict[str, Json] = {"shown_up_to": f"{width} characters of each"} if short else {}
        return {name: rows, "summary": {**_summary(tasks, face), **note}}

    return _fitted(reply, limit)


def counts_text(tasks: TaskList, face: Face) -> str:
    """`3 tasks: 1 completed, 2 pending`."""
    counts = counted(tasks.tasks, face)
    total = counts.pop("total")
    said = ", ".join(f"{n} {word}" for word, n in counts.items() if n)
    return f"{total} {'task' if total == 1 else 'tasks'}" + (f": {said}" if said else "")


def _summary(tasks: TaskList, face: Face) -> dict[str, Json]:
    return dict(counted(tasks.tasks, face))


def _fitted(reply: Callable[[int], dict[str, Json]], limit: int) -> str:
    text = ""
    for width in _WIDTHS:
        text = json.dumps(reply(width), ensure_ascii=False, separators=(",", ":"))
        if len(text) <= limit:
            break
    return text
