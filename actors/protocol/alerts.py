"""Notices for people: what a Pod or the control plane wants a person to know. Never in a log, never before a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["info", "warning", "error"]

KEPT = 512
"""Alerts kept of one Pod (issue 3)."""
LONGEST = 4_000
"""Code points of a message; the rest is cut with a mark."""


@dataclass(frozen=True, slots=True)
class Alert:
    """`alert_id` is unique for ever; `code` is for programs, `message` for people; `ts` in ms since the epoch, UTC.

    `pod_id` None: it is about no Pod but the control plane.
    """

    alert_id: str
    level: Level
    code: str
    message: str
    ts: int
    pod_id: str | None = None


def shortened(message: str) -> str:
    return message if len(message) <= LONGEST else message[: LONGEST - 1] + "…"
