"""References in the bodies of requests: refused before anything is recorded, completed while they are typed."""

from __future__ import annotations

from collections.abc import Sequence

from actors.protocol.references import Completions, Place, Sigil, Unresolved, malformed
from orchestrator.gateway.problems import HttpProblem, invalid
from orchestrator.ports import NewPod
from session_store.codec import from_plain
from session_store.items import Segment
from session_store.rows import PodRow, Scope


class EmptyDoor:
    """A `PromptDoor` where nothing is: no workflow exists, nothing completes."""

    def place(self, new: NewPod) -> Place | None:
        return Place(new.workspace or "/", new.scope)

    async def refusal(self, place: Place, segments: Sequence[Segment]) -> Unresolved | None:
        invoked = (Unresolved(i, "there are no workflows here") for i, s in enumerate(segments) if s.type == WORKFLOW)
        return malformed(segments) or next(invoked, None)

    async def complete(self, place: Place, sigil: Sigil, prefix: str, limit: int) -> Completions:
        return Completions()


WORKFLOW = "workflow_invoke"


def place_of(row: PodRow) -> Place:
    """Where the references of a Pod lead, as it was created."""
    scope = row.config.get("scope")
    return Place(str(row.config.get("workspace") or ""), None if scope is None else from_plain(Scope, scope))


def refused(told: Unresolved) -> HttpProblem:
    """422, naming the segment (case T10)."""
    where = f"segments.{told.index}"
    said = f"The prompt was not taken: {where}: {told.message}"
    return invalid(said, errors=[{"field": where, "message": told.message}])
