"""Requests and replies as msgpack bytes, so that they cross a process border cheaply. Refusals are data.

Both ends are one version of polypod; nothing of this form is ever stored. An entry travels as the body it is stored as.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from session_store.codec import decode_entry, encode_entry, from_plain, pack, to_plain, unpack
from session_store.errors import REFUSALS, ConditionFailed, Refused, StoreError, StoreUnavailable, UnreadableEntry
from session_store.messages import Message
from session_store.recording import EncodedAppend
from session_store.requests import (
    REQUEST_TYPES,
    Annotate,
    Annotated,
    Append,
    Appended,
    Commit,
    Commits,
    Create,
    Created,
    Deliver,
    Delivered,
    Delivery,
    DirectoryEpoch,
    EntryRange,
    Expect,
    Fork,
    Import,
    Lease,
    Parent,
    PendingMessages,
    PodLimits,
    Released,
    Request,
    StoredEntry,
)
from session_store.rows import CensusFigures, CounterValues, MessageState, Rows, Scope

RequestT = TypeVar("RequestT", bound=Request[Any])

_REFUSED, _UNAVAILABLE = "!", "?"
_SCALAR_REPLIES = (Created, Released, Delivered, Annotated, MessageState, DirectoryEpoch, CounterValues)


def encode_request(request: Request[Any]) -> bytes:
    """Raises `ConditionFailed` (`invalid`) when it holds what msgpack cannot."""
    try:
        name = "Append" if isinstance(request, Append) else type(request).__name__
        return pack((name, _request_plain(request)))
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ConditionFailed(f"the request cannot be sent: {error}", reason="invalid") from error


def decode_request(data: bytes) -> Request[Any]:
    """Raises `ConditionFailed` (`invalid`) when an entry of it cannot be read."""
    name, plain = unpack(data)
    try:
        return _request_value(name, plain)
    except UnreadableEntry as error:
        raise ConditionFailed(f"an entry cannot be stored: {error}", reason="invalid") from error


def encode_reply(reply: Any) -> bytes:
    """A reply, or the `StoreError` raised instead of it."""
    match reply:
        case Refused():
            return pack((_REFUSED, reply.code, reply.message, reply.detail))
        case Exception():
            return pack((_UNAVAILABLE, f"{reply}" if isinstance(reply, StoreError) else f"unexpected: {reply!r}"))
        case _:
            return pack((type(reply).__name__, _reply_plain(reply)))


def decode_reply(data: bytes) -> Any:
    """The reply; raises the `Refused` or `StoreUnavailable` that it carries."""
    name, *rest = unpack(data)
    if name == _REFUSED:
        code, message, detail = rest
        raise REFUSALS.get(code, Refused)(message, **detail)
    if name == _UNAVAILABLE:
        raise StoreUnavailable(rest[0])
    return _REPLIES[name](rest[0])


def encode_many(parts: Sequence[bytes]) -> bytes:
    return pack(list(parts))


def decode_many(data: bytes) -> list[bytes]:
    parts: list[bytes] = unpack(data)
    return parts


def _message(message: Message) -> tuple[Any, ...]:
    return (
        message.message_id,
        message.kind,
        message.sender,
        message.body,
        message.wake,
        message.position,
        message.ts,
    )


def _messages(plain: Sequence[Any]) -> tuple[Message, ...]:
    return tuple(Message(*m) for m in plain)


def _row(row: StoredEntry) -> tuple[int, int, bytes]:
    return (row.seq, row.ts, row.body)


def _request_plain(request: Request[Any]) -> Any:
    match request:
        case Append():
            return (
                (request.session, request.epoch, request.expected_head, request.batch_id),
                [encode_entry(e) for e in request.entries],
                [(d.session, _message(d.message), d.entry) for d in request.deliveries],
                (request.consumes, request.inbox_cursor, request.concluded, request.cascade),
            )
        case Create():
            plain = _shallow(request)
            plain["start"] = encode_entry(request.start)
            plain["messages"] = [_message(m) for m in request.messages]
            return plain
        case Fork():
            plain = _shallow(request)
            plain["start"] = encode_entry(request.start)
            plain["more"] = [encode_entry(e) for e in request.more]
            return plain
        case Import():
            plain = _shallow(request)
            plain["entries"] = [_row(r) for r in request.entries]
            plain["inbox"] = [_message(m) for m in request.inbox]
            return plain
        case Annotate():
            return (request.session, encode_entry(request.extension), request.key, request.guard)
        case Deliver():
            plain = _shallow(request)
            plain["message"] = _message(request.message)
            return plain
        case _:
            return to_plain(request)


def _request_value(name: str, plain: Any) -> Request[Any]:
    match name:
        case "Append":
            head, bodies, deliveries, (consumes, cursor, concluded, cascade) = plain
            entries = tuple(decode_entry(body, 0, 0) for body in bodies)
            told = tuple(Delivery(target, Message(*message), entry) for target, message, entry in deliveries)
            session, epoch, expected_head, batch_id = head
            rest = (entries, told, tuple(consumes), cursor, concluded, cascade)
            return EncodedAppend(session, epoch, expected_head, batch_id, *rest, tuple(bodies))
        case "Create":
            start = decode_entry(plain.pop("start"), 1, 0)
            messages = _messages(plain.pop("messages"))
            return _filled(Create, plain, start=start, messages=messages)
        case "Fork":
            first: Any = decode_entry(plain.pop("start"), 1, 0)
            more = tuple(decode_entry(body, 0, 0) for body in plain.pop("more"))
            return _filled(Fork, plain, start=first, more=more)
        case "Import":
            entries_ = tuple(StoredEntry(*row) for row in plain.pop("entries"))
            return _filled(Import, plain, entries=entries_, inbox=_messages(plain.pop("inbox")))
        case "Annotate":
            session, body, key, guard = plain
            extension: Any = decode_entry(body, 0, 0)
            return Annotate(session, extension, key, guard)
        case "Deliver":
            return _filled(Deliver, plain, message=Message(*plain.pop("message")))
        case _:
            request: Request[Any] = from_plain(REQUEST_TYPES[name], plain)
            return request


def _shallow(request: Any) -> dict[str, Any]:
    """All fields but those that need a form of their own."""
    special = ("start", "more", "messages", "entries", "inbox", "message")
    return {f.name: to_plain(getattr(request, f.name)) for f in dataclasses.fields(request) if f.name not in special}


def _filled(cls: type[RequestT], plain: dict[str, Any], **special: Any) -> RequestT:
    types = {"parent": Parent, "limits": PodLimits, "scope": Scope, "expect": Expect}
    for name, kind in types.items():
        if plain.get(name) is not None:
            plain[name] = from_plain(kind, plain[name])
    return cls(**plain, **special)


def _reply_plain(reply: Any) -> Any:
    match reply:
        case Appended():
            messages = [_message(m) for m in reply.messages]
            return (reply.first_seq, reply.head, reply.ts, messages, reply.cascaded, reply.wakes)
        case EntryRange():
            return ([_row(r) for r in reply.entries], reply.head)
        case Lease():
            head = (reply.session, reply.epoch, reply.head)
            return (*head, [_message(m) for m in reply.messages], reply.last_batch_id, reply.open)
        case PendingMessages():
            return ([_message(m) for m in reply.messages], reply.head)
        case Commits():
            return (reply.cursor, [(c.session, c.head) for c in reply.commits])
        case Rows() | CensusFigures():
            return to_plain(reply)
        case _:
            return [getattr(reply, f.name) for f in dataclasses.fields(reply)]


def _appended(plain: Any) -> Appended:
    first_seq, head, ts, messages, cascaded, wakes = plain
    return Appended(first_seq, head, ts, _messages(messages), tuple(cascaded), wakes)


def _lease(plain: Any) -> Lease:
    session, epoch, head, messages, last_batch_id, open_ = plain
    return Lease(session, epoch, head, _messages(messages), last_batch_id, open_)


def _scalars(cls: type[Any]) -> Callable[[Any], Any]:
    return lambda plain: cls(*plain)


_REPLIES: dict[str, Callable[[Any], Any]] = {
    "Appended": _appended,
    "EntryRange": lambda plain: EntryRange(tuple(StoredEntry(*row) for row in plain[0]), plain[1]),
    "Lease": _lease,
    "PendingMessages": lambda plain: PendingMessages(_messages(plain[0]), plain[1]),
    "Commits": lambda plain: Commits(plain[0], tuple(Commit(*c) for c in plain[1])),
    "Rows": lambda plain: from_plain(Rows, plain),
    "CensusFigures": lambda plain: from_plain(CensusFigures, plain),
    **{cls.__name__: _scalars(cls) for cls in _SCALAR_REPLIES},
}
