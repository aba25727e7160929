"""`file_attachment`: what `@path` in a prompt led to, a file's text or a folder's listing."""

from __future__ import annotations

from dataclasses import dataclass

from actors.protocol.system_items.kind import ItemKind, framed


@dataclass(frozen=True, slots=True)
class FileAttachment:
    """`path` as the model may give it to tools (relative in the workspace). `note` says what `content` leaves out."""

    path: str
    content: str
    note: str | None = None


def _render(payload: FileAttachment) -> str:
    note = f"\n[{payload.note}]" if payload.note else ""
    return framed("file", {"path": payload.path}, payload.content + note)


FILE_ATTACHMENT = ItemKind("file_attachment", FileAttachment, _render, attachment=True)
