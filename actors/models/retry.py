"""Whether a failed attempt is made again, and after how long. Pure: chance and time come in as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from actors.protocol.model import ModelError

RETRIED = frozenset({"rate_limited", "overloaded", "server", "connection", "timeout", "broken_stream", "empty_reply"})
_MAX_SECONDS = 10**9


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `attempts` in all (`empty` of them after empty replies), within `budget` seconds from the first.

    Backoff doubles from `base` up to `cap` seconds and is shortened by chance down to half. A provider's Retry-After is
    honoured in full or not at all: a wait that does not fit the budget ends the request at once.
    """

    attempts: int = 5
    empty: int = 2
    base: float = 0.5
    cap: float = 60.0
    budget: float = 300.0


@dataclass(frozen=True, slots=True)
class Wait:
    """Try again after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not try again, because of `reason`."""

    reason: str


Decision: TypeAlias = Wait | GiveUp


@dataclass(frozen=True, slots=True)
class Failure:
    """How attempt number `attempt` (from 1) ended, `elapsed` seconds after the first one began."""

    error: ModelError
    attempt: int
    elapsed: float
    retry_after: float | None = None


def decide(policy: RetryPolicy, failure: Failure, chance: float) -> Decision:
    """`chance` in [0, 1)."""
    error = failure.error
    if error.broken:
        return GiveUp("output had begun")
    if error.type not in RETRIED or error.detail.get("code") == "insufficient_quota":
        return GiveUp("trying again would not help")
    if failure.attempt >= policy.attempts:
        return GiveUp(f"all {policy.attempts} attempts are spent")
    if error.type == "empty_reply" and failure.attempt > policy.empty:
        return GiveUp(f"{failure.attempt} attempts gave an empty reply")
    backoff = min(policy.cap, policy.base * 2.0 ** (failure.attempt - 1))
    if failure.retry_after is not None:
        seconds = failure.retry_after + chance * min(1.0, failure.retry_after / 10)
    else:
        seconds = backoff * (0.5 + chance / 2)
    if failure.elapsed + seconds > policy.budget:
        return GiveUp(f"the next attempt would start {failure.elapsed + seconds:.0f} s after the first")
    return Wait(seconds)


def retry_after(headers: Mapping[str, str], now_ms: int) -> float | None:
    """Seconds that the provider asks to wait: `retry-after-ms`, or `retry-after` as seconds or an HTTP date.

    `headers` with names in lower case. Nonsense is None; a date in the past is 0.
    """
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) / scale
        except ValueError:
            continue
        if 0 <= seconds <= _MAX_SECONDS:
            return seconds
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except (TypeError, ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now_ms / 1000)


def final(error: ModelError, failure: Failure, reason: str) -> ModelError:
    """`error` with what became of the attempts; to be raised."""
    if failure.attempt > 1:
        error.message = f"{error.message} ({failure.attempt} attempts; {reason})"
    error.detail["attempts"] = str(failure.attempt)
    if failure.retry_after is not None:
        error.detail["retry_after"] = f"{failure.retry_after:g}"
    return error
