"""What the HTTP seam shows of rows and entries. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from actors.protocol.tasks import Face, TaskList, counted, shown_id, shown_status
from orchestrator.events import EntryEvent, EntryHeader, StatusEvent, SystemItemEvent
from orchestrator.gateway.sse import json_bytes
from session_store.codec import entry_json, time_text
from session_store.entries import (
    Invoke,
    LogEntry,
    Question,
    QuestionClosed,
    Rewound,
    RunEnd,
    SegmentStart,
    SystemItems,
)
from session_store.items import Json
from session_store.rows import PodRow

JsonObject = dict[str, Json]

HISTORY_SHOWN = 1 << 20
"""Bytes of JSON that a `segment_start` shows of the history it begins with; its origin has the rest."""


def pod_view(row: PodRow, children: Sequence[str]) -> JsonObject:
    """A Pod (DESIGN §7). `children` are ids in order of creation; `queue` counts messages that wait."""
    view: JsonObject = {
        "id": row.id,
        "name": row.name,
        "parent_id": row.parent_id,
        "root_id": row.root_id,
        "status": row.status,
        "owner": f"{row.id}#{row.epoch}" if row.owned and row.status != "ended" else None,
        "generation": row.epoch,
        "head_seq": row.head,
        "usage": {
            "requests": row.requests,
            "input": row.input,
            "cache_read": row.cache_read,
            "cache_write": row.cache_write,
            "output": row.output,
        },
        "children": list(children),
        "queue": row.queue,
    }
    if row.question is not None and row.status == "waiting_on_user":  # not one whose answer waits to be taken up
        view["question"] = question_view(row)
    if row.status == "waiting_on_children":
        view["waits_for"] = list(row.waits_for)
    if row.outcome is not None:
        view["last_outcome"] = row.outcome
    view["created_at"] = time_text(row.created_at)
    view["updated_at"] = time_text(row.updated_at)
    return view


def question_view(row: PodRow) -> JsonObject:
    """The open question of a Pod as the inbox shows it."""
    question = row.question or {}
    return {
        "question_id": question.get("question_id"),
        "pod_id": row.id,
        "pod_name": row.name,
        "kind": question.get("kind"),
        "question": question.get("question"),
        "choices": list(question.get("choices") or ()),
        "asked_at": time_text(row.question_ts),
    }


def inbox_view(rows: Iterable[PodRow]) -> JsonObject:
    """Open questions, oldest first."""
    asked = sorted((row for row in rows if row.question is not None), key=lambda row: (row.question_ts, row.id))
    return {"questions": [question_view(row) for row in asked]}


def tasks_view(tasks: TaskList, face: Face, head: int) -> JsonObject:
    """A session's tasks in order, in the words of its planning face, as its log tells them up to `head`."""
    rows: list[JsonObject] = []
    for task in tasks.tasks:
        row: JsonObject = {
            "taskid": shown_id(task, face),
            "status": shown_status(task.status, face),
            "subject": task.subject,
        }
        rows.append({**row, "description": task.description} if task.description else row)
    return {"planning": face, "tasks": rows, "summary": counted(tasks.tasks, face), "head_seq": head}


def status_event(row: PodRow) -> StatusEvent:
    return StatusEvent(row.status, row.epoch, row.head)


def entry_view(entry: LogEntry) -> JsonObject:
    """An entry as it is shown. Of a long inherited history the youngest items; `history_left_out` counts the others."""
    view = entry_json(entry)
    if isinstance(entry, SegmentStart) and entry.history:
        shown: list[Json] = []
        room = HISTORY_SHOWN
        for item in reversed(view["history"]):
            room -= len(json_bytes(item))
            if room < 0:
                break
            shown.append(item)
        view["history"] = shown[::-1]
        if len(shown) < len(entry.history):
            view["history_left_out"] = len(entry.history) - len(shown)
    return view


def entry_events(entry: LogEntry) -> list[EntryEvent | SystemItemEvent]:
    """An entry as one event, or as one event for each SystemItem in it."""
    if not isinstance(entry, SystemItems) or not entry.items:
        return [EntryEvent(entry.seq, entry_view(entry))]
    ts, last = time_text(entry.ts), len(entry.items) - 1
    return [
        SystemItemEvent(entry.seq, ts, item.kind, item.payload, item.body, last=place == last)
        for place, item in enumerate(entry.items)
    ]


def header_event(row: PodRow, entry: LogEntry) -> EntryHeader:
    """An entry cut to what tells where something happened, for the stream over many Pods."""
    return EntryHeader(row.id, row.name, entry.seq, time_text(entry.ts), entry.type, _header_fields(entry))


def _header_fields(entry: LogEntry) -> JsonObject:
    match entry:
        case Invoke():
            return {"run_id": entry.run_id, "trigger": entry.trigger}
        case RunEnd():
            return {"run_id": entry.run_id, "outcome": entry.outcome}
        case SystemItems():
            return {"kinds": [item.kind for item in entry.items]}
        case Question():
            return {"question_id": entry.question_id, "kind": entry.kind}
        case Rewound():
            return {"to": entry.to}
        case QuestionClosed():
            return {"question_id": entry.question_id, "how": entry.how}
        case _:
            return {}
