"""`notification`: what somebody outside told the Pod by `notify`."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.system_items.kind import ItemKind, framed


@dataclass(frozen=True, slots=True)
class Notification:
    message: str


def _render(payload: Notification) -> str:
    return framed("notification", {}, payload.message)


NOTIFICATION = ItemKind("notification", Notification, _render)
