"""What one Pod's shell is made of, and what its tools are told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from actors.pod.state import PodState
from actors.protocol.model import Model
from actors.protocol.references import References
from actors.protocol.tools import CallKey, Toolbox, ToolContext
from session_store.items import AssistantMessage


@dataclass(frozen=True, slots=True)
class PodParts:
    """One Pod's own parts. Folders are resolved."""

    model: Model
    toolbox: Toolbox
    references: References
    workspace: Path
    spill: Path
    forbidden: tuple[Path, ...]
    hidden: tuple[Path, ...]


def tool_context(state: PodState, parts: PodParts, message: AssistantMessage, index: int) -> ToolContext:
    """All that the call at `index` may know, by what is committed now; its live output goes nowhere yet."""
    facts, who = state.facts, state.who
    permit = facts.permits.permit_for(message.seq, index)
    return ToolContext(
        key=CallKey(who.session, message.seq, index),
        call_id=message.calls[index].call_id,
        run_id=state.fold.run_id or "",
        epoch=who.generation,
        pod_name=who.name,
        workspace=parts.workspace,
        scope=state.config.scope,
        seen=dict(facts.seen),
        output=_unheard,
        spill=parts.spill,
        forbidden=parts.forbidden,
        hidden=parts.hidden,
        heard=frozenset(facts.heard),
        read_positions=dict(facts.read_positions),
        concluded=frozenset(pod_id for pod_id, child in facts.children.items() if child.concluded),
        lent=facts.lent,
        permitted=None if permit is None else permit.subject,
        grants=frozenset(facts.permits.grants),
    )


def _unheard(text: str) -> None:
    return None
