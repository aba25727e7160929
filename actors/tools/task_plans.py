"""Plans of a change to the task list: list in, change out, or a refusal in words for the model. Pure.

A refused call changes nothing. Texts are cut at `TEXT_LIMIT` characters with a mark.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from actors.protocol.tasks import (
    MOST_TASKS,
    Task,
    TaskChange,
    TaskList,
    TaskStatus,
    capped,
    next_ids,
    shown_id,
)
from actors.tools.typed import ToolRefusal

_NAMED = 12
_UNCHANGED = "The list is unchanged."


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a `todo` call. None: not said."""

    todo_id: str
    content: str | None
    status: TaskStatus | None


def create(tasks: TaskList, subject: str, description: str) -> TaskChange:
    """A pending task at the end. Raises `ToolRefusal` when the list is full."""
    (taskid,) = next_ids(tasks, 1)
    task = Task(taskid, "pending", capped(subject), capped(description))
    return TaskChange((task,), taskid + 1, dropped=_room(tasks, 1))


def update(
    tasks: TaskList, taskid: int, status: TaskStatus | None, subject: str | None, description: str | None
) -> TaskChange:
    """The named fields of one task. Raises `ToolRefusal`."""
    task = found(tasks, taskid)
    if status is None and subject is None and description is None:
        raise ToolRefusal("Nothing would change: give `status`, `subject` or `description`.")
    changed = replace(
        task,
        status=status or task.status,
        subject=task.subject if subject is None else capped(subject),
        description=task.description if description is None else capped(description),
    )
    return TaskChange((changed,), tasks.next_id)


def found(tasks: TaskList, taskid: int) -> Task:
    """The task of this id. Raises `ToolRefusal`, which says which ids there are."""
    task = tasks.find(taskid)
    if task is None:
        ids = [str(t.taskid) for t in tasks.tasks]
        more = f" and {len(ids) - _NAMED} before them" if len(ids) > _NAMED else ""
        there = f"The ids are {', '.join(ids[-_NAMED:])}{more}." if ids else "There are no tasks yet."
        raise ToolRefusal(f"There is no task {str(taskid)[:40]}. {there}")
    return task


def replace_all(tasks: TaskList, items: Sequence[Item]) -> TaskChange:
    """The list anew, in the order given; an item whose id is known stays the same task. Raises `ToolRefusal`."""
    if len(items) > MOST_TASKS:
        raise ToolRefusal(f"{len(items)} items are more than the {MOST_TASKS} that a list may hold. {_UNCHANGED}")
    known, next_id = _known(tasks, items, whole=True)
    return _checked(tasks, TaskChange(known, next_id, whole=True))


def merge(tasks: TaskList, items: Sequence[Item]) -> TaskChange:
    """Items with known ids are changed where they stand, others are put at the end. Raises `ToolRefusal`."""
    put, next_id = _known(tasks, items, whole=False)
    count = sum(tasks.find(t.taskid) is None for t in put)
    return _checked(tasks, TaskChange(put, next_id, dropped=_room(tasks, count, {t.taskid for t in put})))


def _known(tasks: TaskList, items: Sequence[Item], whole: bool) -> tuple[tuple[Task, ...], int]:
    """The items as tasks, and the next id after them. Raises `ToolRefusal` for an item that is said twice or half."""
    ids = [i.todo_id for i in items]
    twice = next((i for i in ids if ids.count(i) > 1), None)
    if twice is not None:
        raise ToolRefusal(f"The id `{twice}` stands in `todos` twice. {_UNCHANGED}")
    before = {str(shown_id(t, "todo")): t for t in tasks.tasks}
    fresh = next_ids(tasks, sum(i not in before for i in ids), ids)
    unused = iter(fresh)
    put: list[Task] = []
    for item in items:
        task = before.get(item.todo_id)
        if item.content is None and (task is None or whole):
            raise ToolRefusal(f"The item `{item.todo_id}` has no `content`{_only_merged(task)}. {_UNCHANGED}")
        if item.status is None and (task is None or whole):
            raise ToolRefusal(f"The item `{item.todo_id}` has no `status`{_only_merged(task)}. {_UNCHANGED}")
        task = task or Task(next(unused), "pending", "", key=item.todo_id)
        subject = task.subject if item.content is None else capped(item.content)
        put.append(replace(task, subject=subject, status=item.status or task.status))
    return tuple(put), max((tasks.next_id, *(i + 1 for i in fresh)))


def _only_merged(task: Task | None) -> str:
    return " and there is no item of that id" if task is None else "; only a merge may leave it out"


def _checked(tasks: TaskList, change: TaskChange) -> TaskChange:
    """The change, if at most one task is in progress after it. Raises `ToolRefusal`."""
    running = [shown_id(t, "todo") for t in tasks.after(change).tasks if t.status == "in_progress"]
    if len(running) > 1:
        ids = ", ".join(f"`{i}`" for i in running[:_NAMED])
        raise ToolRefusal(
            f"At most one item may be in_progress, and these would be: {ids}. Complete or cancel the first before "
            f"you start the second. {_UNCHANGED}"
        )
    return change


def _room(tasks: TaskList, count: int, wanted: Container[int] = ()) -> tuple[int, ...]:
    """Which deleted tasks, oldest first, make room for `count` new ones. Raises `ToolRefusal` when that is not enough.

    A long session that deletes what it is done with never comes to the end of its list.
    """
    over = len(tasks.tasks) + count - MOST_TASKS
    if over <= 0:
        return ()
    deleted = [t.taskid for t in tasks.tasks if t.status == "deleted" and t.taskid not in wanted]
    if len(deleted) < over:
        raise ToolRefusal(
            f"The list holds {len(tasks.tasks)} tasks and may hold {MOST_TASKS}: remove some that are done before you "
            f"add {count}. {_UNCHANGED}"
        )
    return tuple(deleted[:over])
