"""Token accounting: what a log says was spent, and the report over many logs. Pure; the one place that adds tokens up.

Every request counts once, by its id. A session's own requests are its `llm_usage` entries; those of internal workers
(the extractor, …) are `worker.usage` annotations and stand under the worker's label. A fork starts at zero, since what
it was forked from was paid for there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from actors.protocol.usage import DOMAIN, WorkerUsage, read_usage
from session_store.codec import decode_entry
from session_store.entries import ConfigChanged, Extension, LlmUsage, LogEntry, SegmentStart
from session_store.items import Json
from session_store.pricing import Prices, cost
from session_store.rows import PodRow, StoredEntry

By: TypeAlias = Literal["pod", "tree", "model", "worker"]
GROUPINGS: tuple[By, ...] = get_args(By)
POD = "pod"
"""The label of a session's own requests."""
UNKNOWN_MODEL = "unknown"
_FOLDED = (b"llm_usage", DOMAIN.encode(), b"segment_start", b"config_changed")


@dataclass(slots=True)
class Spent:
    """Tokens of some requests. `input` is the whole prompts, of which the cache figures are parts; `estimated` counts
    requests whose provider reported nothing."""

    requests: int = 0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    estimated: int = 0

    def count(self, usage: LlmUsage | WorkerUsage) -> None:
        self.requests += 1
        self.input += usage.input
        self.cache_read += usage.cache_read
        self.cache_write += usage.cache_write
        self.output += usage.output
        self.estimated += usage.estimated

    def add(self, other: Spent) -> None:
        self.requests += other.requests
        self.input += other.input
        self.cache_read += other.cache_read
        self.cache_write += other.cache_write
        self.output += other.output
        self.estimated += other.estimated

    def cost(self, prices: Prices) -> float:
        return cost(self, prices)


@dataclass(slots=True)
class UsageFold:
    """One session. `spent` by (worker, model); `prices` are those that its config named, by model."""

    head: int = 0
    spent: dict[tuple[str, str], Spent] = field(default_factory=dict)
    prices: dict[str, Prices] = field(default_factory=dict)
    _model: str | None = None
    _counted: set[str] = field(default_factory=set)

    @property
    def requests(self) -> int:
        """How many are counted; the fold grows with them."""
        return len(self._counted)

    def take(self, entries: Iterable[StoredEntry]) -> None:
        """Entries as stored, in order; only those that matter are decoded. Raises `UnreadableEntry`."""
        for stored in entries:
            if any(word in stored.body for word in _FOLDED):
                self.apply(decode_entry(stored.body, stored.seq, stored.ts))
            self.head = stored.seq

    def apply(self, entry: LogEntry) -> None:
        match entry:
            case SegmentStart(config=config):
                self._note_model(config)
            case ConfigChanged(config=config):
                self._note_model(config or {})
            case LlmUsage():
                self._count(POD, self._model or entry.model or UNKNOWN_MODEL, entry)
            case Extension():
                found = read_usage(entry)
                if found is not None:
                    self._count(found.worker, found.model, found)
            case _:
                pass

    def _count(self, worker: str, model: str, usage: LlmUsage | WorkerUsage) -> None:
        if usage.request_id not in self._counted:
            self._counted.add(usage.request_id)
            self.spent.setdefault((worker, model), Spent()).count(usage)

    def _note_model(self, config: Mapping[str, Json]) -> None:
        model = config.get("model")
        if not isinstance(model, dict) or not isinstance(model.get("name"), str):
            return
        self._model = str(model["name"])
        prices = model.get("prices")
        if isinstance(prices, dict) and prices:
            self.prices[self._model] = {str(k): float(v) for k, v in prices.items() if isinstance(v, (int, float))}


@dataclass(slots=True)
class _Group:
    head: dict[str, Json]
    spent: Spent = field(default_factory=Spent)
    cost: float = 0.0
    unpriced: int = 0

    def add(self, spent: Spent, prices: Prices | None) -> None:
        self.spent.add(spent)
        if prices is None:
            self.unpriced += spent.requests
        else:
            self.cost += spent.cost(prices)

    def plain(self) -> dict[str, Json]:
        """`cost` null: no price is known of any of these requests; `unpriced` counts those without one."""
        spent = self.spent
        known = spent.requests == 0 or self.unpriced < spent.requests
        return {
            **self.head,
            "requests": spent.requests,
            "input": spent.input,
            "cache_read": spent.cache_read,
            "cache_write": spent.cache_write,
            "output": spent.output,
            "estimated": spent.estimated,
            "cost": round(self.cost, 9) if known else None,
            "unpriced": self.unpriced,
        }


def report(by: By, sessions: Sequence[tuple[PodRow, UsageFold]], prices: Mapping[str, Prices]) -> dict[str, Json]:
    """`{"by", "rows", "total"}`, rows in order of first appearance. `prices` by model, before those in the logs.

    By Pod and by tree the tokens of workers have rows of their own.
    """
    names = {row.id: row.name for row, _ in sessions}
    groups: dict[tuple[str, ...], _Group] = {}
    total = _Group({})
    for row, fold in sessions:
        for (worker, model), spent in fold.spent.items():
            key, head = _group(by, row, names, (worker, model))
            price = prices.get(model) or fold.prices.get(model)
            groups.setdefault(key, _Group(head)).add(spent, price)
            total.add(spent, price)
    return {"by": by, "rows": [group.plain() for group in groups.values()], "total": total.plain()}


def below(rows: Sequence[PodRow], top: str) -> list[PodRow]:
    """The Pod `top` and its descendants among the rows of its tree, parents before children."""
    kept = {top}
    for row in rows:  # in order of creation, so a parent comes before its children
        if row.parent_id in kept:
            kept.add(row.id)
    return [row for row in rows if row.id in kept]


def _group(
    by: By, row: PodRow, names: Mapping[str, str], spent_by: tuple[str, str]
) -> tuple[tuple[str, ...], dict[str, Json]]:
    worker, model = spent_by
    match by:
        case "pod":
            return (row.id, worker), {"pod_id": row.id, "pod_name": row.name, "worker": worker}
        case "tree":
            root_name = names.get(row.root_id, "")
            return (row.root_id, worker), {"root_id": row.root_id, "root_name": root_name, "worker": worker}
        case "model":
            return (model,), {"model": model}
        case "worker":
            return (worker,), {"worker": worker}
