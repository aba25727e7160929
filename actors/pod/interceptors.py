"""What stands before a request: the SystemItems of one gap, in their fixed order.

An *interceptor* is a pure function of a small frozen view. It may only propose SystemItems (and say which messages they
use up): it sees no history, changes nothing, and cannot put anything else before the model. Their order is that of
`INTERCEPTORS`: notices in order of arrival, then PodEvents in order of arrival, then the reminder. All items of a
gap are committed in one append, which consumes their messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from actors.pod.reminder import is_due, reminder_of
from actors.protocol.config import ReminderRule
from actors.protocol.system_items.notification import NOTIFICATION, Notification
from actors.protocol.system_items.pod_event import POD_EVENT, PodEventPayload
from actors.protocol.system_items.reminder import REMINDER
from actors.protocol.task_log import Standing
from actors.protocol.tasks import Face
from session_store.entries import LogEntry, SystemItems
from session_store.items import Json, SystemItem
from session_store.messages import Message


@dataclass(frozen=True, slots=True)
class GapView:
    """All that an interceptor may know. `messages`: the inbox, unconsumed, in order of arrival.

    `is_stale(event)`: whether the log already holds that child's `shut_down` or a younger event of it. `planning`: the
    task list and what the reminder counts, once all that comes before the gap in its commit is committed; `face` and
    `reminder` are the session's settings. `place` names the gap: it is unique in the session.
    """

    messages: tuple[Message, ...]
    is_stale: Callable[[dict[str, Json]], bool]
    planning: Standing = field(default_factory=Standing)
    face: Face = "none"
    reminder: ReminderRule = field(default_factory=ReminderRule)
    place: int = 0


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one interceptor would like to stand before the request, and the messages that this uses up."""

    items: tuple[SystemItem, ...] = ()
    consumes: tuple[str, ...] = ()


Interceptor: TypeAlias = Callable[[GapView], Proposal]


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries to commit before the next request, and the messages they consume."""

    entries: tuple[LogEntry, ...] = ()
    consumes: tuple[str, ...] = ()


def gap(view: GapView, interceptors: Sequence[Interceptor]) -> Gap:
    """All proposals as entries, one item each, in the order of the interceptors."""
    proposals = [propose(view) for propose in interceptors]
    return Gap(
        tuple(SystemItems((item,)) for proposal in proposals for item in proposal.items),
        tuple(message_id for proposal in proposals for message_id in proposal.consumes),
    )


def notices(view: GapView) -> Proposal:
    """Every notice, as a `notification` under its message's id."""
    found = [m for m in view.messages if m.kind == "notify"]
    items = (NOTIFICATION.item(m.message_id, Notification(str(m.body.get("message", "")))) for m in found)
    return Proposal(tuple(items), tuple(m.message_id for m in found))


def pod_events(view: GapView) -> Proposal:
    """Every PodEvent, as a `pod_event` under its message's id; what is stale says so. One that is for the control plane
    only is used up and never stands before a model."""
    found = [m for m in view.messages if m.kind == "pod_event"]
    items: list[SystemItem] = []
    shut: set[str] = set()
    for message in found:
        event = dict(message.body.get("event") or {})
        if event.get("kind") == "scope_sub_delegated":
            continue
        if view.is_stale(event) or event.get("pod_id") in shut:
            event["stale"] = True
        elif event.get("kind") == "shut_down":
            shut.add(str(event.get("pod_id")))
        items.append(POD_EVENT.item(message.message_id, PodEventPayload(event)))
    return Proposal(tuple(items), tuple(m.message_id for m in found))


def remind(view: GapView) -> Proposal:
    """A `reminder` of the active tasks, if one is due."""
    if not is_due(view.planning, view.reminder):
        return Proposal()
    payload = reminder_of(view.planning.tasks.active, view.face)
    return Proposal((REMINDER.item(f"reminder:{view.place}", payload),))


INTERCEPTORS: tuple[Interceptor, ...] = (notices, pod_events, remind)
"""In the order in which their items stand (DESIGN §4)."""
