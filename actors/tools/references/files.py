"""What `@path` leads to: a file's text up to a size, or a folder's listing. Blocking; run it through `offload`."""

from __future__ import annotations

import os

from actors.protocol.system_items.file_attachment import FileAttachment
from actors.tools.files import missing, refusal
from actors.tools.offload import StopSign
from actors.tools.paths import LinkMet, list_folder, open_file
from actors.tools.references.bounds import ReferenceBounds
from actors.tools.scope import OutOfReach, Reach
from actors.tools.text import SAMPLE, decoder, detect, printable, sizes
from actors.tools.typed import ToolRefusal


def attach(reach: Reach, path: str, bounds: ReferenceBounds, stop: StopSign) -> FileAttachment:
    """The file or folder that `path` leads to, if the Pod may read it. Raises `ToolRefusal` in words for people.

    The path is resolved and judged, then opened part by part without following a link (case G01).
    """
    real = reach.resolve(path, "read")
    said = printable(path)
    try:
        if os.path.isdir(real):
            return _listing(reach, real, bounds)
        return _text(reach, real, said, bounds, stop)
    except FileNotFoundError:
        raise ToolRefusal(missing(said, real, reach)) from None
    except OSError as error:
        raise refusal(error, said) from error


def read_start(real: str, limit: int, stop: StopSign) -> tuple[bytes, int]:
    """The first `limit` bytes of a file and its full size. Raises `LinkMet`, `NotAFile`, `OSError`."""
    with os.fdopen(open_file(real), "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        blocks, left = [], limit
        while left and (block := file.read(left)):
            stop.check()
            blocks.append(block)
            left -= len(block)
    data = b"".join(blocks)
    return data, max(size, len(data))


def text_of(data: bytes, *, whole: bool) -> str | None:
    """Bytes as text, None when they are none. Without `whole` a character cut at the end is left out (case G05)."""
    encoding = detect(data[:SAMPLE])
    if encoding is None:
        return None
    return decoder(encoding).decode(data, whole).removeprefix("\ufeff")


def _text(reach: Reach, real: str, said: str, bounds: ReferenceBounds, stop: StopSign) -> FileAttachment:
    data, size = read_start(real, bounds.file, stop)
    whole = size <= len(data)
    text = text_of(data, whole=whole)
    if text is None:
        raise ToolRefusal(f"`{said}` is a binary file of {sizes(size)}: it cannot be shown as text.")
    if whole:
        return FileAttachment(reach.shown(real), text)
    note = f"cut: the first {len(text):,} characters of a file of {sizes(size)}; Read shows the rest"
    return FileAttachment(reach.shown(real), text, note)


def _listing(reach: Reach, real: str, bounds: ReferenceBounds) -> FileAttachment:
    try:
        entries = list_folder(real)
    except LinkMet as error:
        raise OutOfReach(
            f"`{reach.shown(real)}` has become a symbolic link; links made meanwhile are refused."
        ) from error
    shown = sorted(
        printable(name) + ("/" if is_folder else "")
        for name, is_folder in entries
        if not reach.hides(os.path.join(real, name))
    )
    note = None
    if len(shown) > bounds.listing:
        note = f"cut: the first {bounds.listing:,} of {len(shown):,} names; Glob shows the rest"
    path = reach.shown(real)
    return FileAttachment(f"{path.rstrip('/')}/", "\n".join(shown[: bounds.listing]) or "(empty)", note)
