"""Shared limits of a model key, as a pure state machine: time comes in as a value, nothing waits in here.

A key's requests and tokens are counted over a sliding window of one minute, so that no minute holds more than allowed;
requests under way are counted by their grants. A grant belongs to (session, epoch) and ends when it is released, not
renewed for `ttl` seconds, or when the session asks under a newer epoch. Asks of a key are granted in order of arrival.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TypeAlias

WINDOW = 60.0
TTL = 30.0
"""Seconds after which a grant that was not renewed is over."""
PATIENCE = 10.0
"""Seconds after which an ask that nobody repeated has left the queue."""
_SWEEP = 1000


def key_of(provider: str, url: str, model: str, api_key_env: str) -> str:
    """Who shares limits: those that use one key for one model at one address."""
    return " ".join((provider, url, model, api_key_env))


def model_of(key: str) -> str:
    """The provider's model that a key is about."""
    return " ".join(key.split(" ")[2:-1]) or key


@dataclass(frozen=True, slots=True)
class Ask:
    """One attempt that asks to be let through. `ask_id` is unique for ever; asked again it is the same ask.

    `tokens` is an estimate of what the attempt will use. The limits come with it; None is no limit.
    """

    ask_id: str
    key: str
    session: str
    epoch: int
    tokens: int
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Granted:
    """Go ahead; renew within `ttl` seconds."""

    ttl: float = TTL


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not yet. Without any other event it is worth asking again after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stale:
    """The ask is over: it was released, or its session has asked under a newer epoch."""


Answer: TypeAlias = Granted | Waiting | Stale


@dataclass(slots=True)
class _Spent:
    at: float
    tokens: int
    ask_id: str


@dataclass(slots=True)
class _Grant:
    ask: Ask
    until: float


@dataclass(slots=True)
class _Queued:
    ask: Ask
    seen: float


@dataclass(slots=True)
class _Key:
    grants: dict[str, _Grant] = field(default_factory=dict)
    queue: dict[str, _Queued] = field(default_factory=dict)
    spent: deque[_Spent] = field(default_factory=deque)
    over: dict[str, float] = field(default_factory=dict)
    tokens: int = 0
    closed_until: float = 0.0

    def forget(self, now: float) -> None:
        """Drop what is over by time."""
        while self.spent and self.spent[0].at <= now - WINDOW:
            self.tokens -= self.spent.popleft().tokens
        while self.over and (first := next(iter(self.over.items())))[1] <= now - WINDOW:
            del self.over[first[0]]
        for ask_id in [i for i, g in self.grants.items() if g.until <= now]:
            del self.grants[ask_id]
        for ask_id in [i for i, q in self.queue.items() if q.seen <= now - PATIENCE]:
            del self.queue[ask_id]

    def wait(self, ask: Ask, now: float) -> float:
        """Seconds until time alone would let `ask` through; 0 is now."""
        waits = [self.closed_until - now]
        if ask.max_concurrency is not None and len(self.grants) >= ask.max_concurrency:
            ends = sorted(g.until for g in self.grants.values())
            waits.append(ends[len(ends) - ask.max_concurrency] - now)
        if ask.requests_per_minute is not None and len(self.spent) >= ask.requests_per_minute:
            waits.append(self.spent[len(self.spent) - ask.requests_per_minute].at + WINDOW - now)
        if ask.tokens_per_minute is not None:
            over = self.tokens + ask.tokens - ask.tokens_per_minute
            for spent in self.spent:  # an ask larger than the limit goes when nothing is spent
                if over <= 0:
                    break
                over -= spent.tokens
                waits.append(spent.at + WINDOW - now)
        return max(0.0, *waits)


class LimitsCore:
    """All keys. Every method takes the present as `now`, seconds of a clock that never goes back."""

    def __init__(self) -> None:
        self._keys: dict[str, _Key] = {}
        self._epochs: dict[str, int] = {}
        self._sweep_at = _SWEEP

    def ask(self, now: float, ask: Ask) -> Answer:
        """Take or keep a place in the key's queue, or be granted. Repeat it within `PATIENCE` while waiting."""
        if self._is_stale(ask):
            return Stale()
        key = self._key(ask.key, now)
        if ask.ask_id in key.over:
            return Stale()
        if ask.ask_id in key.grants:
            return Granted()
        queued = key.queue.get(ask.ask_id)
        if queued is None:
            queued = key.queue[ask.ask_id] = _Queued(ask, now)
        queued.seen = now
        first = next(iter(key.queue.values()))
        wait = key.wait(first.ask, now)
        if first is queued and wait <= 0:
            del key.queue[ask.ask_id]
            key.grants[ask.ask_id] = _Grant(ask, now + TTL)
            key.spent.append(_Spent(now, ask.tokens, ask.ask_id))
            key.tokens += ask.tokens
            return Granted()
        return Waiting(wait if first is queued else max(wait, first.seen + PATIENCE - now))

    def renew(self, now: float, ask: Ask) -> bool:
        """Keep a grant for another `ttl`. One that is not known (the holder of this state was restarted) is taken in
        again. False if the session's epoch is over."""
        if self._is_stale(ask):
            return False
        key = self._key(ask.key, now)
        if ask.ask_id in key.over:
            return False
        key.queue.pop(ask.ask_id, None)
        key.grants[ask.ask_id] = _Grant(ask, now + TTL)
        return True

    def release(self, now: float, ask: Ask, used: int | None) -> None:
        """Give a grant or a place in the queue back, for good: calls overtake each other, and an ask that comes late
        must not take a place again. `used` tokens replace the estimate; None leaves it."""
        key = self._key(ask.key, now)
        key.over[ask.ask_id] = now
        key.queue.pop(ask.ask_id, None)
        key.grants.pop(ask.ask_id, None)
        if used is not None:
            for spent in reversed(key.spent):
                if spent.ask_id == ask.ask_id:
                    key.tokens += used - spent.tokens
                    spent.tokens = used
                    break
        self._sweep(now)

    def penalise(self, now: float, name: str, seconds: float) -> None:
        """The provider refused one request of the key: none is granted for `seconds`."""
        key = self._key(name, now)
        key.closed_until = max(key.closed_until, now + seconds)

    def under_way(self, now: float, name: str) -> int:
        """How many grants of the key are held."""
        return len(self._key(name, now).grants)

    def figures(self, now: float) -> dict[str, tuple[int, int]]:
        """By key: requests under way, and asks that wait."""
        keys = {name: self._key(name, now) for name in list(self._keys)}
        return {name: (len(key.grants), len(key.queue)) for name, key in keys.items()}

    def _key(self, name: str, now: float) -> _Key:
        key = self._keys.setdefault(name, _Key())
        key.forget(now)
        return key

    def _is_stale(self, ask: Ask) -> bool:
        """Learn the session's newest epoch; what older ones held ends."""
        known = self._epochs.get(ask.session, ask.epoch)
        if ask.epoch < known:
            return True
        self._epochs[ask.session] = ask.epoch
        if ask.epoch > known:
            for key in self._keys.values():
                key.grants = {i: g for i, g in key.grants.items() if not _older(g.ask, ask)}
                key.queue = {i: q for i, q in key.queue.items() if not _older(q.ask, ask)}
        return False

    def _sweep(self, now: float) -> None:
        """Now and then forget sessions and keys of which nothing is left."""
        if len(self._epochs) < self._sweep_at:
            return
        for name in list(self._keys):
            key = self._key(name, now)
            if not (key.grants or key.queue or key.spent or key.over) and key.closed_until <= now:
                del self._keys[name]
        held = {g.ask.session for k in self._keys.values() for g in k.grants.values()}
        held |= {q.ask.session for k in self._keys.values() for q in k.queue.values()}
        self._epochs = {session: epoch for session, epoch in self._epochs.items() if session in held}
        self._sweep_at = _SWEEP + 2 * len(held)


def _older(held: Ask, ask: Ask) -> bool:
    return held.session == ask.session and held.epoch < ask.epoch
