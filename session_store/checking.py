"""What is damaged in a store: every place, by session, seq and reason, from what a backend can show of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from zlib import crc32

from session_store.backends.packing import unpack_fold
from session_store.codec import decode_entry
from session_store.errors import UnreadableEntry
from session_store.status import StatusFold


@dataclass(frozen=True, slots=True)
class Damage:
    """One place. `session` is `""` and `seq` 0 where the damage belongs to no session or no single entry.

    With `harmless` the session still opens and goes on: what is damaged follows from its log.
    """

    session: str
    seq: int
    reason: str
    harmless: bool = False


class Unshown(Exception):
    """The database itself cannot read the rows; says why."""


class Evidence(Protocol):
    """One moment of a store. Each method raises `Unshown` when the rows cannot be read."""

    def sessions(self) -> Sequence[tuple[Any, ...]]:
        """Rows of `packing.COLUMNS`, in order of creation."""

    def entries(self, no: int) -> Iterable[tuple[int, int, int, Any]]:
        """(seq, ts, crc, body) of a session, in order."""

    def waiting(self, no: int) -> int:
        """How many messages are in a session's inbox."""

    def orphans(self) -> Sequence[int]:
        """Numbers of sessions that have a log and are not in the catalogue."""


def damage_in(store: Evidence) -> list[Damage]:
    """All damage, sessions in order of creation."""
    found: list[Damage] = []
    try:
        for row in store.sessions():
            found += _session(store, row)
        found += [Damage("", 0, f"session number {no} has a log and is not in the catalogue") for no in store.orphans()]
    except Unshown as error:
        found.append(Damage("", 0, f"the catalogue cannot be read: {error}"))
    return found


def _session(store: Evidence, row: tuple[Any, ...]) -> list[Damage]:
    no, session, catalogue_head, fold_bytes = row[0], row[1], row[13], row[21]
    found: list[Damage] = []
    derived = StatusFold()
    head = 0
    try:
        for damage, seq in _entries(store, no, session, derived):
            found += [] if damage is None else [damage]
            head = seq
    except Unshown as error:
        return [*found, Damage(session, 0, f"the log cannot be read: {error}")]
    if head < catalogue_head:
        found.append(Damage(session, head + 1, f"the log ends at {head}, but {catalogue_head} was acknowledged"))
    if not found:
        found += _catalogue(store, row, derived)
    if fold_bytes is not None and unpack_fold(fold_bytes) is None:
        found.append(Damage(session, 0, "the catalogue's copy of the status cannot be read", harmless=True))
    return found


def _entries(store: Evidence, no: int, session: str, fold: StatusFold) -> Iterator[tuple[Damage | None, int]]:
    """Damage, and the seq that was come to."""
    expected = 0
    for seq, ts, crc, body in store.entries(no):
        expected += 1
        if seq != expected:
            missing = f"entries {expected} to {seq - 1} are" if seq - 1 > expected else f"entry {expected} is"
            yield Damage(session, expected, f"{missing} missing"), seq
            expected = seq
        reason = _entry_damage(fold, (seq, ts, crc, body))
        yield (None if reason is None else Damage(session, seq, reason)), seq


def _entry_damage(fold: StatusFold, row: tuple[int, int, int, Any]) -> str | None:
    seq, ts, crc, body = row
    if not isinstance(body, bytes) or crc32(body) != crc:
        return "its checksum is wrong"
    try:
        fold.apply(decode_entry(body, seq, ts))
    except UnreadableEntry as error:
        return error.reason
    return None


def _catalogue(store: Evidence, row: tuple[Any, ...], derived: StatusFold) -> Iterator[Damage]:
    """What the catalogue says beside what the (sound) log says."""
    session = row[1]
    if row[13] != derived.head:
        yield Damage(session, 0, f"the catalogue's head is {row[13]}, the log's {derived.head}", harmless=True)
    kept = unpack_fold(row[21])
    if kept is not None and kept.head == derived.head:
        kept.child_events = derived.child_events
        if kept != derived:
            yield Damage(session, 0, "the catalogue's status is not what the log says")
    if bool(row[23]) != derived.ended:
        yield Damage(session, 0, "the catalogue and the log differ on whether the session has ended")
    queue = store.waiting(row[0])
    if row[19] != queue:
        yield Damage(session, 0, f"the catalogue counts {row[19]} waiting messages, there are {queue}", harmless=True)
    if row[26] is None:
        yield Damage(session, 0, "the catalogue's copy of the config is missing", harmless=True)
