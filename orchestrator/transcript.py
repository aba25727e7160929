"""What one Pod's stream amounts to, for whoever shows it: what is committed, and what is in the making. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from actors.protocol.alerts import KEPT
from actors.protocol.live import Delta, Discard
from orchestrator.events import AlertEvent, EntryEvent, PodStreamEvent, Resync, StatusEvent, SystemItemEvent
from orchestrator.following import ended_blocks

Committed: TypeAlias = EntryEvent | SystemItemEvent


@dataclass(slots=True)
class LiveText:
    """Text in the making, of one block."""

    request_id: str
    text: str = ""


class Transcript:
    """Folds events that are news (those of `PodEvents` are). A block's text is in `live`, in order of birth, until the
    entry that holds it is in `committed`: never in both, never in neither. A `Resync` leaves a hole before what follows
    it in `committed`: `missed` is the last seq that may be missing; the log has it, unless it was purged.
    """

    def __init__(self) -> None:
        self.committed: list[Committed] = []
        self.live: dict[str, LiveText] = {}
        self.alerts: deque[AlertEvent] = deque(maxlen=KEPT)
        self.status: StatusEvent | None = None
        self.missed = 0

    def take(self, event: PodStreamEvent) -> None:
        match event:
            case EntryEvent(_, entry):
                self.committed.append(event)
                for name in ended_blocks(entry, ((n, b.request_id) for n, b in self.live.items())):
                    del self.live[name]
            case SystemItemEvent():
                self.committed.append(event)
            case Delta():
                self.live.setdefault(event.block, LiveText(event.request_id)).text += event.text
            case Discard(request_id):
                self.live = {n: b for n, b in self.live.items() if b.request_id != request_id}
            case StatusEvent():
                self.status = event
            case AlertEvent():
                self.alerts.append(event)
            case Resync(head_seq=int(head)) if event.goes_on:
                self.missed = head
            case _:
                pass  # a retry is of the moment; what is unknown is for a newer version
