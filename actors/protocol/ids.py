"""Ids, clock and randomness as ports, and the ids that follow from other facts."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Protocol

NAME_LIMIT = 64
_NAME = re.compile(r"[^\W_](?:[\w .\-]{0,62}[\w\-])?")
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back."""


class Ids(Protocol):
    def session(self) -> str:
        """A fresh UUIDv7."""

    def token(self) -> str:
        """A fresh short id, unique for ever (message, run, request and batch ids)."""


def uuid7(ms: int, seed: bytes) -> str:
    """A UUIDv7 (RFC 9562) of time `ms` whose other bits are a digest of `seed`."""
    rest = int.from_bytes(blake2b(seed, digest_size=10).digest(), "big") & ((1 << 74) - 1)
    value = (ms & ((1 << 48) - 1)) << 80 | 7 << 76 | (rest >> 62) << 64 | 2 << 62 | rest & ((1 << 62) - 1)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def child_id(session: str, call_seq: int, index: int) -> str:
    """The id of the child that the call at (session, call_seq, index) spawns: the same however often it is asked.

    Its time part is that of the parent's id, since the call's key is all it may depend on.
    """
    ms = int(session.replace("-", "")[:12], 16)
    return uuid7(ms, f"child:{session}:{call_seq}:{index}".encode())


def is_session_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def name_problem(name: str) -> str | None:
    """What is wrong with a Pod's name, or None. Letters and digits of any script, then also `_ . -` and spaces."""
    if not name:
        return "a name must not be empty"
    if len(name) > NAME_LIMIT:
        return f"a name has at most {NAME_LIMIT} characters, this one {len(name)}"
    if _NAME.fullmatch(name) is None or ".." in name:
        return "a name holds letters, digits, `_`, `.`, `-` and spaces, and starts with a letter or digit"
    if is_session_id(name):
        return "a name must not look like a Pod id"
    return None
