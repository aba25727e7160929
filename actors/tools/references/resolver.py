"""`References` over the disk: one prompt's segments, one after the other, bounded in number and size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from actors.protocol.references import Place, Resolved, Unresolved, malformed
from actors.protocol.system_items.file_attachment import FILE_ATTACHMENT
from actors.protocol.system_items.knowledge import KNOWLEDGE, Knowledge
from actors.protocol.system_items.workflow import WORKFLOW, Workflow
from actors.tools.offload import StopSign, in_thread
from actors.tools.references.bounds import ReferenceBounds
from actors.tools.references.files import attach
from actors.tools.references.notes import Note, Shelf
from actors.tools.scope import Reach
from actors.tools.typed import ToolRefusal
from session_store.items import REFERENCE_TYPES, Segment, SystemItem

BOUNDS = ReferenceBounds()


@dataclass(frozen=True, slots=True)
class Library:
    """Where one Pod's references lead. `hidden`: folders that nobody may read."""

    place: Place
    memory_root: str
    hidden: tuple[Path, ...] = ()
    bounds: ReferenceBounds = BOUNDS

    @property
    def knowledge(self) -> Shelf:
        return Shelf.knowledge(self.memory_root)

    @property
    def workflows(self) -> Shelf:
        return Shelf.workflows(self.place.workspace)

    def reach(self) -> Reach:
        return Reach.reading(str(Path(self.place.workspace).resolve()), self.place.scope, self.hidden)

    async def resolve(self, message_id: str, segments: Sequence[Segment]) -> Resolved:
        return await in_thread(lambda stop: _Resolving(self, message_id, stop).all(segments))

    async def refusal(self, segments: Sequence[Segment]) -> Unresolved | None:
        """As `resolve(…).refused`, without reading files and knowledge that only an alert would tell of. None too when
        the workspace cannot be seen from here: who can see it looks again."""
        return await in_thread(lambda stop: _Resolving(self, "", stop).refusal(segments))


@dataclass(slots=True)
class _Resolving:
    """One prompt. `taken`: what is attached already, by kind and name."""

    library: Library
    message_id: str
    stop: StopSign
    items: list[SystemItem] = field(default_factory=list)
    literal: list[Unresolved] = field(default_factory=list)
    taken: set[tuple[str, str]] = field(default_factory=set)
    brought: int = 0
    size: int = 0

    def all(self, segments: Sequence[Segment]) -> Resolved:
        if (wrong := malformed(segments)) is not None:
            return Resolved(refused=wrong)
        reach = self.library.reach()
        for index, segment in self._references(segments):
            self.stop.check()
            before = (len(self.items), self.size, self.brought, set(self.taken))
            try:
                self._one(segment, reach)
            except ToolRefusal as error:
                self.items = self.items[: before[0]]
                _, self.size, self.brought, self.taken = before
                if segment.type == "workflow_invoke":
                    return Resolved(refused=Unresolved(index, _workflow_words(segment, error)))
                said = f"{segment.text}: {error} Its text goes to the model as it stands."
                self.literal.append(Unresolved(index, said))
        return Resolved(tuple(self.items), tuple(self.literal))

    def refusal(self, segments: Sequence[Segment]) -> Unresolved | None:
        if (wrong := malformed(segments)) is not None:
            return wrong
        if not os.path.isdir(self.library.place.workspace):
            return None
        for index, segment in self._references(segments):
            if segment.type == "workflow_invoke":
                try:
                    self._workflow(_slug(segment))
                except ToolRefusal as error:
                    return Unresolved(index, _workflow_words(segment, error))
        return None

    def _references(self, segments: Sequence[Segment]) -> Iterator[tuple[int, Segment]]:
        """Those that count. What is beyond the limit is told of, a workflow is always looked at."""
        limit, count = self.library.bounds.references, 0
        for index, segment in enumerate(segments):
            if segment.type not in REFERENCE_TYPES:
                continue
            count += 1
            if count > limit and segment.type != "workflow_invoke":
                self.literal.append(
                    Unresolved(index, f"{segment.text}: a prompt takes {limit} references; it is text.")
                )
                continue
            yield index, segment

    def _one(self, segment: Segment, reach: Reach) -> None:
        match segment.type:
            case "file_ref":
                found = attach(reach, str((segment.data or {})["path"]), self.library.bounds, self.stop)
                self._take("file", found.path, FILE_ATTACHMENT.item("", found))
            case "knowledge_ref":
                self._knowledge(_slug(segment), ())
            case _:
                self._workflow(_slug(segment))

    def _workflow(self, slug: str) -> None:
        note = self.library.workflows.find(slug, self.library.bounds, self.stop)
        for required in note.head.requires:
            self._bring(required, note, ())
        folder = None if note.folder is None else self.library.reach().shown(note.folder)
        self._take("workflow", slug, WORKFLOW.item("", Workflow(slug, note.body, folder)))

    def _knowledge(self, slug: str, above: tuple[str, ...]) -> None:
        """A piece of knowledge behind what it requires; one that is on the way already is not gone into again."""
        if ("knowledge", slug) in self.taken or slug in above:
            return
        note = self.library.knowledge.find(slug, self.library.bounds, self.stop)
        for required in note.head.requires:
            self._bring(required, note, (*above, slug))
        self._take("knowledge", slug, KNOWLEDGE.item("", Knowledge(slug, note.body)))

    def _bring(self, slug: str, by: Note, above: tuple[str, ...]) -> None:
        if ("knowledge", slug) in self.taken or slug in above:
            return
        self.brought += 1
        if self.brought > self.library.bounds.brought:
            raise ToolRefusal(f"`{by.slug}` requires more than {self.library.bounds.brought} pieces of knowledge.")
        try:
            self._knowledge(slug, above)
        except ToolRefusal as error:
            raise ToolRefusal(f"`{by.slug}` requires `{slug}`: {error}") from None

    def _take(self, kind: str, name: str, item: SystemItem) -> None:
        if (kind, name) in self.taken:
            return
        size = self.size + len(item.body.encode("utf-8", "replace"))
        if size > self.library.bounds.prompt:
            raise ToolRefusal(f"What the prompt brings along has more than {self.library.bounds.prompt:,} bytes.")
        self.size = size
        self.taken.add((kind, name))
        self.items.append(replace(item, item_id=f"{self.message_id}:{len(self.items) + 1}"))


def _slug(segment: Segment) -> str:
    return str((segment.data or {})["slug"])


def _workflow_words(segment: Segment, error: ToolRefusal) -> str:
    return f"{error} If `{segment.text}` is no workflow, send it as text (`\\{segment.text}` where people type)."
