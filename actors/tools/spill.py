"""Results too large to keep: cut for the model, whole in a file that Read may read."""

from __future__ import annotations

import os
from pathlib import Path

from actors.protocol.tools import ToolContext
from actors.tools.offload import StopSign, in_thread
from actors.tools.text import cut_middle, sizes


def spill_path(context: ToolContext) -> Path:
    """Where the whole output of this call goes; the same however often the call runs."""
    key = context.key
    return context.spill / f"{key.session.replace('/', '_')}-{key.call_seq}-{key.index}.txt"


def open_spill(path: Path) -> int:
    """A descriptor of the empty file, readable by this user only; makes the folder."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def cut_note(dropped: int, size: int, where: str) -> str:
    """What stands in place of the middle. `dropped` characters are missing of an output of `size` bytes."""
    return f"\n[… {dropped:,} characters are left out here; the whole is {sizes(size)}. {where}]\n"


def kept_at(path: Path) -> str:
    return f"All of it is in {path}: Read it with offset and limit, or Grep it."


async def bounded(text: str, limit: int, context: ToolContext) -> str:
    """The text, or head and tail of together `limit` characters with a note between; then the whole is in a file."""
    head, tail, dropped = cut_middle(text, limit)
    if not dropped:
        return text
    data = text.encode("utf-8", "replace")
    path = spill_path(context)

    def save(stop: StopSign) -> str:
        try:
            with os.fdopen(open_spill(path), "wb") as file:
                file.write(data)
        except OSError as error:
            return f"It could not be kept: {error.strerror}."
        return kept_at(path)

    return head + cut_note(dropped, len(data), await in_thread(save)) + tail
