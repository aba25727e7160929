"""Token accounting: every request once, forks from zero, workers under their own label, cost from a price table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.protocol.usage import WorkerUsage
from orchestrator.usage import UsageFold, below, report
from session_store.backends.memory import MemoryStore
from session_store.codec import encode_entry
from session_store.entries import ConfigChanged, LlmUsage, LogEntry, Origin, Rewound, SegmentStart
from session_store.rows import PodRow, StoredEntry
from tests.support.store import Ticks, create, row

PRICES = {"fast": {"input": 2.0, "cache_read": 0.5, "cache_write": 3.0, "output": 10.0}}


def start(model: str = "fast", origin: Origin | None = None, **prices: float) -> SegmentStart:
    return SegmentStart("s", {"model": {"name": model, "prices": prices}}, "", (), 1, origin=origin)


def used(request_id: str, tokens: int = 1_000_000, **more: Any) -> LlmUsage:
    fields = {"cache_read": 0, "cache_write": 0, "output": 0, "latency": 1, "model": "fast-2026", **more}
    return LlmUsage(request_id, 1, tokens, **fields)


def worker(request_id: str, tokens: int = 100) -> Any:
    return WorkerUsage("extract", request_id, "small", tokens, 0, 0, 7, 1).entry()


def folded(*entries: LogEntry) -> UsageFold:
    fold = UsageFold()
    fold.take(StoredEntry(seq, 0, encode_entry(entry)) for seq, entry in enumerate(entries, 1))
    return fold


def tree() -> dict[str, PodRow]:
    """A root with a child that has a child, and another root."""
    store = MemoryStore(Ticks())
    create(store, "root", name="root")
    made = row(store, "root")
    child = replace(made, id="child", name="child", parent_id="root", depth=1)
    return {
        "root": made,
        "child": child,
        "grandchild": replace(child, id="grandchild", name="grandchild", parent_id="child", depth=2),
        "other": replace(made, id="other", name="other", root_id="other"),
    }


def test_every_request_counts_once_also_what_a_rewind_removed() -> None:
    fold = folded(start(), used("a", 5), used("a", 5), used("b", 7), Rewound(2), used("b", 7), worker("w"), worker("w"))
    spent = {key: (s.requests, s.input) for key, s in fold.spent.items()}
    assert spent == {("pod", "fast"): (2, 12), ("extract", "small"): (1, 100)}


def test_a_fork_starts_at_zero() -> None:
    assert folded(start(origin=Origin("source", 40))).spent == {}


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (used("a"), 2.0),
        (used("a", cache_read=900_000), 0.1 * 2.0 + 0.9 * 0.5),
        (used("a", cache_read=500_000, cache_write=400_000, output=100_000), 0.1 * 2 + 0.5 * 0.5 + 0.4 * 3 + 0.1 * 10),
    ],
)
def test_X01_cached_tokens_are_parts_of_the_input_and_cost_their_own_price(usage: LlmUsage, cost: float) -> None:
    [found] = report("pod", [(tree()["root"], folded(start(), usage))], PRICES)["rows"]
    assert found["input"] == 1_000_000
    assert found["cost"] == pytest.approx(cost)


def test_prices_of_the_settings_come_before_those_of_the_log_and_none_is_said() -> None:
    sessions = [
        (tree()["root"], folded(start(input=1.0), used("a"), ConfigChanged({"model": {"name": "free"}}), used("b")))
    ]
    assert [r["cost"] for r in report("model", sessions, {})["rows"]] == [1.0, None]
    told = report("model", sessions, PRICES)
    assert [(r["model"], r["cost"]) for r in told["rows"]] == [("fast", 2.0), ("free", None)]
    assert (told["total"]["cost"], told["total"]["unpriced"]) == (2.0, 1)


def test_reports_by_pod_tree_model_and_worker() -> None:
    rows = tree()
    sessions = [
        (rows["root"], folded(start(), used("a", 10), worker("w"))),
        (rows["child"], folded(start(), used("b", 20, estimated=True))),
        (rows["other"], folded(start("slow"), used("c", 40))),
    ]

    def told(by: Any, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(r[n] for n in (*names, "requests", "input")) for r in report(by, sessions, PRICES)["rows"]]

    assert told("pod", "pod_name", "worker") == [
        ("root", "pod", 1, 10),
        ("root", "extract", 1, 100),
        ("child", "pod", 1, 20),
        ("other", "pod", 1, 40),
    ]
    assert told("tree", "root_name", "worker") == [
        ("root", "pod", 2, 30),
        ("root", "extract", 1, 100),
        ("other", "pod", 1, 40),
    ]
    assert told("model", "model") == [("fast", 2, 30), ("small", 1, 100), ("slow", 1, 40)]
    assert told("worker", "worker") == [("pod", 3, 70), ("extract", 1, 100)]
    total = report("pod", sessions, PRICES)["total"]
    assert (total["requests"], total["input"], total["estimated"]) == (4, 170, 1)


def test_below_a_pod_are_its_descendants() -> None:
    rows = tree()
    assert [r.id for r in below(list(rows.values()), "child")] == ["child", "grandchild"]


def test_a_fold_goes_on_where_it_stood() -> None:
    whole, entries = folded(start(), used("a"), worker("w"), used("b")), [start(), used("a"), worker("w"), used("b")]
    parts = UsageFold()
    stored = [StoredEntry(seq, 0, encode_entry(entry)) for seq, entry in enumerate(entries, 1)]
    parts.take(stored[:2])
    parts.take(stored[2:])
    assert parts == whole
