"""Prompts whose references must be looked up before they are taken in: which one is next, and what comes of it. Pure.

The shell looks one prompt's references up (`ResolveReferences`); what it found waits in `PodState.lookup` until it is
committed right behind the prompt's `user_input`. Nothing of it is in the log before, so a crash looks them up again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.pod.endings import Commit, segments_of, tell_parent
from actors.pod.instructions import RaiseAlert
from actors.pod.state import PodState
from actors.pod.stimuli import ReferencesResolved
from actors.protocol.references import Resolved, Unresolved, need_resolving
from session_store.codec import to_plain
from session_store.entries import LogEntry, SystemItems, Withdrawn
from session_store.items import AssistantMessage, Problem, Segment
from session_store.messages import Message


def next_prompt(state: PodState) -> Message | None:
    """The prompt with references that the Pod would take in next; None when none is, or when an order ends what it
    would go into (a run that is cancelled before its first request needs no attachments)."""
    order = state.order()
    if order in ("stop", "cancel") or (state.running and order == "interrupt"):
        return None
    if state.running:
        return next((m for m in state.steers() if refers(m)), None)
    head = None if state.fold.suspended else state.leading()
    return head if head is not None and head.kind == "prompt" and refers(head) else None


def refers(message: Message) -> bool:
    return need_resolving(segments_of(message))


def ready_steers(state: PodState) -> list[Message]:
    """The steering prompts that may go in now: up to the first whose references are not looked up, in order."""
    steers = state.steers()
    for place, message in enumerate(steers):
        if refers(message):
            return steers[: place + (state.looked_up(message) is not None)]
    return steers


def attachments(state: PodState, message: Message) -> list[LogEntry]:
    """What the prompt brings along, as the entries behind its `user_input`."""
    found = state.looked_up(message)
    return [SystemItems((item,)) for item in found.attachments] if found is not None else []


def overtaken(state: PodState, message_id: str) -> bool:
    """Whether the prompt that is being looked up is not the next one any more."""
    message = next_prompt(state)
    return message is None or message.message_id != message_id


def alerts(found: ReferencesResolved) -> list[RaiseAlert]:
    """What people are told of a lookup."""
    told = [RaiseAlert("warning", "reference", one.message) for one in found.resolved.literal]
    if (refused := found.resolved.refused) is not None:
        words = f"The prompt {found.message_id} was not taken, segment {refused.index + 1}: {refused.message}"
        told.append(RaiseAlert("error", "prompt_refused", words))
    return told


def refuse(state: PodState, message: Message, refused: Unresolved) -> Commit:
    """Give a prompt back that cannot be carried out: nothing of it reaches the history, its sender is told."""
    problem = Problem("invalid_prompt", refused.message)
    commit = Commit()
    commit.add(Withdrawn(message.message_id, segments_of(message), problem))
    commit.consumes.append(message.message_id)
    if message.sender == state.who.parent_id:
        event = {"outcome": "withdrawn", "open_children": 0, "error": to_plain(problem)}
        tell_parent(state.who, commit, "turn_ended", event)
    if not state.running:  # the rest that was before goes on, and so does what it holds
        outcome: Any = state.fold.outcome or "withdrawn"
        commit.concluded = state.facts.concludes_with(outcome, state.fold.error)
    return commit


def leaves_nothing_to_ask(state: PodState, message: Message) -> bool:
    """Whether the run had only gone on for this steering prompt: the model has said its last, nothing else came."""
    items: Sequence[object] = state.history.items
    done = bool(items) and isinstance(items[-1], AssistantMessage) and state.history.open_message is None
    return state.running and done and [m.message_id for m in state.steers()] == [message.message_id]


def unreachable(segments: Sequence[Segment], why: str) -> Resolved:
    """When the lookup itself failed: workflows cannot be carried out, the rest is text."""
    places = [i for i, s in enumerate(segments) if need_resolving((s,))]
    vital = next((i for i in places if segments[i].type not in ("file_ref", "knowledge_ref")), None)
    if vital is not None:
        return Resolved(refused=Unresolved(vital, f"{segments[vital].text}: {why}"))
    return Resolved(literal=tuple(Unresolved(i, f"{segments[i].text}: {why}") for i in places))
