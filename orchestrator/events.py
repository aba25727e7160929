"""What a client hears of Pods: two closed unions of frozen values, and how each stands on the wire. Pure.

`PodStreamEvent` is what `GET /v1/pods/{id}/events` sends, `StoreEvent` what `GET /v1/events` sends; a name or a shape
that this version does not know becomes `UnknownEvent`, so a newer server breaks no client. Everything a system says to
a model comes as `system_item`: there is no event named after a message that caused one.

`parse_event` and `wire_form` are inverses. Imports nothing heavy: the command line starts with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from actors.protocol.live import Delta, Discard, Retry

__all__ = [
    "AlertEvent",
    "Delta",
    "Discard",
    "EntryEvent",
    "EntryHeader",
    "Event",
    "PodStreamEvent",
    "Resync",
    "Retry",
    "StatusEvent",
    "StoreEvent",
    "SystemItemEvent",
    "UnknownEvent",
    "Wire",
    "parse_event",
    "parse_store_event",
    "wire_form",
]

Data: TypeAlias = Mapping[str, Any]
"""A JSON object."""


@dataclass(frozen=True, slots=True)
class EntryEvent:
    """A committed entry; `entry` as in docs/formats/session-log.md, with `seq`, `ts` and `type`.

    Law: every entry after the cursor comes once, in order of `seq`, without a gap; the cursor is `seq`. It ends the
    blocks it commits: no delta of them follows. An entry of SystemItems comes as `SystemItemEvent`s instead.
    """

    seq: int
    entry: Data
    type: Literal["entry"] = "entry"


@dataclass(frozen=True, slots=True)
class SystemItemEvent:
    """One SystemItem of a committed entry; `body` is the exact text that the model sees.

    Law: in the place of its entry among the entries. Items of one entry come in their order and share its `seq`; only
    the last (`last`) carries the id, so a cursor never points into an entry.
    """

    seq: int
    ts: str
    kind: str
    payload: Data
    body: str
    last: bool = True
    type: Literal["system_item"] = "system_item"


@dataclass(frozen=True, slots=True)
class StatusEvent:
    """Where the Pod stands, by the fold of its log and inbox.

    Law: first when all entries up to the head have been sent, then on every change of `status` or `generation`; never
    before the entries up to `head_seq`. It may come again after a reconnect.
    """

    status: str
    generation: int
    head_seq: int
    type: Literal["status"] = "status"


@dataclass(frozen=True, slots=True)
class AlertEvent:
    """A notice for people: never in a log, never before a model. `ts` is RFC 3339.

    Law: whoever attaches hears the alerts that are kept (the last 512 of the Pod), then each new one, every `alert_id`
    once in a connection and in the order they were raised, in no order to entries. After a reconnect those that are
    kept come again: an alert is known by its id. `pod_id` only on the stream of many Pods and in `GET /v1/alerts`;
    None there: it is about no Pod but the control plane.
    """

    alert_id: str
    level: str
    code: str
    message: str
    ts: str
    pod_id: str | None = None
    type: Literal["alert"] = "alert"


@dataclass(frozen=True, slots=True)
class Resync:
    """The cursor cannot be gone on from, or the stream ends.

    Law: for `malformed-cursor`, `beyond-head` and `purged` it comes once, and what follows `head_seq` follows it; live
    text begins anew after it. For every other reason (`slow-reader`, `store-damaged`, …) it is the last event: the
    cursor is still that of the last entry. `snapshot` is the Pod as `GET /v1/pods/{id}` shows it, if it could be had.
    `cursor` only on the stream of many Pods: what it goes on from, in place of the malformed one.
    """

    reason: str
    head_seq: int | None
    snapshot: Data | None
    detail: str | None = None
    cursor: str | None = None
    type: Literal["resync"] = "resync"

    @property
    def goes_on(self) -> bool:
        """Whether what follows `head_seq` comes next on this connection."""
        return self.reason in CURSOR_REASONS

    @property
    def is_final(self) -> bool:
        """Whether asking again would tell no more. Who was too slow goes on from the cursor."""
        return not self.goes_on and self.reason != SLOW_READER


CURSOR_REASONS = frozenset({"malformed-cursor", "beyond-head", "purged"})
SLOW_READER = "slow-reader"


@dataclass(frozen=True, slots=True)
class EntryHeader:
    """An entry of one of many Pods, cut to what tells where something happened; `more` by kind of entry.

    Law: the headers of one Pod come in order of `seq`; between Pods there is no order. `cursor` (opaque) stands on the
    last header of what was told together. After a reconnect none is left out, and those of the cursor's very
    millisecond may come again: a header is known by `pod_id` and `seq`.
    """

    pod_id: str
    pod_name: str
    seq: int
    ts: str
    kind: str
    more: Data = field(default_factory=dict)
    cursor: str | None = None
    type: Literal["entry"] = "entry"


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """What this version does not know, kept whole. `problem` says what is wrong with an event of a known name.

    Law: none is known, but an `id` that is a number is the cursor all the same.
    """

    name: str
    id: str | None
    data: Any
    problem: str | None = None
    type: Literal["unknown"] = "unknown"


PodStreamEvent: TypeAlias = (
    EntryEvent | SystemItemEvent | Delta | StatusEvent | AlertEvent | Retry | Discard | Resync | UnknownEvent
)
"""What one Pod's stream sends. `Delta`, `Retry` and `Discard` are the Pod's own (`actors.protocol.live`)."""

StoreEvent: TypeAlias = EntryHeader | AlertEvent | Resync | UnknownEvent

Event: TypeAlias = PodStreamEvent | EntryHeader
EventT = TypeVar("EventT")


@dataclass(frozen=True, slots=True)
class Wire:
    """One server-sent event: its name, its id if it has one, its JSON."""

    name: str
    id: str | None
    data: Any


class _Misfit(Exception):
    """The data are not those of an event of this name."""


def parse_event(name: str, ident: str | None, data: Any) -> PodStreamEvent:
    """An event of one Pod's stream. Never raises: what does not fit is an `UnknownEvent`."""
    return _parse(_POD_EVENTS, Wire(name, ident, data))


def parse_store_event(name: str, ident: str | None, data: Any) -> StoreEvent:
    """An event of the stream of many Pods. Never raises."""
    return _parse(_STORE_EVENTS, Wire(name, ident, data))


def wire_form(event: Event) -> Wire:
    """How an event stands on the wire."""
    match event:
        case EntryEvent(seq, entry):
            return Wire("entry", str(seq), dict(entry))
        case SystemItemEvent():
            fields = {name: getattr(event, name) for name in ("seq", "ts", "kind", "payload", "body")}
            return Wire("system_item", str(event.seq) if event.last else None, fields)
        case EntryHeader(pod_id, pod_name, seq, ts, kind, more, cursor):
            head = {"pod_id": pod_id, "pod_name": pod_name, "seq": seq, "ts": ts, "type": kind}
            return Wire("entry", cursor, {**head, **more})
        case UnknownEvent(name, ident, data):
            return Wire(name, ident, data)
        case _:
            cursor = event.cursor if isinstance(event, Resync) else None
            fields = {name: getattr(event, name) for name in event.__slots__ if name not in ("type", "cursor")}
            return Wire(event.type, cursor, {k: v for k, v in fields.items() if v is not None or k in _SHOWN_EMPTY})


_SHOWN_EMPTY = frozenset({"head_seq", "snapshot"})


def _parse(table: Mapping[str, Callable[[Wire], EventT]], wire: Wire) -> EventT | UnknownEvent:
    read = table.get(wire.name)
    if read is None:
        return UnknownEvent(wire.name, wire.id, wire.data)
    try:
        return read(wire)
    except _Misfit as misfit:
        return UnknownEvent(wire.name, wire.id, wire.data, str(misfit))


def _entry(wire: Wire) -> EntryEvent:
    seq, _ = _fields(wire, seq=int, type=str)
    return EntryEvent(seq, wire.data)


def _system_item(wire: Wire) -> SystemItemEvent:
    seq, ts, kind, payload, body = _fields(wire, seq=int, ts=str, kind=str, payload=Mapping, body=str)
    return SystemItemEvent(seq, ts, kind, payload, body, last=wire.id is not None)


def _delta(wire: Wire) -> Delta:
    return Delta(*_fields(wire, request_id=str, block=str, offset=int, text=str, after=int))


def _status(wire: Wire) -> StatusEvent:
    return StatusEvent(*_fields(wire, status=str, generation=int, head_seq=int))


def _alert(wire: Wire) -> AlertEvent:
    alert_id, level, code, message, ts = _fields(wire, alert_id=str, level=str, code=str, message=str, ts=str)
    return AlertEvent(alert_id, level, code, message, ts, _optional(wire, "pod_id", str))


def _retry(wire: Wire) -> Retry:
    request_id, attempt, wait, reason = _fields(wire, request_id=str, attempt=int, wait=float, reason=str)
    return Retry(request_id, attempt, wait, reason)


def _discard(wire: Wire) -> Discard:
    return Discard(*_fields(wire, request_id=str))


def _resync(wire: Wire) -> Resync:
    (reason,) = _fields(wire, reason=str)
    head, snapshot = _optional(wire, "head_seq", int), _optional(wire, "snapshot", Mapping)
    return Resync(reason, head, snapshot, _optional(wire, "detail", str), wire.id)


def _header(wire: Wire) -> EntryHeader:
    pod_id, pod_name, seq, ts, kind = _fields(wire, pod_id=str, pod_name=str, seq=int, ts=str, type=str)
    known = ("pod_id", "pod_name", "seq", "ts", "type")
    more = {name: value for name, value in wire.data.items() if name not in known}
    return EntryHeader(pod_id, pod_name, seq, ts, kind, more, wire.id)


_POD_EVENTS: Mapping[str, Callable[[Wire], PodStreamEvent]] = {
    "entry": _entry,
    "system_item": _system_item,
    "delta": _delta,
    "status": _status,
    "alert": _alert,
    "retry": _retry,
    "discard": _discard,
    "resync": _resync,
}
_STORE_EVENTS: Mapping[str, Callable[[Wire], StoreEvent]] = {"entry": _header, "alert": _alert, "resync": _resync}

POD_STREAM_NAMES = frozenset(_POD_EVENTS)
STORE_STREAM_NAMES = frozenset(_STORE_EVENTS)


def _fields(wire: Wire, **kinds: type) -> list[Any]:
    """The named fields of the data, each of its kind; fields that a newer server adds are left out."""
    if not isinstance(wire.data, Mapping):
        raise _Misfit(f"the data of `{wire.name}` are no JSON object")
    return [_checked(wire, name, kind) for name, kind in kinds.items()]


def _optional(wire: Wire, name: str, kind: type) -> Any:
    return None if wire.data.get(name) is None else _checked(wire, name, kind)


def _checked(wire: Wire, name: str, kind: type) -> Any:
    value = wire.data.get(name)
    good = isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)
    if not good:
        raise _Misfit(f"`{wire.name}` lacks a good `{name}`")
    return value
