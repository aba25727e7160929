"""Call ids on the wire. A provider's id may repeat, be empty or be malformed; a strict provider accepts none of that.

In the log calls are known by (seq, index) and keep the provider's id. On the wire an id is kept while it is well formed
and the first of its kind; any other gets a name that follows from the id and its place, so that a history always gives
the same bytes. Nine letters and digits are accepted everywhere.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice

from actors.protocol.model import GrowingHistory

_WELL_FORMED = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ALPHABET = string.ascii_letters + string.digits


class Encoded(bytes):
    """An encoded item that holds call ids: `ids` in call order, each at the offset in `places`.

    `answers` is True for a group of results, whose ids follow those of the calls.
    """

    ids: tuple[bytes, ...]
    places: tuple[int, ...]
    answers: bool

    def renamed(self, names: Sequence[bytes]) -> bytes:
        """The same bytes with the i-th id replaced by `names[i]`."""
        parts: list[bytes] = []
        at = 0
        for old, offset, new in zip(self.ids, self.places, names, strict=True):
            parts += (self[at:offset], new)
            at = offset + len(old)
        return b"".join((*parts, self[at:]))


def wire_ids(call_ids: Iterable[str]) -> list[str]:
    """Ids that are well formed and different from each other, for the calls (or results) of one message."""
    given: list[str] = []
    for index, call_id in enumerate(call_ids):
        plain = call_id if _WELL_FORMED.fullmatch(call_id) else _digest(call_id, 0)
        given.append(plain if plain not in given else _digest(call_id, index))
    return given


def encoded(pieces: Iterable[bytes | str], answers: bool) -> Encoded:
    """Join pieces; each `str` among them is a call id."""
    parts: list[bytes] = []
    ids: list[bytes] = []
    places: list[int] = []
    size = 0
    for piece in pieces:
        if isinstance(piece, str):
            piece = piece.encode()
            ids.append(piece)
            places.append(size)
        parts.append(piece)
        size += len(piece)
    whole = Encoded(b"".join(parts))
    whole.ids, whole.places = tuple(ids), tuple(places)
    whole.answers = answers
    return whole


def unique(history: Sequence[bytes]) -> Sequence[bytes]:
    """The history with every call id used once: the n-th repetition of an id is renamed, in calls and results alike.

    What an item becomes depends on earlier items only, so a longer history begins with the same bytes.
    """
    if not isinstance(history, GrowingHistory):
        return _Renamer().take(history)
    if not isinstance(history.memo, _Renamer):
        history.memo = _Renamer()
    return history.memo.take(history)


class _Renamer:
    """Goes through a history once, however often it is asked for."""

    def __init__(self) -> None:
        self._calls: dict[bytes, int] = {}
        self._answers: dict[bytes, int] = {}
        self._out: list[bytes] = []

    def take(self, history: Sequence[bytes]) -> list[bytes]:
        for item in islice(history, len(self._out), None):
            self._out.append(self._renamed(item) if type(item) is Encoded else item)
        return self._out

    def _renamed(self, item: Encoded) -> bytes:
        seen = self._answers if item.answers else self._calls
        names = []
        for name in item.ids:
            count = seen[name] = seen.get(name, 0) + 1
            names.append(name if count == 1 else _digest(name.decode(), -count).encode())
        return item if tuple(names) == item.ids else item.renamed(names)


@lru_cache(maxsize=1 << 14)
def _digest(call_id: str, place: int) -> str:
    number = int.from_bytes(blake2b(f"{place}:{call_id}".encode("utf-8", "replace"), digest_size=8).digest(), "big")
    letters = []
    for _ in range(9):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "".join(letters)
