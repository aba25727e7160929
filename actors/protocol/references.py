"""References in prompts: what a segment must hold, and the port that finds what it refers to.

`@path`, `#slug` and `/slug` reach a Pod as typed segments only; nobody looks for sigils in text here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from session_store.items import REFERENCE_TYPES, SEGMENT_TYPES, Segment, SystemItem
from session_store.requests import Scope

Sigil: TypeAlias = Literal["@", "#", "/"]

SLUG = re.compile(r"[^\W_][\w.-]{0,127}")
"""Of knowledge and workflows: letters of any script, digits, `_`, `-`, `.`; no path."""
MAX_PATH = 4096


@dataclass(frozen=True, slots=True)
class Place:
    """Where a Pod's references lead: its workspace (absolute) and its scope (None: the whole workspace)."""

    workspace: str
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A segment that leads nowhere. `index` is its place in the prompt; `message` says why and what to do."""

    index: int
    message: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a prompt's references came to.

    `attachments` in the order of the segments, each thing once. `literal`: references to files and knowledge that lead
    nowhere; their text stands for itself. `refused`: why the prompt cannot be carried out (a workflow that is not
    there, a malformed segment); then there are no attachments.
    """

    attachments: tuple[SystemItem, ...] = ()
    literal: tuple[Unresolved, ...] = ()
    refused: Unresolved | None = None


class References(Protocol):
    """The references of one Pod."""

    async def resolve(self, message_id: str, segments: Sequence[Segment]) -> Resolved:
        """Find everything, bounded in size. Cancellable; never raises for what a prompt says."""


@dataclass(frozen=True, slots=True)
class Completion:
    """`text` is the whole reference as a person would type it, `target` its path or slug."""

    text: str
    target: str
    kind: Literal["file", "folder", "knowledge", "workflow"]
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Completions:
    """`more`: there are others beyond the limit."""

    found: tuple[Completion, ...] = ()
    more: bool = False


def segment_problem(segment: Segment) -> str | None:
    """What is wrong with the form of a segment; None when it is well formed."""
    data = segment.data or {}
    match segment.type:
        case "text" | "paste":
            return None
        case "file_ref":
            path = data.get("path")
            if not isinstance(path, str) or not path or len(path) > MAX_PATH or "\0" in path:
                return f"a file_ref needs `path`, a text of 1 to {MAX_PATH} characters without NUL"
            return None
        case "knowledge_ref" | "workflow_invoke":
            slug = data.get("slug")
            if not isinstance(slug, str) or SLUG.fullmatch(slug) is None:
                return f"a {segment.type} needs `slug`: letters, digits, `_`, `-` and `.`, at most 128"
            return None
        case other:
            known = ", ".join(sorted(SEGMENT_TYPES))
            return f"this version does not know segments of the type `{other[:64]}` (known: {known})"


def malformed(segments: Iterable[Segment]) -> Unresolved | None:
    """The first segment whose form is wrong."""
    for index, segment in enumerate(segments):
        if (problem := segment_problem(segment)) is not None:
            return Unresolved(index, problem)
    return None


def need_resolving(segments: Iterable[Segment]) -> bool:
    """Whether a prompt holds more than text: references, or what this version does not know."""
    return any(s.type in REFERENCE_TYPES or s.type not in SEGMENT_TYPES for s in segments)
