"""Requests and replies survive the border unchanged; refusals arrive as what they are."""

from dataclasses import replace
from typing import Any

import pytest

from session_store import errors
from session_store.codec import encode_entry
from session_store.entries import Extension, Origin, RunEnd, SegmentStart, Unknown
from session_store.errors import ConditionFailed, StoreUnavailable
from session_store.items import Problem
from session_store.messages import Message
from session_store.recording import EncodedAppend
from session_store.requests import (
    REQUEST_TYPES,
    Annotate,
    Annotated,
    Append,
    Appended,
    Census,
    ClaimDirectory,
    Commit,
    Commits,
    Counters,
    Create,
    Created,
    Deliver,
    Delivered,
    Delivery,
    DirectoryEpoch,
    EntryRange,
    Expect,
    FindMessage,
    Follow,
    Fork,
    Import,
    Lease,
    Open,
    Parent,
    Pending,
    PendingMessages,
    PodLimits,
    Query,
    Read,
    Release,
    Released,
    StoredEntry,
)
from session_store.rows import CensusFigures, CounterValues, MessageState, PodCount, PodRow, Rows, Scope, Waiting
from session_store.wire_codec import (
    decode_many,
    decode_reply,
    decode_request,
    encode_many,
    encode_reply,
    encode_request,
)

TOLD = Message("m", "prompt", "user", {"segments": [{"type": "text", "text": "\u2028日本"}]}, False, 3, 9)
START = SegmentStart("s", {"workspace": "/w", "n": 1.5}, "be good", (), 1, seq=1)
ROW = StoredEntry(1, 7, encode_entry(START))
POD = PodRow(
    *("s", "t", "n", None, "s", 0, False, "waiting_on_user", 2, True, True, 9, "r", 3, "waiting_on_user"),
    *({"type": "x", "message": "y"}, {"question_id": "q"}, 5, ("a", "b"), 1, 2, 3, 4, 5, 6, 7, {"a": None}),
    *(Scope(("r",), ("w",)), 1, 2),
)

REQUESTS: tuple[Any, ...] = (
    Create("s", "t", "m", START),
    Create("s", "t", "m", START, (TOLD,), "n", Parent("p", 1, "r"), True, Scope(("a",), ("b",)), PodLimits(1, 2, 3)),
    Fork("f", "t", "m", replace(START, origin=Origin("s", 4))),
    Fork("f", "t", "m", START, (RunEnd("r", "waiting_on_user"),), "n", Scope(("a",), ("b",))),
    Open("s", 3),
    Open("s", 3, 0),
    Append("s", 1, 2, "b"),
    Append(
        "s",
        1,
        2,
        "b",
        (RunEnd("r", "errored", Problem("x", "y"), ("a",), "any"), Unknown("later", {"k": [1]})),
        (Delivery("p", TOLD, 1), Delivery("q", TOLD)),
        ("m", "n"),
        4,
        True,
        "cancel",
    ),
    Release("s", 1),
    Deliver("s", TOLD),
    Deliver("s", TOLD, Expect("run", "r"), PodLimits(1, 2, 3)),
    Annotate("s", Extension("d", {"a": 1}), "k", 5),
    Pending("s", 2),
    Read("s", 1, 5),
    Query(),
    Query(("a", "b"), "t", "idle", "p", "r", "n", True, False, 5, "7", "m"),
    FindMessage("s", "m"),
    Counters(),
    Census(),
    ClaimDirectory(),
    Follow(-1, 0.5),
    Import("s", "t", (ROW,), "n", "p", True, Scope(), 4, (TOLD,)),
)

REPLIES: tuple[Any, ...] = (
    Created("s", 1, True),
    Lease("s", 1, 2, (TOLD,), "b", False),
    Appended(1, 2, 3, (TOLD,), ("c",), 4),
    Released(3),
    Delivered(1, False, "running"),
    Annotated(1, 2, True),
    PendingMessages((TOLD, TOLD), 4),
    EntryRange((ROW,), 1),
    Rows((POD, replace(POD, scope=None, error=None)), "5"),
    MessageState("s", "consumed", 5),
    MessageState(None, None),
    DirectoryEpoch(3),
    CounterValues({"turns\x1ffinished": 2**40}),
    CensusFigures((PodCount("idle", "default", 3, 2, 1),), (Waiting("prompt", 2, 7),), (Waiting("clarify", 1, 9),)),
    Commits(9, (Commit("s", 1), Commit("t", 2))),
)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: type(r).__name__)
def test_a_request_comes_back_as_it_was(request_: Any) -> None:
    got = decode_request(encode_request(request_))
    if isinstance(request_, Append):
        assert isinstance(got, EncodedAppend)
        assert got.bodies == tuple(encode_entry(e) for e in request_.entries)
        got = Append(*(getattr(got, name) for name in Append.__dataclass_fields__))
    assert got == request_


def test_every_request_is_tried_here() -> None:
    assert {type(r).__name__ for r in REQUESTS} == set(REQUEST_TYPES)


@pytest.mark.parametrize("reply", REPLIES, ids=lambda r: type(r).__name__)
def test_a_reply_comes_back_as_it_was(reply: Any) -> None:
    assert decode_reply(encode_reply(reply)) == reply


@pytest.mark.parametrize("cls", errors.REFUSALS.values(), ids=lambda c: c.code)
def test_a_refusal_is_data_and_is_raised_again(cls: type[errors.Refused]) -> None:
    with pytest.raises(cls) as raised:
        decode_reply(encode_reply(cls("no", reason="limit", most=4, choices=["a"])))
    assert type(raised.value) is cls
    assert (raised.value.message, raised.value.detail) == ("no", {"reason": "limit", "most": 4, "choices": ["a"]})


def test_what_is_no_refusal_is_told_as_unavailable() -> None:
    for error, says in ((StoreUnavailable("disk full"), "disk full"), (KeyError("x"), "unexpected: KeyError('x')")):
        with pytest.raises(StoreUnavailable, match=says.replace("(", r"\(").replace(")", r"\)")):
            decode_reply(encode_reply(error))


def test_many_in_one() -> None:
    parts = [encode_request(Release("s", n)) for n in range(3)]
    assert decode_many(encode_many(parts)) == parts


def test_what_cannot_be_sent_is_refused_by_name() -> None:
    with pytest.raises(ConditionFailed) as refused:
        encode_request(Append("s", 1, 1, "b", (Extension("d", {"x": object()}),)))
    assert refused.value.reason == "invalid"


def test_an_entry_in_a_wrong_shape_is_refused_before_it_is_stored() -> None:
    wrong = encode_request(Append("s", 1, 1, "b", (RunEnd("r", "no such outcome"),)))  # type: ignore[arg-type]
    with pytest.raises(ConditionFailed) as refused:
        decode_request(wrong)
    assert refused.value.reason == "invalid"
