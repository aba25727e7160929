"""One Pod's events for the command line, over any number of connections. Blocking; `orchestrator.pod_events` is the
same over aiohttp, which takes longer to import than most commands run."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.cli.failure import GatewayProblem, OwnerLost
from orchestrator.cli.seam import Gateway
from orchestrator.events import EntryEvent, PodStreamEvent, Resync, SystemItemEvent
from orchestrator.following import PodFollowing

RECONNECT = (0.5, 5.0)
"""Seconds before a stream that ended is asked for again: at first, and at most while it brings no news."""


class PodStream:
    """Each event once, from the entry after `after` on. `lost`: it is not connected, and was."""

    def __init__(self, gateway: Gateway, pod_id: str, after: int) -> None:
        self.lost = False
        self._gateway = gateway
        self._path = f"/v1/pods/{pod_id}/events"
        self._following = PodFollowing(after)
        self._closed = threading.Event()

    def close(self) -> None:
        """No event comes after the one that is under way."""
        self._closed.set()

    def events(self) -> Iterator[PodStreamEvent]:
        """Until closed, or until the log cannot be read. Raises `OwnerLost` when the owner of the home is gone, and
        `GatewayProblem`."""
        pause = RECONNECT[0]
        while not self._closed.is_set():
            try:
                for event in self._connection():
                    pause = RECONNECT[0]
                    yield event
                    if self._closed.is_set() or _is_last(event):
                        return
            except OwnerLost:
                self._gateway.get("/healthz")  # a stream may break while the owner lives
            except GatewayProblem as problem:
                if problem.status != 503:
                    raise
            finally:
                self.lost = True
            self._closed.wait(pause)
            pause = min(2 * pause, RECONNECT[1])

    def _connection(self) -> Iterator[PodStreamEvent]:
        stream = self._gateway.stream(self._path, {"after": self._following.place}, self._closed.is_set)
        self._following.connected()
        for wire in stream:
            self.lost = False
            yield from self._following.take(wire)


def _is_last(event: PodStreamEvent) -> bool:
    return isinstance(event, Resync) and event.is_final


def entry_of(event: PodStreamEvent) -> Mapping[str, Any] | None:
    """The entry that an event carries, or None for what is not committed."""
    match event:
        case EntryEvent(_, entry):
            return entry
        case SystemItemEvent(seq, ts, kind, payload, body):
            item = {"kind": kind, "payload": payload, "body": body}
            return {"seq": seq, "ts": ts, "type": "system_items", "items": [item]}
        case _:
            return None
