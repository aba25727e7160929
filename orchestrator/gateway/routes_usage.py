"""What was spent: tokens and money, over all Pods of the caller or one and those below it."""

from __future__ import annotations

from dataclasses import replace

from starlette.responses import Response

from orchestrator.gateway import bodies
from orchestrator.gateway.context import Call, Gateway, json_response
from orchestrator.usage import below, report
from session_store.requests import Query
from session_store.rows import PodRow

PAGE = 500


async def usage(call: Call) -> Response:
    """200 `{"by", "rows", "total", "unread"}`; `unread` are Pods whose logs are damaged."""
    asked = call.query(bodies.UsageQuery)
    gateway, tenant = call.gateway, call.caller.tenant
    if asked.pod is None:
        rows = await _rows(gateway, Query(tenant=tenant, limit=PAGE))
    else:
        top = await gateway.row(asked.pod, tenant)
        rows = below(await _rows(gateway, Query(tenant=tenant, root=top.root_id, limit=PAGE)), top.id)
    found = [(row, await gateway.usage.of(gateway.feed, row)) for row in rows]
    good = [(row, fold) for row, fold in found if fold is not None]
    unread = [row.id for row, fold in found if fold is None]
    return json_response({**report(asked.by, good, gateway.options.prices), "unread": unread})


async def _rows(gateway: Gateway, query: Query) -> list[PodRow]:
    rows: list[PodRow] = []
    while True:
        found = await gateway.feed.ask(query)
        rows += found.rows
        if found.next is None:
            return rows
        query = replace(query, cursor=found.next)
