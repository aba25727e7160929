"""`workflow`: the instructions that `/slug` in a prompt invoked."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.system_items.kind import ItemKind, framed


@dataclass(frozen=True, slots=True)
class Workflow:
    """`body` is the text without its front matter; `folder` that of a `SKILL.md`, whose other files it may name."""

    slug: str
    body: str
    folder: str | None = None


def _render(payload: Workflow) -> str:
    return framed("workflow", {"slug": payload.slug, "folder": payload.folder}, payload.body)


WORKFLOW = ItemKind("workflow", Workflow, _render, attachment=True)
