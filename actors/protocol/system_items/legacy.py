"""`legacy`: an item of an old log's `hook_injected_items`, of which only the text is known (`session_store.codec`)."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.system_items.kind import ItemKind


@dataclass(frozen=True, slots=True)
class Legacy:
    """Nothing: old items had no payload. Read only, never written."""


def _render(payload: Legacy) -> str:
    return ""


LEGACY = ItemKind("legacy", Legacy, _render)
