"""Planning in the simulated world: calls of both faces, the real tools over a Pod's list, the law of the reminder."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from actors.protocol.config import PodConfig, ReminderRule
from actors.protocol.task_log import change_in, tasks_of
from actors.protocol.tasks import TASK_TOOLS, TODO_TOOLS, read_change
from actors.protocol.tools import CallKey, ToolOutcome
from session_store.entries import AssistantItems, LogEntry, Rewound, SystemItems, ToolResults
from session_store.items import ToolCall
from tests.simulation.world import LawBroken, Reference, World
from tests.support.planning import answer

if TYPE_CHECKING:
    from tests.simulation.pod import Incarnation

TOOLS = frozenset({*TASK_TOOLS, *TODO_TOOLS})
STATUSES = ("pending", "pending", "inprogress", "completed", "deleted")


def call(world: World, call_id: str) -> ToolCall:
    rng = world.rng
    match rng.choice(("create", "create", "update", "todo", "merge", "read")):
        case "create":
            return ToolCall(call_id, "TaskCreate", {"subject": world.token("task")})
        case "update":
            return ToolCall(call_id, "TaskUpdate", {"taskid": rng.randint(1, 3), "status": rng.choice(STATUSES)})
        case "read":
            return ToolCall(call_id, rng.choice(("TaskList", "todo")), {})
        case kind:
            statuses = ("pending", "in_progress", "completed", "cancelled")
            items = [{"id": i, "content": "x", "status": rng.choice(statuses)} for i in rng.sample("123ab", 2)]
            return ToolCall(call_id, "todo", {"todos": items, "merge": kind == "merge"})


def work(world: World, pod: Incarnation, key: CallKey, made: ToolCall) -> Generator[int, None, ToolOutcome]:
    """As the executor runs them: in call order, each over the list as the one before left it."""
    yield 0
    while any(other.key.index < key.index and other.name in TOOLS for other in pod.calls.values()):
        yield 5
    tasks = pod.planned.get(key.call_seq, pod.machine.state.facts.planning.now.tasks)
    outcome = answer(tasks, made, key.index)
    change = read_change((outcome.data or {}).get("tasks"))
    if change is not None:
        pod.planned[key.call_seq] = tasks.after(change)
    return outcome


def check(reference: Reference) -> None:
    """Before each request stands a reminder exactly if one was due, counted over the log in the plainest way (K01-K05).

    Ids of tasks are never given twice.
    """
    config = PodConfig.read(reference.history.config)
    kept: list[LogEntry] = []
    for entry in reference.entries:
        if isinstance(entry, Rewound):
            kept = [e for e in kept if e.seq < entry.to]
            continue
        if isinstance(entry, AssistantItems) and entry.request_id not in _requests(kept):
            _check_gap(kept, config.reminder, entry.seq)
        kept.append(entry)
    tasks = tasks_of(reference.entries)
    if tasks != reference.facts.planning.now.tasks or tasks_of(kept) != tasks:
        raise LawBroken("the task list differs from what its log says")
    if len({t.taskid for t in tasks.tasks}) < len(tasks.tasks) or any(t.taskid >= tasks.next_id for t in tasks.tasks):
        raise LawBroken(f"ids of tasks are given twice: {tasks}")


def _check_gap(kept: list[LogEntry], rule: ReminderRule, seq: int) -> None:
    """The gap reaches from the last request with committed items to the one whose items come now."""
    start = max((i for i, e in enumerate(kept) if isinstance(e, AssistantItems)), default=-1) + 1
    found = sum(_is_reminder(e) for e in kept[start:])
    before = [e for i, e in enumerate(kept) if i < start or not _is_reminder(e)]
    due = rule.requests > 0 and bool(tasks_of(before).active) and _since(before, _is_change) >= rule.requests
    if due and any(map(_is_reminder, before)):
        due = _since(before, _is_reminder) >= max(1, rule.cooldown)
    if found != due:
        raise LawBroken(f"{found} reminders stand before the request of entry {seq}, {int(due)} were due ({rule})")


def _since(entries: list[LogEntry], event: Any) -> int:
    """Requests with committed items since the last such entry."""
    place = max((i for i, e in enumerate(entries) if event(e)), default=-1)
    return len(_requests(entries[place + 1 :]))


def _requests(entries: list[LogEntry]) -> set[str]:
    return {e.request_id for e in entries if isinstance(e, AssistantItems)}


def _is_change(entry: LogEntry) -> bool:
    """Also a snapshot: nothing can have been changed before it."""
    if isinstance(entry, ToolResults):
        return any(change_in(r) is not None for r in entry.results)
    return isinstance(entry, SystemItems) and entry.items[0].kind == "task_snapshot"


def _is_reminder(entry: LogEntry) -> bool:
    return isinstance(entry, SystemItems) and entry.items[0].kind == "reminder"
