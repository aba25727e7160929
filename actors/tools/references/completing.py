"""What a reference that begins like this may mean. Blocking; run it through `offload`. Bounded in names and answers."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence

from actors.protocol.references import Completion, Completions, Sigil
from actors.tools.offload import StopSign
from actors.tools.paths import list_folder
from actors.tools.references.notes import Shelf
from actors.tools.references.resolver import Library
from actors.tools.text import one_line
from actors.tools.typed import ToolRefusal

DESCRIPTION = 200
"""Characters of a description that a completion shows."""


def complete(library: Library, sigil: Sigil, prefix: str, limit: int, stop: StopSign) -> Completions:
    """The first `limit` completions, in order of name. `text` is left as the target: clients know how to write it."""
    match sigil:
        case "@":
            return _paths(library, prefix, limit, stop)
        case "#":
            return _notes(library, library.knowledge, prefix, limit, stop)
        case "/":
            return _notes(library, library.workflows, prefix, limit, stop)


def _notes(library: Library, shelf: Shelf, prefix: str, limit: int, stop: StopSign) -> Completions:
    slugs = _beginning(prefix, shelf.slugs(library.bounds, stop))
    found = []
    for slug in slugs[:limit]:
        try:
            head = shelf.find(slug, library.bounds, stop).head
        except ToolRefusal as error:
            told: str | None = str(error)
        else:
            told = head.description or head.name
        found.append(Completion(slug, slug, shelf.kind, None if told is None else one_line(told, DESCRIPTION)))
    return Completions(tuple(found), len(slugs) > limit)


def _paths(library: Library, prefix: str, limit: int, stop: StopSign) -> Completions:
    """Names in the folder that the prefix names; the reach decides what is seen at all."""
    folder, _, start = prefix.rpartition("/")
    shown = f"{folder}/" if folder or prefix.startswith("/") else ""
    reach = library.reach()
    try:
        real = reach.resolve(shown or ".", "read")
        entries = list_folder(real)
    except (ToolRefusal, OSError):
        return Completions()
    kinds = dict(entries[: library.bounds.scanned])
    found: list[Completion] = []
    for name in _beginning(start, sorted(kinds)):
        stop.check()
        place = os.path.join(real, name)
        leads = os.path.realpath(place)
        asked_for = start.startswith(".") or not name.startswith(".")
        if asked_for and name.isprintable() and reach.shows(leads):
            is_folder = kinds[name] or (leads != place and os.path.isdir(leads))
            path = f"{shown}{name}{'/' if is_folder else ''}"
            found.append(Completion(path, path, "folder" if is_folder else "file"))
        if len(found) > limit:
            break
    return Completions(tuple(found[:limit]), len(found) > limit or len(entries) > len(kinds))


def _beginning(prefix: str, names: Sequence[str]) -> list[str]:
    """Those that begin with the prefix as it is, then those that do without regard to case and form."""
    exact = [name for name in names if name.startswith(prefix)]
    folded = _folded(prefix)
    return exact + [name for name in names if not name.startswith(prefix) and _folded(name).startswith(folded)]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
