"""A sample as Prometheus text, and the figures of `top`."""

from __future__ import annotations

from typing import Any

from orchestrator.metrics.catalogue import METRICS
from orchestrator.metrics.exposition import families, text
from orchestrator.metrics.overview import overview
from orchestrator.metrics.sample import Sample, spreads
from scripts import list_metrics
from session_store import counters
from session_store.counters import FAMILIES, SEPARATOR
from session_store.rows import CensusFigures, PodCount, Waiting
from session_store.status import STATUSES
from tests.support.prometheus import check_metrics, series

NOW = 1_790_000_100_000
STATUS: dict[str, Any] = {
    "pods": {"live": 2, "binding": 1, "waiting": 4},
    "actors": {"ready": 3, "starting": 1},
    "pool": 1,
    "nodes": 2,
    "epoch": 5,
    "restarts": 1,
    "given_up": 0,
    "blocked": {"s": "damaged"},
    "raised": [["warning", "memory-script", 2]],
    "limits": {"gpt": {"under_way": 3, "waiting": 1}},
}
CENSUS = CensusFigures(
    (PodCount("idle", "", 3, 0, 0), PodCount("idle", "default", 1, 2, 2), PodCount("ended", "worker", 9, 0, 0)),
    (Waiting("pod_event", 2, NOW - 1_500), Waiting("prompt", 1, NOW + 5)),
    (Waiting("clarify", 1, NOW - 60_000),),
)


def of_every_family() -> dict[str, int]:
    """Something of each, as the store would give it."""
    counts: dict[str, int] = {}

    def count(key: str, more: int) -> None:
        counts[key] = counts.get(key, 0) + more

    for family in FAMILIES:
        labels = [f"a {label}" for label in family.labels]
        if family.bounds:
            for ms in (family.bounds[0], family.bounds[-1] + 1):
                family.observe(count, ms, *labels)
        else:
            count(family.key(*labels), 2_500_000_000 if family.nano else 3)
    return counts


def test_every_metric_is_exported_under_its_name_and_promtool_has_no_complaint() -> None:
    sample = Sample(NOW, "1.2.3", of_every_family(), CENSUS, STATUS)
    page = text(sample).decode()
    assert sorted(f"{f.name}{'_total' if f.type == 'counter' else ''}" for f in families(sample)) == sorted(
        m.name for m in METRICS
    )
    assert all(f.documentation for f in families(sample))
    check_metrics(page)


def test_values_labels_and_units() -> None:
    found = series(text(Sample(NOW, "1.2.3", of_every_family(), CENSUS, STATUS)).decode())
    wanted = {
        'polypod_cost_total{model="a model",worker="a worker"}': 2.5,
        "polypod_wakes_total": 3.0,
        'polypod_request_seconds_bucket{le="0.05",model="a model"}': 1.0,
        'polypod_request_seconds_bucket{le="600.0",model="a model"}': 1.0,
        'polypod_request_seconds_bucket{le="+Inf",model="a model"}': 2.0,
        'polypod_request_seconds_count{model="a model"}': 2.0,
        'polypod_request_seconds_sum{model="a model"}': 600.051,
        'polypod_pods{profile="default",status="idle"}': 4.0,
        "polypod_pod_events_undelivered": 2.0,
        "polypod_pod_events_undelivered_oldest_seconds": 1.5,
        'polypod_messages_waiting_oldest_seconds{kind="prompt"}': 0.0,
        "polypod_mailbox_deepest_messages": 2.0,
        "polypod_questions_open_oldest_seconds": 60.0,
        'polypod_pods_placed{phase="waiting"}': 4.0,
        'polypod_limits_waiting{model="gpt"}': 1.0,
        'polypod_alerts_total{code="memory-script",level="warning"}': 2.0,
        'polypod_part_up{part="store"}': 1.0,
        'polypod_build_info{version="1.2.3"}': 1.0,
    }
    assert {name: found.get(name) for name in wanted} == wanted


def test_a_part_that_does_not_answer_leaves_the_others() -> None:
    found = series(text(Sample(NOW, "1", None, None, STATUS)).decode())
    assert found['polypod_part_up{part="store"}'] == 0.0
    assert "polypod_pool_ready" in found
    assert "polypod_wakes_total" not in found
    found = series(text(Sample(NOW, "1", {}, CENSUS, None)).decode())
    assert found['polypod_part_up{part="directory"}'] == 0.0
    assert found["polypod_wakes_total"] == 0.0


def test_what_an_older_or_newer_polypod_has_counted_is_left_out() -> None:
    strange = {"turns": 1, f"turns{SEPARATOR}finished{SEPARATOR}more": 1, f"request{SEPARATOR}m{SEPARATOR}99": 1}
    found = series(text(Sample(NOW, "1", {**strange, "no_such_family": 4}, CENSUS, None)).decode())
    assert not [name for name in found if name.startswith(("polypod_turns_total", "polypod_no_such"))]


def test_the_table_in_the_docs_is_the_codes() -> None:
    assert list_metrics.main(["--check"]) == 0, "run: python -m scripts.list_metrics"


def test_quantiles_are_upper_bounds() -> None:
    counts: dict[str, int] = {}

    def count(key: str, more: int) -> None:
        counts[key] = counts.get(key, 0) + more

    for ms in [1] * 98 + [40, 10**9]:
        counters.APPEND_TIME.observe(count, ms)
    spread = spreads(counters.APPEND_TIME, counts)[()]
    told = [spread.quantile(counters.APPEND_TIME, share) for share in (0.5, 0.99, 1.0)]
    assert told == [1, 50, None]


def test_the_overview() -> None:
    assert overview(Sample(NOW, "1", of_every_family(), CENSUS, STATUS)) == {
        "now": NOW,
        "pods": {
            "live": 3,
            "parked": 1,
            "by_status": dict.fromkeys(STATUSES, 0) | {"idle": 4, "ended": 9},
        },
        "pool": {"ready": 1, "processes": {"ready": 3, "starting": 1}, "nodes": 2},
        "queue": {"waiting": 3, "oldest": 1.5, "deepest": 2, "by_kind": {"pod_event": 2, "prompt": 1}},
        "questions": {"waiting": 1, "oldest": 60.0},
        "store": {
            "entries": 3,
            "refusals": 3,
            "turns": 3,
            "requests": 3,
            "append_ms": {"p50": 1, "p99": None},
        },
        "limits": {"gpt": {"under_way": 3, "waiting": 1}},
        "directory": {"epoch": 5, "restarts": 1, "given_up": 0, "blocked": 1},
    }
    nothing = overview(Sample(NOW, "1"))
    assert {name for name, part in nothing.items() if part is not None} == {"now"}
