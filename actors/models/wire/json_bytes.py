"""JSON as the wires write it: compact UTF-8; characters that are none (lone surrogates) become `?`."""

from __future__ import annotations

import json

from session_store.items import Json

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def dump(value: Json) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "replace")


def dump_text(value: Json) -> str:
    """The same as text, for JSON inside a JSON string."""
    return _ENCODER.encode(value)
