"""When the first text of a reply was shown."""

from __future__ import annotations

from actors.models.timing import Timing
from actors.protocol.live import LiveSink


class FirstText:
    """A `LiveSink` for one attempt, in front of the Pod's own. `ms`: from now to the first text; None: none yet."""

    def __init__(self, live: LiveSink, timing: Timing) -> None:
        self.ms: int | None = None
        self._live = live
        self._timing = timing
        self._started = timing.monotonic()

    def text(self, request_id: str, block: str, text: str) -> None:
        if self.ms is None:
            self.ms = self._timing.since(self._started)
        self._live.text(request_id, block, text)

    def discard(self, request_id: str) -> None:
        self._live.discard(request_id)

    def retry(self, request_id: str, attempt: int, wait: float, reason: str) -> None:
        self._live.retry(request_id, attempt, wait, reason)
