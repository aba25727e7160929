"""What stands before a request: the SystemItems of one gap, in their fixed order.

An *interceptor* is a pure function of a small frozen view. It may only propose SystemItems (and say which messages they
use up): it sees no history, changes nothing, and cannot put anything else before the model. Their order is that of
`INTERCEPTORS`: notices in order of arrival, then PodEvents in order of arrival, then whatever follows. All items of a
gap are committed in one append, which consumes their messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from actors.protocol.system_items.notification import NOTIFICATION, Notification
from actors.protocol.system_items.pod_event import POD_EVENT, PodEventPayload
from session_store.entries import LogEntry, SystemItems
from session_store.items import Json, SystemItem
from session_store.messages import Message


@dataclass(frozen=True, slots=True)
class GapView:
    """All that an interceptor may know. `messages`: the inbox, unconsumed, in order of arrival.

    `is_stale(event)`: whether the log already holds that child's `shut_down` or a younger event of it.
    """

    messages: tuple[Message, ...]
    is_stale: Callable[[dict[str, Json]], bool]


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


INTERCEPTORS: tuple[Interceptor, ...] = (notices, pod_events)
"""In the order in which their items stand (DESIGN §4)."""
