"""What the Directory is told: the `[directory]` table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DirectorySettings:
    """Times in seconds.

    `lease`: how long a Pod works on after its last heartbeat reply. `sweep`: how often lost hints are looked for.
    `spawn_timeout`: until a child must have committed its task. `stop_timeout`: until a stopped Pod is ended by force.
    `max_restarts` within `restart_window`; more, and the Pod is given up. `max_actors`: processes at most; a Pod at
    rest makes room for one that has work. An actor is not bound again after `retire_after` bindings.
    """

    pods_per_actor: int = 1
    warm_pool: int = 2
    max_actors: int = 128
    park_after: float = 60.0
    lease: float = 4.0
    heartbeat: float = 0.5
    sweep: float = 1.0
    spawn_timeout: float = 30.0
    stop_timeout: float = 10.0
    unbind_timeout: float = 2.0
    start_timeout: float = 60.0
    max_restarts: int = 5
    restart_window: float = 600.0
    restart_delay: float = 0.2
    max_depth: int = 8
    max_children: int = 64
    max_pods: int = 1000
    max_wakes: int = 1000
    retire_after: int = 200


LEASE_MARGIN = 1.0
"""Seconds beyond the lease before the next epoch is granted without proof of death (DESIGN law 3)."""
