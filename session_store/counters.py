"""What is counted of the log, for metrics: the families, the form of their keys. Pure.

A counter is a whole number under a key: the family's name and its labels, joined by `SEPARATOR`. A distribution is a
number for each of its buckets, under the labels and the bucket's index, and one for the sum, in milliseconds, under the
labels and `SUM`. A published family keeps its labels and bounds: numbers under the old ones are in people's stores.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

SEPARATOR = "\x1f"
SUM = "ms"
LONGEST_LABEL = 80
MOST = 2**62
OTHER = "other"
"""Stands for every value that nobody chose who runs this polypod (a tool that a model made up)."""

Count: TypeAlias = Callable[[str, int], None]
"""Adds to the counter of a key."""

QUICK = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
SLOW = (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000)


@dataclass(frozen=True, slots=True)
class Family:
    """`bounds`: upper ends of a distribution's buckets in milliseconds, inclusive; none: a plain counter.

    `nano`: the number counts billionths. `kept`: in the catalogue, by the transaction that wrote what is counted;
    otherwise in the memory of the store's process.
    """

    name: str
    about: str
    labels: tuple[str, ...] = ()
    bounds: tuple[int, ...] = ()
    nano: bool = False
    kept: bool = True

    def key(self, *values: str) -> str:
        """Values that may be long are cut."""
        return _key(self.name, *values)

    def observe(self, count: Count, ms: int, *values: str) -> None:
        """Take one duration into the distribution."""
        base = self.key(*values)
        count(f"{base}{SEPARATOR}{bisect_left(self.bounds, ms)}", 1)
        count(f"{base}{SEPARATOR}{SUM}", max(0, ms))


@lru_cache(maxsize=4_096)
def _key(name: str, *values: str) -> str:
    return SEPARATOR.join((name, *(v[:LONGEST_LABEL].replace(SEPARATOR, " ") for v in values)))


ENTRIES = Family("log_entries", "Entries committed.", ("type",))
CREATED = Family("spawns", "Pods created: as a root, as a child, or as a fork of another session.", ("how",))
WAKES = Family("wakes", "Parked Pods brought back by a message.")
RESTARTS = Family("restarts", "Pods brought back under a next epoch after their process was lost.")
PARKS = Family("parks", "Pods at rest whose process gave the session up.")
GIVE_UPS = Family("give_ups", "Pods given up after repeated deaths.")
POD_ENDS = Family("pod_ends", "Pods ended for good.", ("reason",))
TURNS_STARTED = Family("turns_started", "Turns begun, by the kind of message that began them.", ("trigger",))
TURNS = Family("turns", "Turns that came to rest; a suspended one counts at each of its rests.", ("outcome",))
REQUESTS = Family(
    "requests", "Model requests: `ok` with a reply, `failed` when that ended the turn.", ("model", "outcome")
)
TOKENS = Family(
    "tokens",
    "Tokens of model requests. `input` is the whole prompt, of which `cache_read` and `cache_write` are parts. `worker`"
    " is `pod` for a session's own requests.",
    ("model", "kind", "worker"),
)
COST = Family(
    "cost",
    "Money spent, in the currency of the prices that the session began with; none for a worker's other model.",
    ("model", "worker"),
    nano=True,
)
REQUEST_TIME = Family("request", "From sending a request's last attempt to the end of its reply.", ("model",), SLOW)
FIRST_TOKEN_TIME = Family(
    "first_token", "From sending a request's last attempt to the first text shown of its reply.", ("model",), SLOW
)
TOOL_CALLS = Family("tool_calls", "Tool calls answered; of a tool that a Pod has not: `other`.", ("tool", "outcome"))
TOOL_TIME = Family(
    "tool",
    "From the commit of the reply with the call (or of the permission to run it) to that of its result.",
    ("tool",),
    (*QUICK, 60_000, 300_000, 600_000),
)
POD_EVENTS = Family("pod_events", "PodEvents sent to parents.", ("kind",))
POD_EVENT_TIME = Family(
    "pod_event_delivery",
    "From the commit that owes a PodEvent to the commit that takes it into the parent's log.",
    bounds=(*QUICK, 60_000, 600_000),
)
MESSAGES = Family("messages", "Messages taken into inboxes, each once.", ("kind",))
UNDELIVERABLE = Family("messages_undeliverable", "Messages kept beside a log that takes none any more.", ("kind",))
QUESTIONS = Family("questions", "Questions asked.", ("kind",))
QUESTION_ENDS = Family("question_ends", "Questions closed.", ("how",))
EXTRACTIONS = Family("extractions", "Ranges fixed for extraction (`started`), and done (`finished`).", ("outcome",))
EXTRACTION_LAG = Family(
    "extraction_lag",
    "From the commit of a range's last entry to that of the pointer past it.",
    bounds=(1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000),
)
COMPACTIONS = Family(
    "compactions",
    "Attempts to compact a history: `finished`, or what kept it as it was.",
    ("trigger", "outcome"),
)
SYSTEM_ITEMS = Family("system_items", "SystemItems put before a model.", ("kind",))
REMINDERS = Family("reminders", "Reminders of active tasks put before a model.")
REFUSALS = Family("refusals", "Requests that the store refused; nothing was written.", ("request", "reason"))
SPAWN_TIME = Family("spawn", "From a Pod's first message to the commit of the turn that serves it.", bounds=QUICK)
WAKE_TIME = Family("wake", "From a message for a parked Pod to the commit of the turn that serves it.", bounds=QUICK)
APPEND_TIME = Family(
    "append",
    "From an append's arrival at the store to its commit, with its wait for those committed together.",
    bounds=QUICK,
    kept=False,
)

FAMILIES: tuple[Family, ...] = (
    *(ENTRIES, CREATED, WAKES, RESTARTS, PARKS, GIVE_UPS, POD_ENDS, TURNS_STARTED, TURNS, REQUESTS, TOKENS, COST),
    *(REQUEST_TIME, FIRST_TOKEN_TIME, TOOL_CALLS, TOOL_TIME, POD_EVENTS, POD_EVENT_TIME, MESSAGES, UNDELIVERABLE),
    *(QUESTIONS, QUESTION_ENDS, EXTRACTIONS, EXTRACTION_LAG, COMPACTIONS, SYSTEM_ITEMS, REMINDERS, REFUSALS),
    *(SPAWN_TIME, WAKE_TIME, APPEND_TIME),
)


def total(parts: Mapping[str, int], into: dict[str, int]) -> dict[str, int]:
    """Add `parts` to `into`, which is given back. Whatever a provider claims, no number goes beyond `MOST`."""
    for key, more in parts.items():
        into[key] = min(MOST, into.get(key, 0) + more)
    return into
