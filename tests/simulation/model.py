"""A random but bounded model: it makes text and calls of every kind, fails in every way, and at last only concludes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.pod import stimuli as st
from actors.protocol.model import ModelReply, StopReason, Usage
from session_store.items import AssistantItem, Reasoning, Text, ToolCall
from tests.simulation import planning
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.pod import Incarnation


REPLIES = {
    "calls": 50,
    "text": 26,
    "empty": 3,
    "reasoning": 2,
    "pause": 2,
    "length": 2,
    "refusal": 2,
    "broken": 5,
    "failed": 3,
}
CALLS = {
    "Look": 14,
    "Act": 16,
    "SpawnPod": 26,
    "SendToPod": 10,
    "WaitForPods": 16,
    "StopPod": 5,
    "clarify": 6,
    "Guarded": 10,
    "Plan": 16,
    "Nope": 2,
    "garbled": 2,
}


def answer(world: World, pod: Incarnation, request_id: str) -> st.Stimulus:
    """The end of one request. Where histories are compacted its prompt is measured, more or less as estimated, and is
    too long at times."""
    told = _answer(world, pod, request_id)
    state = pod.machine.state
    if not state.config.compaction.on:
        return told
    if world.chance(0.04):
        return st.RequestFailed(request_id, "context_overflow", "too long")
    if isinstance(told, st.ReplyCompleted):
        measured = round(state.facts.occupancy.tokens * world.rng.choice((0.9, 1.0, 1.2)))
        return replace(told, reply=replace(told.reply, usage=Usage(measured, 0, 0, 20)))
    return told


def _answer(world: World, pod: Incarnation, request_id: str) -> st.Stimulus:
    """Mostly a reply, sometimes a failure."""
    rng = world.rng
    world.model_budget -= 1
    if world.model_budget <= 0 or (world.calm and rng.random() < 0.5):
        return st.ReplyCompleted(request_id, reply((Text(f"Done with {request_id}."),)))
    kind = world.pick("reply", REPLIES)
    match kind:
        case "calls":
            items: list[AssistantItem] = [Text("Let me see.")] if rng.random() < 0.3 else []
            items += [call(world, pod, n) for n in range(rng.choice((1, 1, 2, 3)))]
            return st.ReplyCompleted(request_id, reply(tuple(items), "tool_calls"))
        case "empty":
            return st.ReplyCompleted(request_id, reply(()))
        case "reasoning":
            return st.ReplyCompleted(request_id, reply((Reasoning("Hm."),)))
        case "broken":
            return st.RequestFailed(request_id, "broken_stream", "cut", broken=True, kept=kept(world))
        case "failed":
            return st.RequestFailed(request_id, rng.choice(("server", "empty_reply")), "no")
        case "text":
            return st.ReplyCompleted(request_id, reply((Text(f"Answer of {request_id}."),)))
        case _:
            stop: StopReason = kind  # type: ignore[assignment]
            return st.ReplyCompleted(request_id, reply((Text("Half"),), stop))


def kept(world: World) -> tuple[AssistantItem, ...]:
    return (Text("What I had said"),) if world.rng.random() < 0.5 else ()


def reply(items: tuple[AssistantItem, ...], stop: StopReason = "end") -> ModelReply:
    return ModelReply(items, Usage(input=100, output=20), stop, 5, "sim")


def call(world: World, pod: Incarnation, n: int) -> ToolCall:
    """One call. Ids repeat at times; pods are those the history tells of."""
    rng, known = world.rng, list(pod.machine.state.facts.children)
    call_id = rng.choice(("same", f"call-{n}"))
    kind = world.pick("call", CALLS)
    if kind in ("SendToPod", "StopPod") and not known:
        kind = "SpawnPod"
    match kind:
        case "garbled":
            return ToolCall(call_id, "Act", None, '{"x', "the arguments are not a JSON object")
        case "Plan":
            return planning.call(world, call_id)
        case "SpawnPod":
            return ToolCall(call_id, kind, {"name": world.token("c"), "detached": rng.random() < 0.15})
        case "clarify":
            return ToolCall(call_id, kind, {"valid": rng.random() < 0.8})
        case "Guarded":
            return ToolCall(call_id, kind, {"thing": rng.choice(("a", "b"))})
        case "SendToPod":
            busy = rng.choice(("queue", "queue", "steer", "interrupt"))
            return ToolCall(call_id, kind, {"pod": rng.choice(known), "when_busy": busy})
        case "StopPod":
            return ToolCall(call_id, kind, {"pod": rng.choice(known)})
        case "WaitForPods":
            pods = rng.sample(known, rng.randint(0, len(known)))
            return ToolCall(call_id, kind, {"pods": pods, "mode": rng.choice(("all", "any"))})
        case _:
            return ToolCall(call_id, kind, {})
