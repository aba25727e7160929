"""Entries, messages and their parts as plain data, as msgpack on disk and as JSON for people.

On disk an entry's body is one version byte and a msgpack map without `seq` and `ts`, which have columns of their own.
Old forms are read here and nowhere else; a body is never rewritten.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgpack
from pydantic import TypeAdapter, ValidationError

from session_store.entries import ENTRY_TYPES, LogEntry, SystemItems, Unknown
from session_store.errors import UnreadableEntry
from session_store.items import Json, SystemItem

CODEC_VERSION = 1
_PREFIX = bytes([CODEC_VERSION])
_RENAMED = {"sender": "from"}
_OLD_SYSTEM_ITEMS = "hook_injected_items"

T = TypeVar("T")

_FIELDS: dict[Any, tuple[tuple[str, str, Any], ...]] = {}
_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _fields(cls: Any) -> tuple[tuple[str, str, Any], ...]:
    """(attribute, name in plain data, default that is left out) for each field of a dataclass."""
    known = _FIELDS.get(cls)
    if known is not None:
        return known
    rows = []
    for f in dataclasses.fields(cls):
        optional = f.default is None
        rows.append((f.name, _RENAMED.get(f.name, f.name), None if optional else dataclasses.MISSING))
    _FIELDS[cls] = tuple(rows)
    return _FIELDS[cls]


def to_plain(value: Any) -> Json:
    """A dataclass value as dicts, lists and scalars. Optional fields that are None are left out."""
    cls = type(value)
    if cls is str or cls is int or cls is bool or value is None or cls is float:
        return value
    if cls is tuple or cls is list:
        return [to_plain(v) for v in value]
    if cls is dict:
        return value
    plain = {}
    for attribute, name, default in _fields(cls):
        item = getattr(value, attribute)
        if item is not default:
            plain[name] = to_plain(item)
    return plain


def _adapter(cls: Any) -> TypeAdapter[Any]:
    adapter = _ADAPTERS.get(cls)
    if adapter is None:
        adapter = _ADAPTERS[cls] = TypeAdapter(cls)
    return adapter


def prepare() -> None:
    """Build the validators of all entries now: the first entry of each kind is slow otherwise."""
    for cls in ENTRY_TYPES.values():
        _adapter(cls)


def from_plain(cls: type[T], plain: Json) -> T:
    """The inverse of `to_plain`. Raises `pydantic.ValidationError` when the shape is wrong."""
    value: T = _adapter(cls).validate_python(plain)
    return value


def encode_entry(entry: LogEntry) -> bytes:
    """The stored body of an entry (without `seq` and `ts`)."""
    if isinstance(entry, Unknown):
        return _pack({**entry.data, "type": entry.type})
    plain = to_plain(entry)
    del plain["seq"], plain["ts"]
    return _pack(plain)


def decode_entry(body: bytes, seq: int, ts: int) -> LogEntry:
    """The entry at `seq`. Unknown types become `Unknown`; a known type in a wrong shape raises `UnreadableEntry`."""
    return entry_from_plain(_unpack(body, seq), seq, ts)


def entry_from_plain(plain: dict[str, Json], seq: int, ts: int) -> LogEntry:
    """An entry from its flat form (with or without `seq` and `ts` in it)."""
    tag = plain.get("type")
    if tag == _OLD_SYSTEM_ITEMS:
        items = tuple(_legacy_item(seq, i, raw) for i, raw in enumerate(plain.get("items") or ()))
        return SystemItems(items=items, seq=seq, ts=ts)
    if not isinstance(tag, str):
        raise UnreadableEntry(seq, "the entry has no `type`")
    cls = ENTRY_TYPES.get(tag)
    if cls is None:
        data = {k: v for k, v in plain.items() if k not in ("type", "seq", "ts")}
        return Unknown(type=tag, data=data, seq=seq, ts=ts)
    try:
        entry: LogEntry = _adapter(cls).validate_python({**plain, "seq": seq, "ts": ts})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(p) for p in first["loc"])
        raise UnreadableEntry(seq, f"`{tag}` is malformed at `{place}`: {first['msg']}") from error
    return entry


def stored_plain(body: bytes, seq: int) -> dict[str, Json]:
    """The body exactly as stored, as plain data; for export. Keeps old tags and unknown fields."""
    return _unpack(body, seq)


def body_from_plain(plain: dict[str, Json], seq: int) -> bytes:
    """A body for `plain`, kept whole (unknown fields and kinds too); raises `UnreadableEntry` if it cannot be read."""
    entry_from_plain(plain, seq, 0)
    return _pack({k: v for k, v in plain.items() if k not in ("seq", "ts")})


def entry_json(entry: LogEntry) -> dict[str, Json]:
    """An entry for people and APIs: `seq`, `ts` as RFC 3339, `type`, then its fields."""
    plain = {**entry.data, "type": entry.type} if isinstance(entry, Unknown) else to_plain(entry)
    head = {"seq": entry.seq, "ts": time_text(entry.ts), "type": entry.type}
    return {**head, **{k: v for k, v in plain.items() if k not in head}}


def time_text(ms: int) -> str:
    """Milliseconds since the epoch as RFC 3339 in UTC with milliseconds."""
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def time_ms(text: str) -> int:
    """The inverse of `time_text`; raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return round(moment.timestamp() * 1000)


def pack(value: Json) -> bytes:
    """msgpack of plain data; integers beyond 64 bits become text, so that a model's huge number cannot stop a Pod."""
    try:
        packed: bytes = msgpack.packb(value, use_bin_type=True)
    except (OverflowError, UnicodeEncodeError, ValueError):
        packed = msgpack.packb(_tamed(value), use_bin_type=True)
    return packed


def unpack(data: bytes) -> Json:
    return msgpack.unpackb(data, raw=False, strict_map_key=False)


def _pack(plain: dict[str, Json]) -> bytes:
    return _PREFIX + pack(plain)


def _unpack(body: bytes, seq: int) -> dict[str, Json]:
    if body[:1] != _PREFIX:
        raise UnreadableEntry(
            seq, f"unknown codec version {body[0] if body else 'none'} (this one reads {CODEC_VERSION})"
        )
    try:
        plain = unpack(body[1:])
    except Exception as error:
        raise UnreadableEntry(seq, f"not msgpack: {error}") from error
    if not isinstance(plain, dict):
        raise UnreadableEntry(seq, "not a map")
    return plain


def _tamed(value: Json) -> Json:
    if isinstance(value, dict):
        return {_tamed(k): _tamed(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tamed(v) for v in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")  # lone surrogates
    return value


def _legacy_item(seq: int, index: int, raw: Json) -> SystemItem:
    body = raw
    if isinstance(raw, dict):
        body = next((raw[k] for k in ("body", "content", "text") if k in raw), "")
    if isinstance(body, list):
        body = "".join(p.get("text", "") if isinstance(p, dict) else str(p) for p in body)
    return SystemItem(kind="legacy", item_id=f"legacy:{seq}:{index}", payload={}, body=str(body))
