"""What the HTTP seam shows of rows and entries. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchestrator.gateway.sse import frame
from session_store.codec import entry_json, time_text
from session_store.entries import Invoke, LogEntry, Question, QuestionClosed, RunEnd, SystemItems, Unknown
from session_store.items import Json
from session_store.rows import PodRow

JsonObject = dict[str, Json]


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


def status_view(row: PodRow) -> JsonObject:
    return {"status": row.status, "generation": row.epoch, "head_seq": row.head}


def entry_frames(entry: LogEntry) -> bytes:
    """An entry as one event, or as one event for each SystemItem in it."""
    if not isinstance(entry, SystemItems) or not entry.items:
        return frame("entry", entry_json(entry), entry.seq)
    head = {"seq": entry.seq, "ts": time_text(entry.ts)}
    last = len(entry.items) - 1
    # Of several items only the last carries the id: a cursor never points into an entry.
    return b"".join(
        frame(
            "system_item",
            {**head, "kind": item.kind, "payload": item.payload, "body": item.body},
            entry.seq if place == last else None,
        )
        for place, item in enumerate(entry.items)
    )


def header_view(row: PodRow, entry: LogEntry) -> JsonObject:
    """An entry cut to what tells where something happened, for the stream over many Pods."""
    view: JsonObject = {
        "pod_id": row.id,
        "pod_name": row.name,
        "seq": entry.seq,
        "ts": time_text(entry.ts),
        "type": entry.type,
    }
    match entry:
        case Invoke():
            view.update(run_id=entry.run_id, trigger=entry.trigger)
        case RunEnd():
            view.update(run_id=entry.run_id, outcome=entry.outcome)
        case SystemItems():
            view.update(kinds=[item.kind for item in entry.items])
        case Question():
            view.update(question_id=entry.question_id, kind=entry.kind)
        case QuestionClosed():
            view.update(question_id=entry.question_id, how=entry.how)
        case Unknown():
            pass
        case _:
            pass
    return view
