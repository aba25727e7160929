"""Sessions as JSON lines, out of one store and into another.

The first line is a header, every other one an entry exactly as it is stored (old tags, unknown kinds and fields too)
with its `seq` and `ts`. One record is one physical line: everything beyond ASCII is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from session_store.codec import body_from_plain, from_plain, stored_plain, time_ms, time_text, to_plain
from session_store.errors import ConditionFailed, StoreError, UnknownSession, UnreadableEntry
from session_store.items import Json
from session_store.messages import Message
from session_store.reading import damaged
from session_store.requests import Created, Import, Pending, Query, Read, Store, StoredEntry
from session_store.rows import PodRow, Scope

FORMAT = "polypod-session"
VERSION = 1
PAGE = 1_000
TAKE_AGAIN = "Export the session again, or put the line right, and import the whole file"


class BadExport(StoreError):
    """The file is no whole export. `line` counts from 1; nothing was imported."""

    def __init__(self, line: int, reason: str, way_out: str = TAKE_AGAIN) -> None:
        super().__init__(f"line {line}: {reason}. Nothing was imported. {way_out}.")
        self.line = line
        self.reason = reason
        self.way_out = way_out

    def __reduce__(self) -> tuple[Any, ...]:
        return (BadExport, (self.line, self.reason, self.way_out))


def export_lines(store: Store, session: str) -> Iterator[str]:
    """The lines of a session's export, each ending with a newline.

    Raises `UnknownSession`, `StoreDamaged`, `StoreUnavailable`. It is taken page by page; entries appended meanwhile
    are left out.
    """
    rows = store.execute(Query(ids=(session,))).rows
    if not rows:
        raise UnknownSession(f"there is no session {session!r} in this store", session=session)
    pod, waiting = rows[0], store.execute(Pending(session)).messages
    yield _line(_header(pod, waiting))
    after = 0
    while after < pod.head:
        page = store.execute(Read(session, after, min(PAGE, pod.head - after))).entries
        for entry in page:
            yield _line(_plain(session, entry))
        after = page[-1].seq


def import_lines(store: Store, lines: Iterable[str]) -> Created:
    """Import one session: the whole file is looked at first, then it is one transaction.

    Raises `BadExport`, `ConditionFailed` (`conflict`: it exists; `name_taken`), `StoreUnavailable`.
    """
    request = read_export(lines)
    try:
        return store.execute(request)
    except ConditionFailed as error:
        if error.reason == "invalid":
            raise BadExport(int(error.detail.get("seq", 0)) + 1, error.message) from error
        raise


def read_export(lines: Iterable[str]) -> Import:
    """The session that an export holds. Raises `BadExport` with the first line that is wrong."""
    numbered = enumerate(lines, 1)
    first = next(numbered, None)
    if first is None:
        raise BadExport(1, "the file is empty")
    header = _read_header(first[1])
    entries = []
    for number, line in numbered:
        if not line.endswith("\n"):
            raise BadExport(number, "the line is cut off (it has no newline at its end)")
        entries.append(_read_entry(number, line, expected=number - 1))
    if len(entries) != header["head"]:
        raise BadExport(len(entries) + 1, f"the file ends after entry {len(entries)}, its header says {header['head']}")
    try:
        scope = None if header.get("scope") is None else from_plain(Scope, header["scope"])
        inbox = tuple(from_plain(Message, m) for m in header.get("inbox") or ())
        return Import(
            session=str(header["session"]),
            tenant=str(header.get("tenant", "default")),
            entries=tuple(entries),
            name=str(header.get("name", "")),
            parent_id=header.get("parent_id"),
            detached=bool(header.get("detached", False)),
            scope=scope,
            epoch=int(header.get("epoch", 0)),
            inbox=inbox,
        )
    except (ValueError, TypeError) as error:
        raise BadExport(1, f"the header is malformed: {error}") from error


def _header(pod: PodRow, waiting: tuple[Message, ...]) -> dict[str, Json]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "session": pod.id,
        "tenant": pod.tenant,
        "name": pod.name,
        "parent_id": pod.parent_id,
        "root_id": pod.root_id,
        "detached": pod.detached,
        "scope": None if pod.scope is None else to_plain(pod.scope),
        "epoch": pod.epoch,
        "head": pod.head,
        "inbox": [to_plain(m) for m in waiting],
    }


def _plain(session: str, entry: StoredEntry) -> dict[str, Json]:
    try:
        plain = stored_plain(entry.body, entry.seq)
    except UnreadableEntry as error:
        raise damaged(session, error.seq, error.reason) from error
    return {"seq": entry.seq, "ts": time_text(entry.ts), **plain}


def _line(value: dict[str, Json]) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=_binary) + "\n"


def _binary(value: Any) -> Json:
    """msgpack can hold bytes, JSON cannot; polypod writes none, an entry of another kind may."""
    if isinstance(value, bytes):
        return {"__bytes__": value.hex()}
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _parsed(number: int, line: str) -> dict[str, Json]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise BadExport(number, f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadExport(number, "not a JSON object")
    return value


def _read_header(line: str) -> dict[str, Json]:
    header = _parsed(1, line)
    if header.get("format") != FORMAT:
        raise BadExport(1, f"the first line is no header with `format: {FORMAT}`", "Import a file made by `export`")
    if header.get("version") != VERSION:
        raise BadExport(
            1,
            f"the file has format version {header.get('version')}, this polypod reads {VERSION}",
            "Use a newer polypod",
        )
    for key, kind in (("session", str), ("head", int)):
        if not isinstance(header.get(key), kind):
            raise BadExport(1, f"the header has no `{key}`")
    return header


def _read_entry(number: int, line: str, expected: int) -> StoredEntry:
    plain = _parsed(number, line)
    if plain.get("seq") != expected:
        raise BadExport(number, f"`seq` is {plain.get('seq')!r}, it should be {expected}")
    try:
        ts = time_ms(str(plain.get("ts")))
    except ValueError as error:
        raise BadExport(number, f"`ts` is no time: {error}") from error
    try:
        body = body_from_plain(plain, expected)
    except UnreadableEntry as error:
        raise BadExport(number, error.reason) from error
    if expected == 1 and plain.get("type") != "segment_start":
        raise BadExport(number, "the first entry is no `segment_start`")
    return StoredEntry(expected, ts, body)
