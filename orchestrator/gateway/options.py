"""What a gateway is told when it is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from session_store.requests import PodLimits


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """`tenants` maps a token to its tenant; empty: no token is asked for, all Pods are of the tenant `default`.

    `home_secret` lets its bearer set a Pod's workspace; the bearer acts for the tenant `default`. `limits` are those
    that a message takes a concluded Pod's place under. `body_limit` in bytes; times in seconds: `keepalive` between
    comments on a quiet stream, `stall` until a reader that takes nothing is dropped, `linger` that it is then given to
    hear so, `store_wait` for one answer of the store, `follow_wait` of one look for commits, `watch_wait` of one look
    for live text, `live_pause` between two of them, `cancel_wait` for a cancel to take effect, `result_wait` at most.
    `prices` by model of the settings, as in `orchestrator.usage`.
    """

    tenants: Mapping[str, str] = field(default_factory=dict, repr=False)
    home_secret: str | None = field(default=None, repr=False)
    limits: PodLimits = field(default_factory=PodLimits)
    body_limit: int = 4 << 20
    keepalive: float = 15.0
    stall: float = 30.0
    linger: float = 30.0
    store_wait: float = 10.0
    follow_wait: float = 20.0
    watch_wait: float = 20.0
    live_pause: float = 0.03
    cancel_wait: float = 2.0
    result_wait: float = 300.0
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
