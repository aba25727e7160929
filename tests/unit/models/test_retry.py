"""Whether and when a failed attempt is made again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.models.options import EndpointOptions
from actors.models.retry import RETRIED, Failure, GiveUp, RetryPolicy, Wait, decide, retry_after
from actors.models.transport import Timeouts
from actors.models.wire.refusals import ERROR_TYPES, error_event, error_response
from actors.protocol.model import ModelError

POLICY = RetryPolicy()
NOW = 1_445_412_480_000  # Wed, 21 Oct 2015 07:28:00 GMT


def failure(kind: str = "server", attempt: int = 1, **more: object) -> Failure:
    error = ModelError(kind, "x", broken=bool(more.pop("broken", False)))
    return replace(Failure(error, attempt, 0.0), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", sorted(ERROR_TYPES))
def test_what_is_retried(kind: str) -> None:
    assert isinstance(decide(POLICY, failure(kind), 0.5), Wait) == (kind in RETRIED)


def test_backoff_doubles_to_the_cap_and_is_bounded() -> None:
    waits = [decide(replace(POLICY, attempts=20), failure(attempt=n), 0.999999) for n in range(1, 12)]
    seconds = [w.seconds for w in waits if isinstance(w, Wait)]
    assert seconds == pytest.approx([0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60], rel=0.01)
    assert decide(POLICY, failure(), 0.0) == Wait(0.25)
    assert decide(POLICY, failure(attempt=5), 0.5) == GiveUp("all 5 attempts are spent")


def test_M08_retry_after_is_honoured_in_full_or_not_at_all() -> None:
    assert decide(POLICY, failure("rate_limited", retry_after=7.0), 0.0) == Wait(7.0)
    assert decide(POLICY, failure("rate_limited", retry_after=0.0), 0.9) == Wait(0.0)
    assert isinstance(decide(POLICY, failure("rate_limited", retry_after=301.0), 0.0), GiveUp)
    assert isinstance(decide(POLICY, failure(elapsed=299.9), 0.0), GiveUp)


@given(st.floats(0, 0.999999), st.integers(1, 4), st.one_of(st.none(), st.floats(0, 1000)), st.floats(0, 400))
def test_no_wait_is_shorter_than_asked_or_beyond_the_budget(
    chance: float, attempt: int, asked: float | None, elapsed: float
) -> None:
    decision = decide(POLICY, failure(attempt=attempt, retry_after=asked, elapsed=elapsed), chance)
    if isinstance(decision, Wait):
        assert decision.seconds >= (asked or 0)
        assert elapsed + decision.seconds <= POLICY.budget


def test_T09_an_empty_reply_is_retried_twice() -> None:
    assert isinstance(decide(POLICY, failure("empty_reply", 2), 0.0), Wait)
    assert isinstance(decide(POLICY, failure("empty_reply", 3), 0.0), GiveUp)


def test_M01_a_stream_that_broke_after_output_is_not_retried() -> None:
    assert isinstance(decide(POLICY, failure("broken_stream"), 0.0), Wait)
    assert isinstance(decide(POLICY, failure("broken_stream", broken=True), 0.0), GiveUp)
    assert isinstance(decide(POLICY, failure("overloaded", broken=True), 0.0), GiveUp)


def test_a_spent_quota_is_not_waited_for() -> None:
    body = b'{"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}'
    assert isinstance(decide(POLICY, Failure(error_response(429, body), 1, 0.0), 0.0), GiveUp)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, b'{"error": {"message": "bad"}}', "bad_request"),
        (400, b'{"error": {"code": "context_length_exceeded", "message": "x"}}', "context_overflow"),
        (400, b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}',
         "context_overflow"),
        (400, b'{"error":{"code":400,"type":"exceed_context_size_error","message":"request (9) exceeds"}}',
         "context_overflow"),
        (413, b"", "context_overflow"),
        (401, b'{"error": "no"}', "auth"),
        (403, b"<html>", "auth"),
        (404, b'{"detail": "no such model"}', "not_found"),
        (408, b"", "timeout"),
        (422, b"[]", "bad_request"),
        (429, b'[{"error": {"message": "slow down"}}]', "rate_limited"),
        (500, b"\xff\xfe", "server"),
        (503, b"", "overloaded"),
        (529, b'{"error": {"type": "overloaded_error"}}', "overloaded"),
    ],
)  # fmt: skip
def test_what_a_status_means(status: int, body: bytes, kind: str) -> None:
    error = error_response(status, body)
    assert (error.type, error.status) == (kind, status)
    assert str(status) in error.message


def test_a_provider_may_not_fill_the_log_with_words() -> None:
    assert len(error_event({"message": "x" * 100_000}).message) < 1000
    assert len(error_response(500, b"y" * 100_000).message) < 1000


def test_the_options_say_the_same_defaults() -> None:
    assert EndpointOptions().as_timeouts() == Timeouts()
    assert EndpointOptions().as_policy() == RetryPolicy()
