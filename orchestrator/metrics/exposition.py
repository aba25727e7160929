"""A sample as Prometheus text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Exposed
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from orchestrator.metrics import catalogue
from orchestrator.metrics.catalogue import Metric, of_family
from orchestrator.metrics.sample import Sample, counted, spreads
from session_store.counters import FAMILIES, Family
from session_store.items import Json
from session_store.rows import CensusFigures, Waiting

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BILLION = 1e9


class _Once(Collector):
    def __init__(self, families: Iterable[Exposed]) -> None:
        self._families = families

    def collect(self) -> Iterable[Exposed]:
        return self._families


def text(sample: Sample) -> bytes:
    """The whole page."""
    return generate_latest(_Once(families(sample)))


def families(sample: Sample) -> list[Exposed]:
    found = list(_now(sample))
    if sample.counters is not None:
        found += [_of_log(family, sample.counters) for family in FAMILIES]
    if sample.census is not None:
        found += _census(sample.census, sample.now)
    if sample.status is not None:
        found += _control_plane(sample.status)
    return found


def _of_log(family: Family, counters: Mapping[str, int]) -> Exposed:
    metric = of_family(family)
    if family.bounds:
        return _histogram(metric, family, counters)
    numbers = counted(family, counters)
    if not family.labels:
        numbers.setdefault((), 0)
    scale = _BILLION if family.nano else 1
    return _counter(metric, {labels: number / scale for labels, number in numbers.items()})


def _histogram(metric: Metric, family: Family, counters: Mapping[str, int]) -> Exposed:
    exposed = HistogramMetricFamily(metric.name, metric.about, labels=metric.labels)
    for labels, spread in sorted(spreads(family, counters).items()):
        below, buckets = 0, []
        for bound, number in zip((*(b / 1000 for b in family.bounds), float("inf")), spread.buckets, strict=True):
            below += number
            buckets.append((_bound(bound), float(below)))
        exposed.add_metric(labels, buckets, spread.total_ms / 1000)
    return exposed


def _bound(seconds: float) -> str:
    return "+Inf" if seconds == float("inf") else repr(seconds)


def _census(census: CensusFigures, now: int) -> Iterator[Exposed]:
    pods: dict[tuple[str, ...], float] = {}
    for group in census.pods:
        key = (group.status, group.profile or "default")
        pods[key] = pods.get(key, 0) + group.pods
    yield _gauge(catalogue.PODS, pods)
    yield _gauge(catalogue.MESSAGES_WAITING, {(w.kind,): w.number for w in census.messages})
    yield _gauge(catalogue.MESSAGES_OLDEST, {(w.kind,): age(w, now) for w in census.messages})
    yield _one(catalogue.MAILBOX_DEEPEST, max((group.deepest for group in census.pods), default=0))
    events = [w for w in census.messages if w.kind == "pod_event"]
    yield _one(catalogue.EVENTS_UNDELIVERED, sum(w.number for w in events))
    yield _one(catalogue.EVENTS_OLDEST, max((age(w, now) for w in events), default=0.0))
    yield _gauge(catalogue.QUESTIONS_OPEN, {(w.kind,): w.number for w in census.questions})
    yield _one(catalogue.QUESTIONS_OLDEST, max((age(w, now) for w in census.questions), default=0.0))


def age(waiting: Waiting, now: int) -> float:
    """Seconds since the oldest began to wait."""
    return max(0, now - waiting.oldest) / 1000


def _control_plane(status: Mapping[str, Json]) -> Iterator[Exposed]:
    yield _gauge(catalogue.PLACED, {(str(phase),): n for phase, n in _numbers(status, "pods")})
    yield _gauge(catalogue.ACTORS, {(str(phase),): n for phase, n in _numbers(status, "actors")})
    yield _one(catalogue.BLOCKED, len(status.get("blocked") or ()))
    yield _one(catalogue.POOL_READY, float(status.get("pool") or 0))
    yield _one(catalogue.NODES, float(status.get("nodes") or 0))
    raised = status.get("raised") or ()
    yield _counter(catalogue.ALERTS, {(str(level), str(code)): number for level, code, number in raised})
    limits = status.get("limits") or {}
    yield _gauge(catalogue.GRANTS, {(model,): n["under_way"] for model, n in limits.items()})
    yield _gauge(catalogue.ASKS_WAITING, {(model,): n["waiting"] for model, n in limits.items()})


def _now(sample: Sample) -> Iterator[Exposed]:
    answered = {"store": sample.counters is not None and sample.census is not None, "directory": bool(sample.status)}
    yield _gauge(catalogue.PART_UP, {(part,): float(up) for part, up in answered.items()})
    yield _gauge(catalogue.BUILD, {(sample.version,): 1.0})


def _numbers(status: Mapping[str, Json], table: str) -> Iterable[tuple[str, float]]:
    return ((str(name), float(number)) for name, number in (status.get(table) or {}).items())


def _counter(metric: Metric, values: Mapping[tuple[str, ...], float]) -> Exposed:
    exposed = CounterMetricFamily(metric.name, metric.about, labels=metric.labels)
    for labels, value in sorted(values.items()):
        exposed.add_metric(labels, value)
    return exposed


def _gauge(metric: Metric, values: Mapping[tuple[str, ...], float]) -> Exposed:
    exposed = GaugeMetricFamily(metric.name, metric.about, labels=metric.labels)
    for labels, value in sorted(values.items()):
        exposed.add_metric(labels, value)
    return exposed


def _one(metric: Metric, value: float) -> Exposed:
    return _gauge(metric, {(): value})
