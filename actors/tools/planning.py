"""The task tools and `todo`: two faces of the session's one list, which a profile chooses between.

They are idempotent: a call's whole effect is the change in its committed result, so one that was cut off left nothing.
All of one reply run in call order, each over the list as the one before left it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, field_validator

from actors.protocol.tasks import TaskChange, TaskStatus
from actors.protocol.tasks import TaskList as Tasks
from actors.protocol.tools import Tool, ToolContext, ToolOutcome
from actors.tools import task_plans as plan
from actors.tools.limits import ToolLimits
from actors.tools.task_plans import Item
from actors.tools.task_replies import changed_reply, counts_text, list_reply, whole_reply
from actors.tools.text import one_line, visible
from actors.tools.typed import Arguments, ArgumentsT, typed_tool


def _seen(text: str) -> str:
    if not any(map(visible, text)):
        raise ValueError("a text is not made of blanks alone")
    return text


Written = Annotated[str, StringConstraints(min_length=1), AfterValidator(_seen)]
_ID_LENGTH = 48
_TASKID = Field(description="Id of the task, as TaskCreate gave it.")

_STORED: dict[str, TaskStatus] = {
    "pending": "pending",
    "inprogress": "in_progress",
    "in_progress": "in_progress",
    "completed": "completed",
    "cancelled": "cancelled",
    "deleted": "deleted",
}


class TaskCreate(Arguments):
    says = (
        "Add a task to your task list; it is pending and stands last. Use the list for work of three or more steps, or "
        "when you are given several tasks at once; do without it for less. The order of the list is the priority: "
        "create tasks in the order in which you will do them. When a task fails or turns out wrong, delete it with "
        "TaskUpdate and create the corrected one. The list belongs to this session only: it is neither memory nor a "
        "way to hand work to another session."
    )
    subject: Written = Field(description="What is to be done, in a few words.")
    description: str | None = Field(default=None, description="What it takes, and when it is done.")


class TaskUpdate(Arguments):
    says = (
        "Change a task. Set it inprogress when you begin it, with at most one in progress at a time: complete or "
        "delete the first before you start a second. Set it completed at once when it is done, not later and not "
        "several together, and only if it is really done. A task that failed is deleted, and the corrected one created "
        "with TaskCreate."
    )
    taskid: int = _TASKID
    status: Literal["pending", "inprogress", "completed", "deleted"] | None = Field(
        default=None, description="Its new status."
    )
    subject: Written | None = Field(default=None, description="Its new subject.")
    description: str | None = Field(default=None, description='Its new description; "" takes it away.')


class TaskList(Arguments):
    says = "Show all your tasks in order, with id, status and subject. Changes nothing."


class TaskGet(Arguments):
    says = "Show one task whole, with its description. Changes nothing."
    taskid: int = _TASKID


class TodoItem(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    id: str = Field(min_length=1, max_length=_ID_LENGTH, description="Your own short id for it, unique in the list.")
    content: Written | None = Field(
        default=None, description="What is to be done. Only a merge may leave it out, for an item that is there."
    )
    status: Literal["pending", "in_progress", "completed", "cancelled"] | None = Field(
        default=None, description="Where it stands. Only a merge may leave it out, for an item that is there."
    )

    @field_validator("id")
    @classmethod
    def _plain(cls, given: str) -> str:
        if not given.strip() or not given.isprintable() or any(c in given for c in '"\\'):
            raise ValueError('an id is made of printable characters other than `"` and `\\`, not of blanks alone')
        return given


class todo(Arguments):  # the class's name is the tool's
    says = (
        "Manage the task list of this session. Use it for work of three or more steps, or when you are given several "
        "tasks at once; do without it for less. Without `todos` it only reads. With `todos` it replaces the list; with "
        "`merge` it changes the items whose ids are there and appends the others. Either way it answers with the whole "
        "list. The order of the list is the priority: the first open item is what you do next. At most one item is "
        "in_progress: complete or cancel it before you start a second; a call that would make a second one is refused. "
        "Mark an item completed at once when it is done, not later and not several together. When one fails, set it "
        "cancelled and add the corrected item. The list belongs to this session only: it is neither memory nor a way "
        "to hand work to another session."
    )
    todos: list[TodoItem] | None = Field(
        default=None, description="The items, most important first. Leave out to read; [] clears the list."
    )
    merge: bool = Field(
        default=False, description="true: patch by id and append unknown ids. false: replace the whole list."
    )


def planning_tools(limits: ToolLimits) -> tuple[Tool, ...]:
    """Both faces; a profile names those it wants."""
    most = limits.result

    async def create(arguments: TaskCreate, context: ToolContext) -> ToolOutcome:
        change = plan.create(context.tasks, arguments.subject, arguments.description or "")
        return _changed("created", context.tasks, change, most)

    async def update(arguments: TaskUpdate, context: ToolContext) -> ToolOutcome:
        status = None if arguments.status is None else _STORED[arguments.status]
        change = plan.update(context.tasks, arguments.taskid, status, arguments.subject, arguments.description)
        return _changed("updated", context.tasks, change, most)

    async def show_all(arguments: TaskList, context: ToolContext) -> ToolOutcome:
        return ToolOutcome("ok", counts_text(context.tasks, "tasks"), list_reply(context.tasks, "tasks", most))

    async def get(arguments: TaskGet, context: ToolContext) -> ToolOutcome:
        task = plan.found(context.tasks, arguments.taskid)
        return ToolOutcome("ok", f"task {task.taskid}: {one_line(task.subject, 100)}", whole_reply(task, most))

    async def write(arguments: todo, context: ToolContext) -> ToolOutcome:
        return _todo(arguments, context.tasks, most)

    return (
        _planning_tool(TaskCreate, create),
        _planning_tool(TaskUpdate, update),
        _planning_tool(TaskList, show_all),
        _planning_tool(TaskGet, get),
        _planning_tool(todo, write),
    )


def _planning_tool(accepts: type[ArgumentsT], work: Callable[[ArgumentsT, ToolContext], Any]) -> Tool:
    return typed_tool(accepts, work, idempotent=True, touches=_the_list)


def _the_list(arguments: Any, context: ToolContext) -> str:
    """What calls of one reply must not touch side by side (no path begins so)."""
    return "the task list"


def _changed(verb: str, before: Tasks, change: TaskChange, limit: int) -> ToolOutcome:
    after, (task,) = before.after(change), change.put
    summary = f"{verb} task {task.taskid}: {one_line(task.subject, 80)} ({counts_text(after, 'tasks')})"
    return ToolOutcome("ok", summary, changed_reply(task, after, limit), change.data())


def _todo(arguments: todo, before: Tasks, limit: int) -> ToolOutcome:
    if arguments.todos is None:
        return ToolOutcome("ok", counts_text(before, "todo"), list_reply(before, "todo", limit))
    items = [Item(i.id, i.content, None if i.status is None else _STORED[i.status]) for i in arguments.todos]
    change = (plan.merge if arguments.merge else plan.replace_all)(before, items)
    after = before.after(change)
    return ToolOutcome("ok", counts_text(after, "todo"), list_reply(after, "todo", limit), change.data())
