"""What the requests of one transaction after another add to the counters, until it is written: common to databases.

Each transaction adds one row with what it counted; every `MOST_ROWS` of them are made into one. Refusals write nothing,
so they count with the next transaction that does.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgpack

from session_store.codec import unpack
from session_store.counters import total

MOST_ROWS = 256


class Counted:
    """Called by the one who writes."""

    def __init__(self) -> None:
        self._request: dict[str, int] = {}
        self._transaction: dict[str, int] = {}
        self._refused: dict[str, int] = {}
        self._later: dict[str, int] = {}

    def begin(self) -> None:
        """A request starts: what one before it counted and did not keep is gone."""
        if self._request:
            self._request = {}

    def count(self, key: str, more: int) -> None:
        self._request[key] = self._request.get(key, 0) + more

    def end(self) -> None:
        """The request is kept."""
        if self._transaction:
            total(self._request, self._transaction)
        else:
            self._transaction = self._request
        self._request = {}

    def refuse(self, key: str) -> None:
        """Count something that wrote nothing."""
        total({key: 1}, self._refused)

    def gathered(self) -> dict[str, int]:
        """What the commit is to add; nothing when only refusals are there."""
        if not self._transaction:
            return {}
        return total(self._transaction, total(self._refused, dict(self._later)))

    def committed(self, *, written: bool = True) -> None:
        """After the commit. Not `written`: what was counted waits for a later one."""
        if self._transaction and written:
            self._later = {}
        elif self._transaction or self._refused:
            self._later = total(self._transaction, total(self._refused, dict(self._later)))
        self._transaction, self._refused = {}, {}

    def drop(self) -> None:
        """The transaction was lost."""
        self._request, self._transaction, self._refused = {}, {}, {}

    def unwritten(self) -> dict[str, int]:
        """What waits for a later commit; the caller's own."""
        return dict(self._later)


def summed(rows: Iterable[bytes]) -> dict[str, int]:
    """The counters from the rows of the table; a damaged row is left out."""
    counted: dict[str, int] = {}
    for counts in rows:
        with suppress(ValueError, TypeError, AttributeError, msgpack.UnpackException):
            total({str(k): int(n) for k, n in unpack(counts).items()}, counted)
    return counted
