"""How often, and after which wait, a Pod whose process died is started again. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.directory.settings import DirectorySettings


@dataclass(frozen=True, slots=True)
class Verdict:
    """`deaths` are the times (s) still counted; `wait` is the seconds until the next start, None: give the Pod up."""

    deaths: tuple[float, ...]
    wait: float | None


def after_death(deaths: tuple[float, ...], now: float, settings: DirectorySettings) -> Verdict:
    """The first death costs no wait; further ones wait `restart_delay`, doubling; more than `max_restarts` in the
    window end it."""
    counted = (*(t for t in deaths if now - t < settings.restart_window), now)
    if len(counted) > settings.max_restarts:
        return Verdict(counted, None)
    wait = 0.0 if len(counted) == 1 else settings.restart_delay * 2.0 ** (len(counted) - 2)
    return Verdict(counted, wait)
