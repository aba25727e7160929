"""Knowledge and workflows: Markdown files with a slug for a name. Blocking; run it through `offload`.

`<memory root>/knowledge/<slug>.md` is knowledge; `<workspace>/.polypod/workflows/<slug>.md`, or a folder of that name
with a `SKILL.md`, is a workflow. These are polypod's own doors: the Pod's scope does not matter, but a link that leads
out of the folder is not followed (case G01).
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from actors.protocol.references import SLUG
from actors.tools.files import refusal
from actors.tools.offload import StopSign
from actors.tools.paths import within
from actors.tools.references.bounds import ReferenceBounds
from actors.tools.references.files import read_start, text_of
from actors.tools.references.front_matter import FrontMatter, split
from actors.tools.text import sizes
from actors.tools.typed import ToolRefusal

NoteKind: TypeAlias = Literal["knowledge", "workflow"]
WORKFLOWS = os.path.join(".polypod", "workflows")
KNOWLEDGE = "knowledge"
SKILL = "SKILL.md"
ENDING = ".md"


@dataclass(frozen=True, slots=True)
class Note:
    """One file that was found. `folder`: that of a `SKILL.md`."""

    slug: str
    body: str
    head: FrontMatter
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class Shelf:
    """One folder of notes. `folder` need not exist."""

    kind: NoteKind
    folder: str

    @classmethod
    def knowledge(cls, memory_root: str) -> Shelf:
        return cls("knowledge", os.path.join(memory_root, KNOWLEDGE))

    @classmethod
    def workflows(cls, workspace: str) -> Shelf:
        return cls("workflow", os.path.join(workspace, WORKFLOWS))

    @property
    def place(self) -> str:
        """The folder in words that show nothing of the machine."""
        return f"`{WORKFLOWS}` of the workspace" if self.kind == "workflow" else f"`{KNOWLEDGE}` of the memory"

    def find(self, slug: str, bounds: ReferenceBounds, stop: StopSign) -> Note:
        """The note of that slug. Raises `ToolRefusal` in words for people."""
        root = os.path.realpath(self.folder)
        for name, in_folder in self._names(slug):
            real = os.path.realpath(os.path.join(root, name))
            if not within(real, root):
                raise ToolRefusal(f"The {self.kind} `{slug}` leads out of {self.place} by a symbolic link.")
            try:
                data, size = read_start(real, bounds.note, stop)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise ToolRefusal(f"The {self.kind} `{slug}` cannot be read: {refusal(error, name)}") from error
            return self._note(slug, data, size, os.path.dirname(real) if in_folder else None)
        raise ToolRefusal(f"There is no {self.kind} `{slug}` in {self.place}.")

    def slugs(self, bounds: ReferenceBounds, stop: StopSign) -> list[str]:
        """The slugs there are, sorted; of at most `bounds.scanned` names."""
        found: set[str] = set()
        try:
            with os.scandir(self.folder) as entries:
                for count, entry in enumerate(entries):
                    if count >= bounds.scanned:
                        break
                    stop.check()
                    slug = entry.name.removesuffix(ENDING)
                    if slug == entry.name and not (self.kind == "workflow" and _has_skill(entry.path)):
                        continue
                    found.add(unicodedata.normalize("NFC", slug))
        except OSError:
            return []
        return sorted(slug for slug in found if SLUG.fullmatch(slug))

    def _names(self, slug: str) -> Iterator[tuple[str, bool]]:
        # Some systems keep names decomposed: ガ as カ and a mark.
        for form in dict.fromkeys((slug, unicodedata.normalize("NFC", slug), unicodedata.normalize("NFD", slug))):
            yield form + ENDING, False
            if self.kind == "workflow":
                yield os.path.join(form, SKILL), True

    def _note(self, slug: str, data: bytes, size: int, folder: str | None) -> Note:
        if size > len(data):
            raise ToolRefusal(f"The {self.kind} `{slug}` has {sizes(size)}; at most {sizes(len(data))} can be taken.")
        text = text_of(data, whole=True)
        if text is None:
            raise ToolRefusal(f"The {self.kind} `{slug}` is no text.")
        head, body = split(text)
        if (wrong := next((s for s in head.requires if SLUG.fullmatch(s) is None), None)) is not None:
            raise ToolRefusal(f"The {self.kind} `{slug}` requires `{wrong[:128]}`, which can be no name of knowledge.")
        return Note(slug, body, head, folder)


def _has_skill(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, SKILL))
