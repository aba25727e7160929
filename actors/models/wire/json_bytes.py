"""JSON as the wires write it: compact UTF-8; characters that are none (lone surrogates) become `?`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Generic, TypeVar

from session_store.items import Json

MOST_KEPT = 256

ValueT = TypeVar("ValueT")

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def dump(value: Json) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "replace")


def dump_text(value: Json) -> str:
    """The same as text, for JSON inside a JSON string."""
    return _ENCODER.encode(value)


class Kept(Generic[ValueT]):
    """Remembers what `dump` made of values that never change, by their identity: the tools of each Pod's log."""

    def __init__(self, dump: Callable[[ValueT], bytes]) -> None:
        self._dump = dump
        self._known: dict[int, tuple[ValueT, bytes]] = {}

    def __call__(self, value: ValueT) -> bytes:
        known = self._known.get(id(value))
        if known is None:
            if len(self._known) >= MOST_KEPT:
                self._known.pop(next(iter(self._known)))
            known = self._known[id(value)] = (value, self._dump(value))
        return known[1]
