"""The few figures that `polypod top` and `GET /v1/top` show. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.metrics.sample import Sample, Spread, counted, spreads
from session_store import counters
from session_store.items import Json
from session_store.rows import CensusFigures, Waiting
from session_store.status import STATUSES

_WITH_PROCESS = ("binding", "live", "parking")


def overview(sample: Sample) -> dict[str, Json]:
    """`{"pods", "pool", "queue", "questions", "store", "limits", "directory"}`; a part that did not answer is null."""
    census, counts, status = sample.census, sample.counters, sample.status
    return {
        "now": sample.now,
        "pods": None if census is None else _pods(census, status),
        "pool": None if status is None else _pool(status),
        "queue": None if census is None else _queue(census, sample.now),
        "questions": None if census is None else _waiting(census.questions, sample.now),
        "store": None if counts is None else _store(counts),
        "limits": None if status is None else status.get("limits") or {},
        "directory": None if status is None else _directory(status),
    }


def _pods(census: CensusFigures, status: Mapping[str, Json] | None) -> dict[str, Json]:
    by_status = {name: sum(group.pods for group in census.pods if group.status == name) for name in STATUSES}
    living = sum(by_status.values()) - by_status["ended"]
    placed = {} if status is None else status.get("pods") or {}
    live = sum(int(placed.get(phase, 0)) for phase in _WITH_PROCESS)
    return {"live": live, "parked": max(0, living - live), "by_status": by_status}


def _pool(status: Mapping[str, Json]) -> dict[str, Json]:
    return {"ready": status.get("pool", 0), "processes": status.get("actors") or {}, "nodes": status.get("nodes")}


def _queue(census: CensusFigures, now: int) -> dict[str, Json]:
    deepest = max((group.deepest for group in census.pods), default=0)
    by_kind = {w.kind: w.number for w in census.messages}
    return {**_waiting(census.messages, now), "deepest": deepest, "by_kind": by_kind}


def _waiting(found: Iterable[Waiting], now: int) -> dict[str, Json]:
    """`oldest`: seconds; null when nothing waits."""
    waiting = list(found)
    oldest = min((w.oldest for w in waiting), default=None)
    number = sum(w.number for w in waiting)
    return {"waiting": number, "oldest": None if oldest is None else max(0, now - oldest) / 1000}


def _store(counts: Mapping[str, int]) -> dict[str, Json]:
    """`append_ms` of appends since the store's process started: upper bounds of buckets, null without any."""
    took = spreads(counters.APPEND_TIME, counts).get((), Spread())
    return {
        "entries": sum(counted(counters.ENTRIES, counts).values()),
        "refusals": sum(counted(counters.REFUSALS, counts).values()),
        "turns": sum(counted(counters.TURNS, counts).values()),
        "requests": sum(counted(counters.REQUESTS, counts).values()),
        "append_ms": {f"p{share}": took.quantile(counters.APPEND_TIME, share / 100) for share in (50, 99)},
    }


def _directory(status: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "epoch": status.get("epoch"),
        "restarts": status.get("restarts", 0),
        "given_up": status.get("given_up", 0),
        "blocked": len(status.get("blocked") or ()),
    }
