"""What stands before a request: the SystemItems of one gap, in their fixed order.

Notices in order of arrival, then PodEvents in order of arrival. Each becomes one typed item with the exact `body` the
model will see; all of a gap are committed in one append, which consumes their messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from session_store.entries import LogEntry, SystemItems
from session_store.items import Json, SystemItem
from session_store.messages import Message
from session_store.status import StatusFold


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries to commit before the next request, and the messages they consume."""

    entries: tuple[LogEntry, ...] = ()
    consumes: tuple[str, ...] = ()


def gap(fold: StatusFold, inbox: Iterable[Message]) -> Gap:
    """All notices and PodEvents of the inbox as entries. `fold` tells which events are stale."""
    messages = list(inbox)
    notices = [m for m in messages if m.kind == "notify"]
    events = [m for m in messages if m.kind == "pod_event"]
    entries: list[LogEntry] = [SystemItems((notification(m),)) for m in notices]
    shut: set[str] = set()
    for message in events:
        event = dict(message.body.get("event") or {})
        if event.get("kind") == "scope_sub_delegated":
            continue  # control plane only: consumed, never before a model
        if fold.is_stale(event) or event.get("pod_id") in shut:
            event["stale"] = True
        elif event.get("kind") == "shut_down":
            shut.add(str(event.get("pod_id")))
        entries.append(SystemItems((pod_event(message.message_id, event),)))
    return Gap(tuple(entries), tuple(m.message_id for m in (*notices, *events)))


def notification(message: Message) -> SystemItem:
    text = str(message.body.get("message", ""))
    return SystemItem("notification", message.message_id, {"message": text}, framed("notification", {}, text))


def interrupt(item_id: str, reason: str, text: str) -> SystemItem:
    """Told to the model when its own reply was cut off (`reason`: `broken_stream` or `empty_reply`)."""
    return SystemItem("interrupt", item_id, {"reason": reason, "message": text}, framed("interrupt", {}, text))


def pod_event(item_id: str, event: dict[str, Json]) -> SystemItem:
    """A child's lifecycle event as the model sees it: machine facts in the tag, the child's words inside."""
    facts = {"kind": event.get("kind"), "pod": event.get("pod_name"), "pod_id": event.get("pod_id")}
    for name in ("outcome", "open_children", "stale"):
        if event.get(name):
            facts[name] = event[name]
    return SystemItem("pod_event", item_id, {"event": event}, framed("pod-event", facts, _event_text(event)))


def framed(tag: str, facts: dict[str, Json], text: str) -> str:
    """`text` between tags. A closing tag inside the text is broken up, so that content cannot end its own frame."""
    attributes = "".join(f' {k}="{_attribute(v)}"' for k, v in facts.items() if v is not None)
    inside = text.replace(f"</{tag}", f"<\\/{tag}")
    return f"<{tag}{attributes}>\n{inside}\n</{tag}>"


def _attribute(value: Json) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace('"', "'").replace("\n", " ")


def _event_text(event: dict[str, Json]) -> str:
    match event.get("kind"):
        case "waiting_on_user":
            return _question_text(event.get("question") or {})
        case "errored":
            error = event.get("error") or {}
            return f"It failed: {error.get('type', 'error')}: {error.get('message', '')}"
        case "shut_down":
            return "It was stopped. It takes no more messages."
        case "turn_ended" if event.get("outcome") == "finished":
            rest = "\n(Some of its own children are still at work.)" if event.get("open_children") else ""
            rest += "\n(It goes on with your next message.)" if event.get("queued") else ""
            return f"{event.get('text') or '(no text)'}{rest}"
        case _:
            text = event.get("text")
            tail = f" Its last words:\n{text}" if text else ""
            return f"Its run ended: {event.get('outcome', 'unknown')}.{tail}"


def _question_text(question: dict[str, Json]) -> str:
    if question.get("kind") == "permission":
        return f"It asks a person for a permission: {question.get('question', '')}\nOnly a person can decide that."
    rows = [
        f"- {c.get('label')}{': ' if c.get('description') else ''}{c.get('description') or ''}"
        for c in question.get("choices") or ()
    ]
    asked = "\n".join([f"It asks: {question.get('question', '')}", *rows])
    return f"{asked}\nAnswer with SendToPod, or leave it to the person."
