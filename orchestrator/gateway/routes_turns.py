"""Going back: `rewind` a session to before one of its prompts, `fork` one from any of its turns; `compact` one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from starlette.responses import Response

from actors.protocol.compaction import read_record
from actors.protocol.ids import uuid7
from orchestrator.forks import ForkOrder, fork_of
from orchestrator.gateway import bodies
from orchestrator.gateway.context import PAGE, Call, json_response
from orchestrator.gateway.problems import HttpProblem, invalid
from session_store.codec import to_plain
from session_store.entries import Extension, LogEntry, Rewound, UserInput
from session_store.items import Json, Problem
from session_store.messages import USER, Message
from session_store.reading import decoded
from session_store.requests import Deliver, FindMessage, Read
from session_store.rows import PodRow


async def rewind(call: Call) -> Response:
    """202 once it is durable, with what came of it if it took place within `cancel_wait`; the same again: 200.

    Raises busy (not at rest, another rewind, the head has moved), pod-ended, invalid (no prompt of the history).
    """
    body = await call.body(bodies.RewindBody)
    row = await call.row()
    plain: dict[str, Json] = {"to": body.to_seq, "expected_head": body.expected_head}
    message = Message(body.message_id or call.gateway.new_id(), "rewind", USER, plain)
    delivered = await call.gateway.feed.ask(Deliver(row.id, message))
    call.gateway.hint(row.id)
    view = {
        "pod_id": row.id,
        "changed": not delivered.existed,
        "message_id": message.message_id,
        **await _rewound(call, row, message.message_id, body.to_seq),
    }
    return json_response(view, 200 if delivered.existed else 202)


async def fork(call: Call) -> Response:
    """201 with the new Pod; 200 with the same one when the `message_id` was used for this Pod before."""
    body = await call.body(bodies.ForkBody)
    row = await call.row()
    at_seq = row.head if body.at_seq is None else body.at_seq
    if at_seq > row.head:
        raise invalid(f"There is no entry {at_seq}: the log of {row.name or row.id} ends at {row.head}.")
    gateway = call.gateway
    session = uuid7(gateway.now_ms(), gateway.new_id().encode())
    order = ForkOrder(row.id, session, body.message_id or gateway.new_id(), row.tenant, body.name)
    entries = await _entries(call, row.id, at_seq)
    request = await asyncio.to_thread(fork_of, entries, at_seq, order)
    made = await gateway.feed.ask(replace(request, limits=gateway.options.limits))
    new = await gateway.row(made.session, row.tenant)
    headers = {"Location": f"/v1/pods/{new.id}"}
    return json_response(await gateway.show(new), 200 if made.existed else 201, headers)


async def compact(call: Call) -> Response:
    """202 once it is durable, with what came of it if that is known within `cancel_wait`; the same again: 200.

    Raises busy (not at rest, another compaction, a call that waits for a permission), pod-ended.
    """
    body = await call.body(bodies.ControlBody)
    row = await call.row()
    message = Message(body.message_id or call.gateway.new_id(), "compact", USER)
    delivered = await call.gateway.feed.ask(Deliver(row.id, message))
    call.gateway.hint(row.id)
    view = {
        "pod_id": row.id,
        "changed": not delivered.existed,
        "message_id": message.message_id,
        **await _compacted(call, row, message.message_id),
    }
    return json_response(view, 200 if delivered.existed else 202)


async def _compacted(call: Call, row: PodRow, message_id: str) -> dict[str, Json]:
    """`compacted` null: it goes on; true: with the sizes; false: with the error, and everything is as it was."""
    seq = await _consumed(call, row, message_id, "compacted")
    now = await call.gateway.row(row.id, row.tenant)
    view: dict[str, Json] = {"status": now.status, "head_seq": now.head, "compacted": None}
    if seq is None:
        return view
    found = await _entries(call, row.id, seq, seq - 1)
    records = [read_record(e) for e in found if isinstance(e, Extension)]
    record = next((r for r in records if r is not None and message_id in r.orders), None)
    if record is None:
        gone = Problem("cancelled", "The compaction was cancelled.")
        return {**view, "compacted": False, "error": to_plain(gone)}
    view |= {"compacted": record.error is None, "before": record.before}
    return view | ({"after": record.after} if record.error is None else {"error": to_plain(record.error)})


async def _consumed(call: Call, row: PodRow, message_id: str, what: str) -> int | None:
    """The head once the message was consumed; None when it was not within `cancel_wait`."""
    gateway = call.gateway

    async def consumed() -> int | None:
        state = await gateway.feed.ask(FindMessage(row.id, message_id))
        if state.state == "undeliverable":
            raise HttpProblem("pod-ended", f"The Pod {row.name or row.id} ended before it was {what}.")
        return None if state.state == "pending" else state.seq

    return await gateway.until(row.id, consumed, gateway.options.cancel_wait)


async def _rewound(call: Call, row: PodRow, message_id: str, to_seq: int) -> dict[str, Json]:
    """`rewound`: the seq of the entry that did it (null: not yet), `prompt`: what was taken back, to be sent anew."""
    gateway = call.gateway
    seq = await _consumed(call, row, message_id, "rewound")
    done = None
    if seq is not None:
        done = next((e for e in await _entries(call, row.id, seq, seq - 1) if isinstance(e, Rewound)), None)
    if done is not None:
        to_seq = done.to  # the id may have been used before, for another prompt
    target = await _entries(call, row.id, to_seq, to_seq - 1)
    now = await gateway.row(row.id, row.tenant)
    view: dict[str, Json] = {
        "status": now.status,
        "head_seq": now.head,
        "rewound": None if done is None else done.seq,
    }
    for entry in target:
        if isinstance(entry, UserInput):
            view["prompt"] = {"message_id": entry.message_id, "segments": to_plain(entry.segments)}
    return view


async def _entries(call: Call, pod_id: str, last: int, after: int = 0) -> list[LogEntry]:
    """Entries with `after < seq <= last`, as far as there are any."""
    entries: list[LogEntry] = []
    while after < last:
        found = await call.gateway.feed.ask(Read(pod_id, after, min(PAGE, last - after)))
        if not found.entries:
            break
        entries += decoded(pod_id, found.entries)
        after = entries[-1].seq
    return entries
