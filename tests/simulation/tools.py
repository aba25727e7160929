"""The tools of a simulated Pod: generators that yield the ms until they go on. Our own are keyed by their call."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from actors.protocol.ids import child_id
from actors.protocol.tools import CallKey, PermissionAsk, ToolOutcome
from session_store.entries import Question, QuestionClosed, ToolStarted
from session_store.errors import Refused
from session_store.items import ToolCall
from session_store.messages import Message
from session_store.requests import Deliver, FindMessage, Parent, Pending
from session_store.status import concludes, event_seq
from tests.simulation import planning
from tests.simulation.world import LawBroken, World, prompt

if TYPE_CHECKING:
    from tests.simulation.pod import Incarnation

IDEMPOTENT = {"Look", "SpawnPod", "SendToPod", "WaitForPods", "StopPod", "clarify", *planning.TOOLS}
SPAWN_TIMEOUT_MS = 30_000
Work = Generator[int, None, ToolOutcome]


def idempotent(name: str) -> bool:
    return name in IDEMPOTENT


def work(world: World, pod: Incarnation, key: CallKey, call: ToolCall) -> Work:
    """Answer one call, whatever it is."""
    if call.problem is not None:
        return (yield from _answer(ToolOutcome("error", call.problem)))
    if call.name not in IDEMPOTENT | {"Act", "Guarded"}:
        return (yield from _answer(ToolOutcome("error", f"There is no tool {call.name}.")))
    if call.name == "Guarded":
        yield 0
        subject = f"Guarded {(call.arguments or {})['thing']}"
        if not _permitted(pod, key, subject):
            return ToolOutcome("not_run", "asks", asks=PermissionAsk(f"May it use {subject}?", subject))
        _check_permit(world, key, subject)
    world.tool_starts.setdefault((key.session, key.call_seq, key.index), []).append(call.name)
    try:
        match call.name:
            case "SpawnPod":
                return (yield from _spawn(world, pod, key, call.arguments or {}))
            case "SendToPod":
                return (yield from _send(world, pod, key, call.arguments or {}))
            case "StopPod":
                return (yield from _stop(world, pod, key, call.arguments or {}))
            case "clarify":
                return (yield from _answer(_clarified(call.arguments or {})))
            case "WaitForPods":
                return (yield from _wait(world, pod, call.arguments or {}))
            case name if name in planning.TOOLS:
                return (yield from planning.work(world, pod, key, call))
            case _:
                for _ in range(world.rng.randint(0, 3)):
                    yield world.rng.choice((0, 20, 2000))
                return ToolOutcome("ok", "Done.")
    except Refused as refused:
        return ToolOutcome("error", f"{refused.code}: {refused.message}")


def _answer(outcome: ToolOutcome) -> Work:
    yield 0
    return outcome


def _clarified(arguments: dict[str, object]) -> ToolOutcome:
    if not arguments["valid"]:
        return ToolOutcome("error", "the question is blank")
    choices = [{"label": "left"}, {"label": "right"}]
    return ToolOutcome("ok", "asked", None, {"question": {"question": "Which?", "choices": choices}})


def _permitted(pod: Incarnation, key: CallKey, subject: str) -> bool:
    permits = pod.machine.state.facts.permits
    permit = permits.permit_for(key.call_seq, key.index)
    return subject in permits.grants or (permit is not None and permit.subject == subject)


def _check_permit(world: World, key: CallKey, subject: str) -> None:
    """What is guarded runs only behind its `tool_started`, or a decision for the session about the same thing."""
    subjects: dict[str, str | None] = {}
    for entry in world.references[key.session].entries:
        match entry:
            case ToolStarted(call=call) if (call.call_seq, call.index) == (key.call_seq, key.index):
                return
            case Question():
                subjects[entry.question_id] = entry.subject
            case QuestionClosed(choice="allow_session") if subjects.get(entry.question_id) == subject:
                return
            case _:
                pass
    raise LawBroken(f"{key} runs {subject} and nobody allowed it")


def _spawn(world: World, pod: Incarnation, key: CallKey, arguments: dict[str, object]) -> Work:
    child, task = child_id(key.session, key.call_seq, key.index), f"task:{key}"
    yield 0
    name, detached = str(arguments["name"]), bool(arguments["detached"])
    parent = Parent(key.session, pod.epoch, pod.machine.state.fold.run_id or "")
    world.create(child, name, "Work for your parent.", task, parent, detached=detached)
    world.hint((child,))
    deadline = world.now + SPAWN_TIMEOUT_MS
    while True:
        yield 20
        match world.execute(FindMessage(child, task)).state:
            case "pending" if world.now > deadline and world.row(child).run_id is not None:
                # It lives, and somebody else came first (and paused it): the task is durable in its queue.
                return ToolOutcome("ok", "Spawned.", None, {"pod_id": child, "name": name, "detached": detached})
            case "consumed":
                return ToolOutcome("ok", "Spawned.", None, {"pod_id": child, "name": name, "detached": detached})
            case "pending":
                continue
            case _:
                return ToolOutcome("error", "The child did not start.")


def _send(world: World, pod: Incarnation, key: CallKey, arguments: dict[str, object]) -> Work:
    to = str(arguments["pod"])
    yield 0
    before = world.row(to).head
    yield 0
    message = prompt(f"send:{key}", key.session, "More.", when_busy=arguments["when_busy"])
    reply = world.execute(Deliver(to, message, limits=world.pod_limits))
    yield 0
    world.hint((to,))
    # Run again after a crash, the head of now would hide the end of the run that the message had.
    return ToolOutcome("ok", "Sent.", None, {"pod_id": to, "after": 0 if reply.existed else before})


def _stop(world: World, pod: Incarnation, key: CallKey, arguments: dict[str, object]) -> Work:
    to = str(arguments["pod"])
    yield 0
    if world.row(to).status != "ended":
        world.try_execute(Deliver(to, Message(f"stop:{key}", "stop", key.session, {"reason": "stopped"})))
    while world.row(to).status != "ended":
        world.hint((to,))
        yield 50
    return ToolOutcome("ok", "Stopped.", None, {"concluded": [to]})


def _wait(world: World, pod: Incarnation, arguments: dict[str, object]) -> Work:
    yield 0
    facts = pod.machine.state.facts
    named = [str(p) for p in arguments["pods"]] or list(facts.children)  # type: ignore[attr-defined]
    told = set()
    for message in world.execute(Pending(pod.session)).messages:
        event = message.body.get("event")
        child = facts.children.get(str(event.get("pod_id"))) if event else None
        if child is not None and concludes(event) and event_seq(event) > child.after:
            told.add(event["pod_id"])
    concluded = [p for p in named if p in told or facts.children[p].concluded]
    waiting = [p for p in named if p not in concluded]
    news = [p for p in concluded if p not in facts.heard]
    if not waiting or (arguments["mode"] == "any" and news):
        return ToolOutcome("ok", "Concluded.", None, {"listed": concluded})
    return ToolOutcome("ok", "Waiting.", None, {"awaiting": waiting, "mode": arguments["mode"]})
