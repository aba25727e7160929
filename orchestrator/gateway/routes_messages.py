"""What is sent to a Pod: prompts, notices, events, answers, and the control methods. 2xx only once it is durable."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from itertools import takewhile
from typing import Literal

from starlette.responses import Response

from orchestrator.gateway import bodies
from orchestrator.gateway.context import Call, Handler, json_response
from orchestrator.gateway.door import place_of, refused
from orchestrator.gateway.problems import HttpProblem, invalid
from orchestrator.gateway.results import cancelled_view
from session_store.codec import to_plain
from session_store.entries import Invoke, LogEntry, RunEnd, Withdrawn
from session_store.errors import ConditionFailed
from session_store.items import Json, Segment
from session_store.messages import USER, Message
from session_store.reading import decoded
from session_store.requests import Deliver, Delivered, Expect, FindMessage, Query, Read
from session_store.rows import PodRow

Control = Literal["pause", "resume", "cancel"]
AT_WORK = ("running", "paused", "waiting_on_user", "waiting_on_children")
STEP = 64
"""Entries that are looked at first for what a cancel was about."""


async def prompt(call: Call) -> Response:
    body = await call.body(bodies.MessageBody)
    row = await call.row()
    segments = body.typed(body.content)
    await _check_references(call, row, segments, body.message_id)
    plain: dict[str, Json] = {"segments": to_plain(segments)}
    if body.when_busy in ("steer", "interrupt"):
        plain["when_busy"] = body.when_busy
    message = Message(body.message_id or call.gateway.new_id(), "prompt", USER, plain)
    expect = Expect("not_busy") if body.when_busy == "reject" else None
    return _accepted(row, message, await _deliver(call, row, message, expect))


async def notify(call: Call) -> Response:
    body = await call.body(bodies.NotifyBody)
    row = await call.row()
    message = Message(
        body.message_id or call.gateway.new_id(), "notify", USER, {"message": body.message}, wake=body.wake
    )
    return _accepted(row, message, await _deliver(call, row, message))


async def pod_event(call: Call) -> Response:
    """403 unless the event is about a child of this Pod."""
    event = (await call.body(bodies.PodEventBody)).event
    row = await call.row()
    try:
        child = await call.gateway.row(event.pod_id, call.caller.tenant)
    except HttpProblem:
        child = None
    if child is None or child.parent_id != row.id:
        raise HttpProblem("forbidden", "Events are taken about children of this Pod only.")
    about, _, seq = event.event_id.rpartition(":")
    # A seq of the future would make the child's own next events look stale.
    if about != child.id or not seq.isdecimal() or not 0 < int(seq) <= child.head:
        raise invalid(f"`event_id` must be `{child.id}:<seq>` with the seq of an entry of that Pod.")
    plain = event.model_dump(exclude_none=True)
    message = Message(event.event_id, "pod_event", child.id, {"event": plain})
    return _accepted(row, message, await _deliver(call, row, message))


async def answer(call: Call) -> Response:
    """202; the same answer again is 200. Raises already-answered, question-closed, invalid."""
    body = await call.body(bodies.AnswerBody)
    row = await call.row()
    plain = body.model_dump(include={"question_id", "choice", "text"}, exclude_none=True)
    message = Message(body.message_id or _answer_id(plain), "answer", USER, plain)
    delivered = await _deliver(call, row, message, Expect("question_open", body.question_id))
    return _accepted(row, message, delivered, 200 if delivered.existed else 202)


def control(kind: Control) -> Handler:
    """`pause`, `resume` or `cancel`: aimed at the run that is current when it is accepted."""

    async def handler(call: Call) -> Response:
        body = await call.body(bodies.CancelBody if kind == "cancel" else bodies.ControlBody)
        row = await call.row()
        if (said := _nothing_to_do(kind, row)) is not None:
            call.gateway.hint(row.id)
            return _unchanged(row, said)
        plain: dict[str, Json] = {}
        if isinstance(body, bodies.CancelBody) and body.clear_queue:
            plain["clear_queue"] = True
        message = Message(body.message_id or call.gateway.new_id(), kind, USER, plain)
        try:
            delivered = await _deliver(call, row, message, Expect("run"))
        except ConditionFailed as error:
            if error.reason != "not_running":
                raise
            if kind == "cancel" and await _below_at_work(call, row):
                below = replace(message, body={**plain, "cascade": True})
                delivered = await _deliver(call, row, below)
                view = {"pod_id": row.id, "changed": True, "status": delivered.status, "message_id": message.message_id}
                return json_response(view, 202)
            return _unchanged(row, f"Nothing to {kind}: the Pod is {row.status}.")
        view = {"pod_id": row.id, "changed": True, "status": delivered.status, "message_id": message.message_id}
        if kind == "cancel":
            view.update(await _cancelled(call, row, message.message_id, again=delivered.existed))
        return json_response(view, 202)

    return handler


async def stop(call: Call) -> Response:
    """202; 200 for a Pod that has ended before."""
    body = await call.body(bodies.StopBody)
    row = await call.row()
    if row.status == "ended":
        return _unchanged(row, "The Pod has ended before.")
    reached = await call.gateway.plane.stop(row.id, USER, body.reason or "stopped")
    row = await call.gateway.row(row.id, call.caller.tenant)
    return json_response({"pod_id": row.id, "changed": True, "status": row.status, "stop": reached}, 202)


async def _check_references(call: Call, row: PodRow, segments: tuple[Segment, ...], message_id: str | None) -> None:
    """Raises `HttpProblem` for a prompt that cannot be carried out; not for one that was accepted before."""
    told = await call.gateway.door.refusal(place_of(row), segments)
    if told is None:
        return
    if message_id is not None and (await call.gateway.feed.ask(FindMessage(row.id, message_id))).session == row.id:
        return
    raise refused(told)


async def _deliver(call: Call, row: PodRow, message: Message, expect: Expect | None = None) -> Delivered:
    limits = call.gateway.options.limits
    delivered = await call.gateway.feed.ask(Deliver(row.id, message, expect, limits))
    call.gateway.hint(row.id)
    return delivered


async def _below_at_work(call: Call, row: PodRow) -> bool:
    """Whether a Pod at rest has undetached children that have not concluded: a cancel goes past it, to them."""
    children = (await call.gateway.feed.ask(Query(parent=row.id, limit=0))).rows
    return any(child.open and not child.detached for child in children)


async def _cancelled(call: Call, row: PodRow, message_id: str, *, again: bool) -> dict[str, Json]:
    """What the cancel did, if it took effect within `cancel_wait`; else `outcome` null. `again`: it was sent before."""
    gateway = call.gateway

    async def consumed() -> int | None:
        state = await gateway.feed.ask(FindMessage(row.id, message_id))
        return None if state.state == "pending" else state.seq

    seq = await gateway.until(row.id, consumed, gateway.options.cancel_wait)
    if seq is None:
        return {"outcome": None, "withdrawn": []}
    if again:  # the row is of a later moment
        entries = await _up_to_commit(call, row.id, seq)
    else:
        current = row.run_id is not None and row.status in AT_WORK
        entries = await gateway.entries(row.id, row.run_seq - 1 if current else row.head)
    now = await gateway.row(row.id, row.tenant)
    return {"status": now.status, **cancelled_view(entries, seq)}


async def _up_to_commit(call: Call, pod_id: str, seq: int) -> list[LogEntry]:
    """What a cancel whose commit ends at `seq` may have been about: entries from the `invoke` of the run before it on,
    without a run that was over when prompts were given back."""
    step = STEP
    while True:
        after = max(0, seq - step)
        found = (await call.gateway.feed.ask(Read(pod_id, after, seq - after))).entries
        entries = list(decoded(pod_id, found))
        if after == 0 or any(isinstance(entry, Invoke) for entry in entries):
            break
        step *= 4
    back = list(takewhile(lambda entry: isinstance(entry, Withdrawn), reversed(entries)))[::-1]
    end = entries[-len(back) - 1] if len(back) < len(entries) else None
    ended_it = isinstance(end, RunEnd) and end.outcome in ("cancelled", "withdrawn")
    return back if back and not ended_it else entries


def _nothing_to_do(kind: Control, row: PodRow) -> str | None:
    """Why a control message would change nothing, where the row alone tells."""
    if kind == "pause" and row.status == "paused":
        return "The Pod is paused already."
    if kind == "resume" and row.status == "running" and row.owned and not row.queue:  # else a pause may be among them
        return "The Pod is running."
    return None


def _unchanged(row: PodRow, said: str) -> Response:
    return json_response({"pod_id": row.id, "changed": False, "status": row.status, "detail": said})


def _accepted(row: PodRow, message: Message, delivered: Delivered, status: int = 202) -> Response:
    view = {
        "pod_id": row.id,
        "message_id": message.message_id,
        "status": delivered.status,
        "existed": delivered.existed,
    }
    return json_response(view, status)


def _answer_id(plain: dict[str, Json]) -> str:
    """The same answer has the same id, so that sending it again changes nothing."""
    said = "\x00".join(f"{key}={plain[key]}" for key in sorted(plain))
    return f"answer:{blake2b(said.encode('utf-8', 'replace'), digest_size=16).hexdigest()}"
