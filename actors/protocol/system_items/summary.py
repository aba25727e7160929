"""`summary`: what stands for the earlier part of a session where a compaction begins a new segment."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.system_items.kind import ItemKind, framed

HEAD = (
    "The earlier part of this session is not shown any more; this summary stands for it, up to entry {through}. What"
    " follows it is the session as it was, word for word. Go on from where it ended."
)


@dataclass(frozen=True, slots=True)
class Summary:
    """`text` is the worker's. `through`: seq of the last entry before the summary was made. `attachments` are files
    that prompts brought along and that are not shown any more, `children` one line for each child at that time."""

    text: str
    through: int
    attachments: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


def _render(payload: Summary) -> str:
    parts = [HEAD.format(through=payload.through), payload.text]
    if payload.attachments:
        parts.append("Files that were attached earlier, to be read again if needed:\n" + _listed(payload.attachments))
    if payload.children:
        parts.append("Children of this session, as of then:\n" + _listed(payload.children))
    return framed("summary", {}, "\n\n".join(parts))


def _listed(lines: tuple[str, ...]) -> str:
    return "\n".join(f"- {line}" for line in lines)


SUMMARY = ItemKind("summary", Summary, _render)
