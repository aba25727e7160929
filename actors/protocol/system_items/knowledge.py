"""`knowledge`: what `#slug` in a prompt led to, or what a workflow brought along."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.system_items.kind import ItemKind, framed


@dataclass(frozen=True, slots=True)
class Knowledge:
    """`body` is the text of the knowledge file without its front matter."""

    slug: str
    body: str


def _render(payload: Knowledge) -> str:
    return framed("knowledge", {"slug": payload.slug}, payload.body)


KNOWLEDGE = ItemKind("knowledge", Knowledge, _render, attachment=True)
