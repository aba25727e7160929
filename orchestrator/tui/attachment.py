"""One Pod as this client sees it: its transcript, fed by its stream; and whether the server is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orchestrator.events import Resync
from orchestrator.tui.feed import Away, Connected, Feed, Reach
from orchestrator.tui.history import History

STEP = 64
"""Events between two looks at the clock."""


class Attachment:
    """`pod` is the Pod as it was last shown, `away` why there is no connection now."""

    def __init__(self, pod: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], reach: Reach) -> None:
        self.pod = pod
        self.away: str | None = None
        self.history = History()
        self.history.open_with(pod, entries)
        self.resync: Resync | None = None
        """The stream went on without what is between; whoever sees it opens the Pod anew."""
        self._feed = Feed(reach, str(pod["id"]), self.history.last)

    @property
    def pod_id(self) -> str:
        return str(self.pod["id"])

    def drain(self, budget: float, clock: Callable[[], float] = time.monotonic) -> int:
        """Take up what has come, for at most `budget` seconds; how many things came."""
        limit, number = clock() + budget, 0
        while clock() < limit:
            before = number
            for coming in self._feed.take(STEP):
                number += 1
                self._take(coming)
            if number == before:
                break
        return number

    def close(self) -> None:
        self._feed.close()

    def _take(self, coming: Any) -> None:
        match coming:
            case Connected():
                self.away = None
            case Away():
                self.away = coming.reason
            case Resync(snapshot=snapshot):
                self.history.take(coming)
                self.pod = snapshot or self.pod
                if coming.goes_on:
                    self.resync = coming
                elif coming.detail:
                    self.away = coming.detail
            case _:
                self.history.take(coming)
