"""`/metrics` for Prometheus and `/v1/top` for people: figures of the whole polypod, for who runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.responses import Response

from orchestrator.gateway.access import DEFAULT_TENANT
from orchestrator.gateway.context import Call, Gateway, json_response
from orchestrator.gateway.problems import HttpProblem
from orchestrator.home import VERSION
from orchestrator.metrics.overview import overview
from orchestrator.metrics.sample import Sample
from orchestrator.ports import ControlPlaneError
from session_store.errors import StoreError
from session_store.items import Json
from session_store.requests import Census, Counters
from session_store.rows import CensusFigures, CounterValues

STATUS_WAIT = 2.0
"""Seconds that the Directory is waited for: a scrape must not hang on one that restarts."""


async def metrics(call: Call) -> Response:
    """200 with what answers; `polypod_part_up` says who did not."""
    _operator_only(call)
    sample = await take_sample(call.gateway)
    from orchestrator.metrics.exposition import CONTENT_TYPE, text  # lazy: start-up, most gateways are never scraped

    return Response(text(sample), headers={"Cache-Control": "no-store"}, media_type=CONTENT_TYPE)


async def top(call: Call) -> Response:
    _operator_only(call)
    return json_response(overview(await take_sample(call.gateway)))


def _operator_only(call: Call) -> None:
    """The figures are of all tenants together, so none of them sees them: 403."""
    if call.caller.tenant != DEFAULT_TENANT:
        raise HttpProblem("forbidden", "Only the operator's token ([gateway] token) opens this: it shows all tenants.")


async def take_sample(gateway: Gateway) -> Sample:
    (counters, census), status = await asyncio.gather(_from_store(gateway), _from_directory(gateway))
    values = None if counters is None else counters.values
    return Sample(gateway.now_ms(), VERSION, values, census, status)


async def _from_store(gateway: Gateway) -> tuple[CounterValues | None, CensusFigures | None]:
    try:
        return await gateway.feed.ask(Counters()), await gateway.feed.ask(Census())
    except StoreError:
        return None, None


async def _from_directory(gateway: Gateway) -> Mapping[str, Json] | None:
    try:
        async with asyncio.timeout(STATUS_WAIT):
            return await gateway.plane.status()
    except (ControlPlaneError, StoreError, TimeoutError):
        return None
