"""The reminder: a nudge before a request when active tasks have not been looked after for a while. Pure.

All it counts follows from the log (`actors.protocol.task_log`), so a restart neither repeats nor loses one.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.protocol.config import ReminderRule
from actors.protocol.system_items.reminder import SUBJECT_LIMIT, RemindedTask, Reminder
from actors.protocol.task_log import Standing
from actors.protocol.tasks import Face, Task, capped, shown_id, shown_status


def is_due(standing: Standing, rule: ReminderRule) -> bool:
    """At least one task is active, and enough requests have gone by since the last change and the last reminder."""
    if rule.requests == 0 or standing.since_change < rule.requests or not standing.tasks.active:
        return False
    since = standing.since_reminder
    # Without a cooldown too there is one request between two of them: never twice in one gap.
    return since is None or since >= max(rule.cooldown, 1)


def reminder_of(active: Iterable[Task], face: Face) -> Reminder:
    """These tasks in the words of a face, their subjects cut."""
    return Reminder(
        tuple(
            RemindedTask(shown_id(t, face), shown_status(t.status, face), capped(t.subject, SUBJECT_LIMIT))
            for t in active
        )
    )
