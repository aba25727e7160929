"""The reminder: a nudge before a request when active tasks have not been looked after for a while. Pure.

All it counts follows from the log (`actors.protocol.task_log`), so a restart neither repeats nor loses one.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.pod.interceptors import framed
from actors.protocol.config import PodConfig, ReminderRule
from actors.protocol.task_log import REMINDER, Standing, advance, one_line
from actors.protocol.tasks import Face, Task, capped, shown_id, shown_status
from session_store.entries import LogEntry, SystemItems
from session_store.items import Json, SystemItem

SUBJECT_LIMIT = 200
"""Characters of a subject that a reminder shows."""

_WORDS = {
    "todo": "Your todo list has open items, and you have not written it for a while. If it no longer says how things "
    "are, bring it up to date with todo: set what is done completed, cancel what is not needed any more.",
    "tasks": "You have open tasks, and you have not touched your task list for a while. If it no longer says how "
    "things are, bring it up to date: TaskUpdate sets what is done completed and deletes what is not needed any more, "
    "TaskCreate adds what is missing.",
}
_TAIL = "If it is right as it stands, go on. This comes from the system, not from the person; do not answer it."


def reminder(standing: Standing, coming: Iterable[LogEntry], config: PodConfig, item_id: str) -> SystemItems | None:
    """The entry of a reminder that is due once `coming`, the entries before it in its commit, have been committed."""
    for entry in coming:
        standing = advance(standing, entry)
    if not is_due(standing, config.reminder):
        return None
    return SystemItems((reminder_item(standing.tasks.active, config.planning, item_id),))


def is_due(standing: Standing, rule: ReminderRule) -> bool:
    """At least one task is active, and enough requests have gone by since the last change and the last reminder."""
    if rule.requests == 0 or standing.since_change < rule.requests or not standing.tasks.active:
        return False
    since = standing.since_reminder
    # Without a cooldown too there is one request between two of them: never twice in one gap.
    return since is None or since >= max(rule.cooldown, 1)


def reminder_item(active: Iterable[Task], face: Face, item_id: str) -> SystemItem:
    """The active tasks in the words of the face."""
    rows: list[dict[str, Json]] = [
        {
            "taskid": shown_id(t, face),
            "status": shown_status(t.status, face),
            "subject": capped(t.subject, SUBJECT_LIMIT),
        }
        for t in active
    ]
    listed = "\n".join(f"{r['taskid']} [{r['status']}] {one_line(r['subject'], SUBJECT_LIMIT)}" for r in rows)
    words = _WORDS["todo" if face == "todo" else "tasks"]
    return SystemItem(REMINDER, item_id, {"tasks": rows}, framed("system-reminder", {}, f"{words} {_TAIL}\n{listed}"))
