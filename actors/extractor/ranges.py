"""The extractor's two records in a session's log, and the id that follows from them. Pure.

`extension{domain: "memory.extract.range"}` fixes what an extraction works on before it works; `extension{domain:
"memory.extract"}` is the pointer that says it is done. The key of both is the staging id, so a second extractor that
does the same work changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha1

from session_store.entries import Extension
from session_store.items import Json

POINTER = "memory.extract"
RANGE = "memory.extract.range"
NAMESPACE = bytes.fromhex("6d1d6f0d3f6a5d0f9c8e2f5b7a41c3e9")
"""Of the ids that `staging_id` makes; drawn by lot, never to change."""


@dataclass(frozen=True, slots=True)
class Range:
    """Entries `start` to `end`, both inclusive. `through`: where the slice ends of which this is one piece."""

    start: int
    end: int
    through: int


def staging_id(session: str, start: int, end: int) -> str:
    """The UUIDv5 (RFC 9562) of a session and a range in it."""
    digest = bytearray(sha1(NAMESPACE + f"{session}:{start}:{end}".encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def range_entry(fixed: Range) -> Extension:
    payload: dict[str, Json] = {"start": fixed.start, "end": fixed.end}
    if fixed.through != fixed.end:
        payload["through"] = fixed.through
    return Extension(RANGE, payload)


def pointer_entry(session: str, done: Range) -> Extension:
    return Extension(
        POINTER, {"processed_through_entry": done.end, "staging_id": staging_id(session, done.start, done.end)}
    )


def read_range(entry: Extension) -> Range | None:
    """The range that the entry fixes; None when it is malformed."""
    start, end = _seq(entry, "start"), _seq(entry, "end")
    through = _seq(entry, "through") if "through" in entry.payload else end
    if start is None or end is None or through is None or not start <= end <= through:
        return None
    return Range(start, end, through)


def read_pointer(entry: Extension) -> int | None:
    """`processed_through_entry`; None when the entry is malformed."""
    if not isinstance(entry.payload.get("staging_id"), str):
        return None
    return _seq(entry, "processed_through_entry")


def _seq(entry: Extension, name: str) -> int | None:
    """A seq before the entry's own."""
    value = entry.payload.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < entry.seq:
        return None
    return value
