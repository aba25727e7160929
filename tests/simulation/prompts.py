"""Prompts with references, and what looking them up comes to: found, partly missing, or a prompt nobody can do."""

from __future__ import annotations

from dataclasses import replace

from actors.pod import instructions as do
from actors.protocol.references import Resolved, Unresolved
from actors.protocol.system_items.knowledge import KNOWLEDGE, Knowledge
from actors.protocol.system_items.workflow import WORKFLOW, Workflow
from session_store.messages import Message
from tests.simulation.world import World

SEGMENTS = (
    {"type": "workflow_invoke", "text": "/review", "data": {"slug": "review"}},
    {"type": "text", "text": " by "},
    {"type": "knowledge_ref", "text": "#style", "data": {"slug": "style"}},
)


def referring(message: Message) -> Message:
    """The same prompt with references."""
    return replace(message, body={**message.body, "segments": list(SEGMENTS)})


def looked_up(world: World, order: do.ResolveReferences) -> Resolved:
    """Another answer each time: files come and go."""
    dice = world.rng.random()
    if dice < 0.2:
        return Resolved(refused=Unresolved(0, "There is no workflow `review`."))
    workflow = WORKFLOW.item(f"{order.message_id}:1", Workflow("review", "Look."))
    if dice < 0.4:
        return Resolved((workflow,), (Unresolved(2, "There is no knowledge `style`."),))
    return Resolved((workflow, KNOWLEDGE.item(f"{order.message_id}:2", Knowledge("style", "Be kind."))))
