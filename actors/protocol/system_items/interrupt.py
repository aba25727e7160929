"""`interrupt`: told to the model when its own work was cut off."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.system_items.kind import ItemKind, framed


@dataclass(frozen=True, slots=True)
class Interrupt:
    """`reason` is for programs (`broken_stream`), `message` for the model."""

    reason: str
    message: str


def _render(payload: Interrupt) -> str:
    return framed("interrupt", {}, payload.message)


INTERRUPT = ItemKind("interrupt", Interrupt, _render)
