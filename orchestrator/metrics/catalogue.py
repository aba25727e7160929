"""Every metric there is: its name, kind, labels and meaning. The table in docs/formats/metrics.md is made from this.

Names are for ever. No label grows with the number of Pods, and none names a Pod, a session or a tenant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from session_store.counters import FAMILIES, Family

PREFIX = "polypod_"


@dataclass(frozen=True, slots=True)
class Metric:
    """`source`: `log`, counted with what is committed and kept in the store; `store` and `directory`, counted in the
    memory of that process, so from 0 again when it is restarted; `now`, asked for at each scrape."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    about: str
    labels: tuple[str, ...] = ()
    source: Literal["log", "store", "directory", "now"] = "now"


def of_family(family: Family) -> Metric:
    kind: Literal["counter", "histogram"] = "histogram" if family.bounds else "counter"
    name = f"{PREFIX}{family.name}_{'seconds' if family.bounds else 'total'}"
    return Metric(name, kind, family.about, family.labels, "log" if family.kept else "store")


def _gauge(name: str, about: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, "gauge", about, labels)


PODS = _gauge("pods", "Pods, by status (the fold over log and inbox) and profile.", "status", "profile")
MESSAGES_WAITING = _gauge("messages_waiting", "Messages in inboxes that no turn has taken in yet.", "kind")
MESSAGES_OLDEST = _gauge("messages_waiting_oldest_seconds", "Age of the oldest of them.", "kind")
MAILBOX_DEEPEST = _gauge("mailbox_deepest_messages", "Messages in the fullest inbox.")
EVENTS_UNDELIVERED = _gauge("pod_events_undelivered", "PodEvents that are not in their parent's log yet.")
EVENTS_OLDEST = _gauge("pod_events_undelivered_oldest_seconds", "Age of the oldest of them; 0 without one.")
QUESTIONS_OPEN = _gauge("questions_open", "Questions that wait for a person.", "kind")
QUESTIONS_OLDEST = _gauge("questions_open_oldest_seconds", "Age of the oldest of them; 0 without one.")
PLACED = _gauge("pods_placed", "Pods that have a process, or are about to get or lose one.", "phase")
BLOCKED = _gauge("pods_blocked", "Pods that no start can help: their logs are damaged.")
ACTORS = _gauge("actors", "Processes that hold Pods or stand ready to.", "phase")
POOL_READY = _gauge("pool_ready", "Processes that stand ready without a Pod.")
NODES = _gauge("nodes", "Nodes of the Ray cluster that are alive.")
GRANTS = _gauge("limits_under_way", "Requests let through by the shared limits, by the provider's model.", "model")
ASKS_WAITING = _gauge("limits_waiting", "Requests that wait for the shared limits.", "model")
PART_UP = _gauge("part_up", "Whether the part answered the scrape; without it its metrics are missing.", "part")
BUILD = _gauge("build_info", "Always 1; the version of the gateway.", "version")
ALERTS = Metric(f"{PREFIX}alerts_total", "counter", "Alerts raised for people.", ("level", "code"), "directory")

ASKED: tuple[Metric, ...] = (
    *(PODS, MESSAGES_WAITING, MESSAGES_OLDEST, MAILBOX_DEEPEST, EVENTS_UNDELIVERED, EVENTS_OLDEST, QUESTIONS_OPEN),
    *(QUESTIONS_OLDEST, PLACED, BLOCKED, ACTORS, POOL_READY, NODES, GRANTS, ASKS_WAITING, PART_UP, BUILD, ALERTS),
)
METRICS: tuple[Metric, ...] = (*map(of_family, FAMILIES), *ASKED)
