"""The streams, and the probes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.responses import Response

from orchestrator.events import wire_form
from orchestrator.gateway import bodies
from orchestrator.gateway.alerts import alert_event, hearing
from orchestrator.gateway.context import Call, json_response
from orchestrator.gateway.reader import PodReader, start_of
from orchestrator.gateway.streams import EventStream, Reader
from orchestrator.gateway.tree import TreeReader, TreeScope, alerts_held
from orchestrator.ports import ControlPlaneError
from session_store.errors import StoreError, StoreUnavailable
from session_store.items import Json

LAST_EVENT_ID = "last-event-id"
READY_WAIT = 2.0


async def of_pod(call: Call) -> Response:
    """`Last-Event-ID` wins over `after`: it is what a client that reconnects by itself sends."""
    gateway, asked = call.gateway, call.query(bodies.EventsQuery)
    row = await call.row()
    start = start_of(call.request.headers.get(LAST_EVENT_ID) or asked.after, row.head)

    @asynccontextmanager
    async def source() -> AsyncIterator[Reader]:
        async with gateway.topics.join(row) as topic:
            yield PodReader(topic, start, gateway.show, gateway.options.keepalive, gateway.now_ms)

    return EventStream(source, gateway.options)


async def of_all(call: Call) -> Response:
    """All Pods of the caller, or those of one tree."""
    gateway, asked = call.gateway, call.query(bodies.TreeQuery)
    tenant = call.caller.tenant
    root = None if asked.root is None else (await gateway.row(asked.root, tenant)).root_id
    given = call.request.headers.get(LAST_EVENT_ID) or asked.after or None
    reader = TreeReader(gateway.feed, TreeScope(tenant, root), given, gateway.now_ms)

    @asynccontextmanager
    async def source() -> AsyncIterator[Reader]:
        async with gateway.feed.follow(reader.notice), hearing(gateway.feed, None, reader.hear):
            yield reader

    return EventStream(source, gateway.options)


async def alerts(call: Call) -> Response:
    """The latest kept alerts of the caller's Pods and, for the home's owner, of the control plane; oldest first."""
    gateway, asked = call.gateway, call.query(bodies.AlertsQuery)
    tenant = call.caller.tenant
    about = None if asked.pod is None else (await gateway.row(asked.pod, tenant)).id
    root = None if asked.root is None else (await gateway.row(asked.root, tenant)).root_id
    try:
        async with asyncio.timeout(gateway.options.store_wait):
            batch = await gateway.plane.alerts(about, 0, 0.0)
    except TimeoutError:
        raise StoreUnavailable("the Directory gave no answer") from None
    mine = await alerts_held(gateway.feed, TreeScope(tenant, root), batch.alerts)
    shown = [wire_form(alert_event(alert, with_pod=True)).data for alert in mine[-asked.limit :]]
    return json_response({"alerts": shown})


async def alive(call: Call) -> Response:
    return json_response({"status": "ok"})


async def ready(call: Call) -> Response:
    """Those without a token are told yes or no only."""
    status: dict[str, Json]
    try:
        async with asyncio.timeout(READY_WAIT):
            status = await call.gateway.plane.status()
    except (ControlPlaneError, StoreError, TimeoutError) as error:
        status = {"ready": False, "reason": str(error) or "no answer of the control plane"}
    told = status if call.caller.tenant else {"ready": bool(status.get("ready"))}
    return json_response(told, 200 if status.get("ready") else 503)
