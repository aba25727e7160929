"""Server-sent events and JSON as bytes. Pure."""

from __future__ import annotations

import json
from typing import Any

from orchestrator.events import Event, wire_form

# Line ends to some clients that split text themselves, though none to the standards of JSON and of event streams.
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}

KEEPALIVE = b": keepalive\n\n"
OPENING = b": polypod\n\n"
MEDIA_TYPE = "text/event-stream; charset=utf-8"


def json_text(value: Any) -> str:
    """Compact JSON on one line, whatever the reader takes for a line end."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_LINE_ENDS)


def json_bytes(value: Any) -> bytes:
    """`json_text` as UTF-8; text that is no Unicode (a lone surrogate) stays escaped."""
    try:
        return json_text(value).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def frame(event: Event) -> bytes:
    """One event; its id is what a client sends back as `Last-Event-ID`."""
    wire = wire_form(event)
    head = f"event: {wire.name}\n" if wire.id is None else f"id: {wire.id}\nevent: {wire.name}\n"
    return b"".join((head.encode(), b"data: ", json_bytes(wire.data), b"\n\n"))
