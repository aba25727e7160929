"""`pod_event`: a child's lifecycle event, machine facts in the tag, the child's words inside."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.system_items.kind import ItemKind, framed
from session_store.items import Json


@dataclass(frozen=True, slots=True)
class PodEventPayload:
    """`event` is a PodEvent in plain form, kept whole with the fields of a newer child (`session_store.messages`)."""

    event: dict[str, Json]


def _render(payload: PodEventPayload) -> str:
    event = payload.event
    facts = {"kind": event.get("kind"), "pod": event.get("pod_name"), "pod_id": event.get("pod_id")}
    for name in ("outcome", "open_children", "stale"):
        if event.get(name):
            facts[name] = event[name]
    return framed("pod-event", facts, _event_text(event))


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
            error = event.get("error") or {}
            why = f" {error['message']}" if error.get("message") else ""
            tail = f" Its last words:\n{text}" if text else ""
            return f"Its run ended: {event.get('outcome', 'unknown')}.{why}{tail}"


POD_EVENT = ItemKind("pod_event", PodEventPayload, _render)


def _question_text(question: dict[str, Json]) -> str:
    if question.get("kind") == "permission":
        return f"It asks a person for a permission: {question.get('question', '')}\nOnly a person can decide that."
    rows = [
        f"- {c.get('label')}{': ' if c.get('description') else ''}{c.get('description') or ''}"
        for c in question.get("choices") or ()
    ]
    asked = "\n".join([f"It asks: {question.get('question', '')}", *rows])
    return f"{asked}\nAnswer with SendToPod, or leave it to the person."
