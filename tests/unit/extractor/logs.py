"""Logs for the extractor's tests, written as short words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from actors.extractor.activity import Activity
from actors.extractor.ranges import POINTER, RANGE
from session_store.entries import (
    AssistantItems,
    ConfigChanged,
    Extension,
    Invoke,
    LlmUsage,
    LogEntry,
    Origin,
    Rewound,
    RunEnd,
    SegmentStart,
    UserInput,
)
from session_store.items import Segment, Text
from session_store.messages import USER

SESSION = "019a0000-0000-7000-8000-000000000001"


def start(**more: Any) -> SegmentStart:
    return SegmentStart(SESSION, {"workspace": "/ws"}, "be good", (), 1, **more)


def forked() -> SegmentStart:
    return start(origin=Origin("019a0000-0000-7000-8000-000000000009", 40))


def used(tokens: int, **more: Any) -> LlmUsage:
    """One request whose whole prompt had `tokens`."""
    fields: dict[str, Any] = {"cache_read": 0, "cache_write": 0, "output": 10, "latency": 1, **more}
    return LlmUsage(fields.pop("request_id", f"r{tokens}"), 1, tokens, **fields)


def guessed(tokens: int) -> LlmUsage:
    return used(tokens, estimated=True)


def rest(outcome: Any = "finished") -> RunEnd:
    return RunEnd("run", outcome)


def pointer(end: int, staging_id: Any = "id") -> Extension:
    return Extension(POINTER, {"processed_through_entry": end, "staging_id": staging_id})


def fixed(first: int, end: int, **more: Any) -> Extension:
    return Extension(RANGE, {"start": first, "end": end, **more})


def rewound(to: int) -> Rewound:
    return Rewound(to)


def other_model() -> ConfigChanged:
    return ConfigChanged({"model": {"name": "other"}})


def prompt(text: str, **more: Any) -> UserInput:
    return UserInput((Segment("text", text),), f"m:{text[:20]}", more.get("sender", USER))


def said(text: str, request_id: str = "r") -> AssistantItems:
    return AssistantItems(request_id, (Text(text),))


def run(tokens: Iterable[int]) -> list[LogEntry]:
    """A whole run: a prompt, requests, its end."""
    return [Invoke("run", "prompt"), prompt("go"), *map(used, tokens), said("done"), rest()]


def placed(entries: Iterable[LogEntry]) -> list[LogEntry]:
    """The entries as a log: with seqs from 1."""
    return [replace(entry, seq=seq) for seq, entry in enumerate(entries, 1)]


def folded(*entries: LogEntry) -> Activity:
    activity = Activity()
    for entry in placed(entries):
        activity.apply(entry)
    return activity
