"""Pods: create, list, show, log, tasks, result, inbox."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from starlette.responses import Response

from actors.protocol.tasks import face_in
from orchestrator.gateway import bodies
from orchestrator.gateway.context import Call, json_response
from orchestrator.gateway.door import place_of, refused
from orchestrator.gateway.problems import HttpProblem
from orchestrator.gateway.results import ResultFold, result_view
from orchestrator.gateway.views import entry_view, inbox_view, tasks_view
from orchestrator.ports import NewPod
from session_store.codec import to_plain
from session_store.errors import UnknownSession
from session_store.reading import decoded
from session_store.requests import FindMessage, Query, Read
from session_store.rows import PodRow

PAGE = 500
STEP = 64


async def create(call: Call) -> Response:
    """201 with the new Pod; 200 with the same one when its `message_id` was used before."""
    body = await call.body(bodies.NewPodBody)
    if body.workspace is not None and not call.caller.owner:
        raise HttpProblem("forbidden", "Only the home's own commands may set `workspace`.")
    new = NewPod(
        tenant=call.caller.tenant,
        message_id=body.message_id or call.gateway.new_id(),
        segments=body.typed(body.prompt),
        name=body.name,
        profile=body.profile,
        model=body.model,
        scope=None if body.scope is None else body.scope.scope(),
        limits=body.limits.model_dump(exclude_none=True),
        metadata=dict(body.metadata),
        workspace=body.workspace,
        owner_run=call.caller.owner and body.workspace is not None,
    )
    place = call.gateway.door.place(new)
    if place is not None and (told := await call.gateway.door.refusal(place, new.segments)) is not None:
        made = None if body.message_id is None else await _made_by(call, body.message_id)
        if made is None:
            raise refused(told)
        return json_response(await call.gateway.show(made), 200)  # accepted when its workflows were there
    reply = await call.gateway.plane.create(new)
    row = await call.gateway.row(reply.pod_id, call.caller.tenant)
    headers = {"Location": f"/v1/pods/{row.id}"}
    return json_response(await call.gateway.show(row), 200 if reply.existed else 201, headers)


async def _made_by(call: Call, message_id: str) -> PodRow | None:
    found = await call.gateway.feed.ask(Query(tenant=call.caller.tenant, made_by=message_id, limit=1))
    return found.rows[0] if found.rows else None


async def show_all(call: Call) -> Response:
    asked = call.query(bodies.ListQuery)
    tenant = call.caller.tenant
    found = await call.gateway.feed.ask(
        Query(
            tenant=tenant,
            status=asked.status,
            parent=asked.parent,
            root=asked.root,
            name=asked.name,
            limit=asked.limit,
            cursor=asked.cursor,
        )
    )
    pods = await asyncio.gather(*(call.gateway.show(row) for row in found.rows))
    return json_response({"pods": pods, "next": found.next})


async def show(call: Call) -> Response:
    call.query(bodies.NoQuery)
    return json_response(await call.gateway.show(await call.row()))


async def log(call: Call) -> Response:
    asked = call.query(bodies.LogQuery)
    row = await call.row()
    found = await call.gateway.feed.ask(Read(row.id, asked.after, asked.limit))
    entries = [entry_view(entry) for entry in decoded(row.id, found.entries)]
    return json_response({"entries": entries, "head_seq": found.head})


async def tasks(call: Call) -> Response:
    """From the log alone: the same for a live, a parked and an ended Pod."""
    call.query(bodies.NoQuery)
    row = await call.row()
    found, head = await call.gateway.tasks.look(row.id)
    return json_response(tasks_view(found, face_in(row.config), head))


async def completions(call: Call) -> Response:
    """What a reference that begins with `sigil` and `prefix` may mean in this Pod."""
    asked = call.query(bodies.CompletionQuery)
    told = await call.gateway.door.complete(place_of(await call.row()), asked.sigil, asked.prefix, asked.limit)
    return json_response({"completions": to_plain(told.found), "more": told.more})


async def inbox(call: Call) -> Response:
    call.query(bodies.NoQuery)
    rows: list[PodRow] = []
    query = Query(tenant=call.caller.tenant, waiting_on_person=True, limit=PAGE)
    while True:
        found = await call.gateway.feed.ask(query)
        rows += found.rows
        if found.next is None:
            return json_response(inbox_view(rows))
        query = replace(query, cursor=found.next)


async def result(call: Call) -> Response:
    """Waits as long as the client does, at most `wait` seconds."""
    asked = call.query(bodies.ResultQuery)
    row = await call.row()
    if asked.message_id is not None:
        await _needed(call, row.id, asked.message_id)
    wait = min(asked.wait, call.gateway.options.result_wait)
    waiting = asyncio.create_task(_awaited(call, row, asked.message_id, wait))
    gone = asyncio.create_task(_gone(call))
    try:
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else Response(status_code=499)
    finally:
        waiting.cancel()
        gone.cancel()
        await asyncio.gather(waiting, gone, return_exceptions=True)


async def _awaited(call: Call, row: PodRow, message_id: str | None, wait: float) -> Response:
    pod_id, tenant, gateway = row.id, row.tenant, call.gateway
    fold = ResultFold(message_id)

    async def of_message() -> Response | None:
        row = await gateway.row(pod_id, tenant)
        state = await gateway.feed.ask(FindMessage(pod_id, message_id or ""))
        if state.state == "undeliverable":
            problem = {"type": "undeliverable", "message": "The Pod ended before it took the message."}
            return json_response({**result_view(row, None), "error": problem})
        if state.state == "consumed":
            await _read_on(call, pod_id, fold, state.seq)
            if fold.is_over(row):
                # The row of before the entries may still say `running`.
                return json_response(result_view(await gateway.row(pod_id, tenant), fold.ended))
        return None

    async def of_last_run() -> Response | None:
        row = await gateway.row(pod_id, tenant)
        if row.status in ("running", "waiting_on_children"):
            return None
        last = ResultFold()
        last.seq = row.run_seq - 1
        if row.run_id is not None:
            await _read_on(call, pod_id, last, 0)
        return json_response(result_view(row, last.ended))

    found = await gateway.until(pod_id, of_last_run if message_id is None else of_message, wait)
    if found is None:
        return json_response(result_view(await gateway.row(pod_id, tenant), None))
    return found


async def _read_on(call: Call, pod_id: str, fold: ResultFold, seq: int) -> None:
    """Give the fold what it has not seen; before that, find the message, whose commit reaches up to `seq`."""
    if fold.found or fold.seq:
        fold.take(await call.gateway.entries(pod_id, fold.seq))
        return
    step = STEP
    while True:
        after = max(0, seq - step)
        fold.take(await call.gateway.entries(pod_id, after))
        if after == 0 or fold.found:
            return
        step *= 4


async def _needed(call: Call, pod_id: str, message_id: str) -> None:
    try:
        state = await call.gateway.feed.ask(FindMessage(pod_id, message_id))
    except UnknownSession:
        state = None
    if state is None or state.session is None:
        raise HttpProblem("not-found", f"Pod {pod_id} has got no message {message_id!r}.")


async def _gone(call: Call) -> None:
    while (await call.request.receive())["type"] != "http.disconnect":
        continue
