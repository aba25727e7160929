"""The child tools: SpawnPod, SendToPod, ReadPodOutput, StopPod, ListPods (WaitForPods is in `waiting`).

All are idempotent: their effect is keyed by the call.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from actors.protocol.ids import name_problem
from actors.protocol.tools import Children, ChildrenError, ChildView, SpawnOrder, Tool, ToolContext, ToolOutcome
from actors.tools.limits import ToolLimits
from actors.tools.offload import StopSign, in_thread
from actors.tools.scope import Access, Reach
from actors.tools.spill import bounded
from actors.tools.text import one_line
from actors.tools.typed import Arguments, ToolRefusal, typed_tool
from actors.tools.waiting import WaitForPods, wait_for
from session_store.items import Json
from session_store.requests import Scope

T = TypeVar("T")

Written = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]
_POD = "Name or id of the Pod."
_LISTED = 200


class Folders(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    read: list[str] = Field(default=[], description="Folders it may read.")
    write: list[str] = Field(
        default=[], description="Folders it may read and write; they are its own until it is done."
    )


class RunBounds(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    requests: int | None = Field(default=None, ge=1, description="Model requests per run.")
    tokens: int | None = Field(default=None, ge=1, description="Tokens per run, input and output.")
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Seconds per run.")


class SpawnPod(Arguments):
    says = (
        "Start a child Pod: an agent of its own that works on a task beside you. It knows nothing of your "
        "conversation, so the task must say all it needs and what to report. Returns its name and id as soon as it has "
        "the task. You are told when it is done, asks something or fails; to stop and wait for it use WaitForPods. "
        "Without `scope` it shares your folders; with it, only those, and you cannot write what you gave until it is "
        "done."
    )
    task: Written = Field(description="What it shall do, complete in itself.")
    name: str | None = Field(
        default=None, description="Short name, unique among your Pods: letters, digits, `_`, `.`, `-`, spaces."
    )
    profile: str | None = Field(default=None, min_length=1, description="Profile from the settings (default: yours).")
    scope: Folders | None = Field(default=None, description="Part of your own folders; a list of folders is `write`.")
    limits: RunBounds | None = Field(default=None, description="Limits of each of its runs.")
    detached: bool = Field(default=False, description="It goes on when you are cancelled or stopped.")

    @field_validator("name")
    @classmethod
    def _proper(cls, name: str | None) -> str | None:
        problem = None if name is None else name_problem(name)
        if problem is not None:
            raise ValueError(problem)
        return name

    @field_validator("scope", mode="before")
    @classmethod
    def _listed(cls, scope: Json) -> Json:
        return {"write": scope} if isinstance(scope, list) else scope


class SendToPod(Arguments):
    says = (
        "Send a message to a Pod you started, or to one below it. A Pod that waits for an answer takes it as the "
        "answer; one at rest starts to work on it; one at work takes it up when its present work is done."
    )
    pod: str = Field(min_length=1, description=_POD)
    message: Written = Field(description="The message, complete in itself.")


class ReadPodOutput(Arguments):
    says = (
        "Read what a Pod you started, or one below it, has written. Without `after` it goes on from your last read of "
        "that Pod."
    )
    pod: str = Field(min_length=1, description=_POD)
    after: int | None = Field(default=None, ge=0, description="Read from after this entry of its log; 0 for all.")


class StopPod(Arguments):
    says = (
        "End a Pod you started, or one below it, with all the Pods below it. It cannot be messaged afterwards; what it "
        "wrote stays readable. Do not stop a Pod that has done its work: that costs nothing."
    )
    pod: str = Field(min_length=1, description=_POD)


class ListPods(Arguments):
    says = "List the Pods you started: name, id, status, and the outcome of those that are done."


def child_tools(children: Children, limits: ToolLimits) -> tuple[Tool, ...]:
    async def spawn(arguments: SpawnPod, context: ToolContext) -> ToolOutcome:
        return await _spawn(arguments, context, children)

    async def send(arguments: SendToPod, context: ToolContext) -> ToolOutcome:
        view = await _told(children.send(context.key, arguments.pod, arguments.message))
        return ToolOutcome("ok", f"sent to {view.name} ({view.pod_id}), which is {view.status}", None, _sent(view))

    async def read(arguments: ReadPodOutput, context: ToolContext) -> ToolOutcome:
        return await _read(arguments, context, children, limits)

    async def stop(arguments: StopPod, context: ToolContext) -> ToolOutcome:
        view = await _told(children.stop(context.key, arguments.pod))
        concluded = [view.pod_id] if view.concluded else []
        return ToolOutcome("ok", f"{view.name} ({view.pod_id}) is {view.status}", None, {"concluded": concluded})

    async def wait(arguments: WaitForPods, context: ToolContext) -> ToolOutcome:
        found = await _told(children.list(context.key.session))
        views = [replace(v, concluded=v.concluded or v.pod_id in context.concluded) for v in found]
        return wait_for(arguments, views, context.heard, limits.outcome_text)

    async def listing(arguments: ListPods, context: ToolContext) -> ToolOutcome:
        return _list(await _told(children.list(context.key.session)))

    return (
        typed_tool(SpawnPod, spawn, idempotent=True),
        typed_tool(SendToPod, send, idempotent=True),
        typed_tool(ReadPodOutput, read, idempotent=True),
        typed_tool(WaitForPods, wait, idempotent=True),
        typed_tool(StopPod, stop, idempotent=True),
        typed_tool(ListPods, listing, idempotent=True),
    )


async def _told(asked: Awaitable[T]) -> T:
    """A refusal of the port is one of the tool, in its own words."""
    try:
        return await asked
    except ChildrenError as error:
        raise ToolRefusal(str(error)) from error


async def _spawn(arguments: SpawnPod, context: ToolContext, children: Children) -> ToolOutcome:
    limits = arguments.limits.model_dump(exclude_none=True) if arguments.limits else {}
    scope = await in_thread(lambda stop: _scope(arguments.scope, context, stop))
    order = SpawnOrder(
        key=context.key,
        run_id=context.run_id,
        epoch=context.epoch,
        task=arguments.task,
        name=arguments.name,
        profile=arguments.profile,
        scope=scope,
        limits=limits,
        detached=arguments.detached,
    )
    view = await _told(children.spawn(order))
    data: dict[str, Json] = {"pod_id": view.pod_id, "name": view.name, "detached": arguments.detached}
    if scope is not None and scope.write:
        data["write"] = list(scope.write)
    return ToolOutcome("ok", f"started Pod {view.name} ({view.pod_id})", None, data)


def _scope(folders: Folders | None, context: ToolContext, stop: StopSign) -> Scope | None:
    """The folders as real paths, each within the Pod's own reach. Raises `OutOfReach`."""
    if folders is None:
        return None
    reach = Reach.of(context)

    def real(paths: list[str], access: Access) -> tuple[str, ...]:
        stop.check()
        return tuple(dict.fromkeys(reach.resolve(path, access) for path in paths))

    return Scope(read=real(folders.read, "read"), write=real(folders.write, "write"))


async def _read(arguments: ReadPodOutput, context: ToolContext, children: Children, limits: ToolLimits) -> ToolOutcome:
    pod_id = await _told(children.resolve(arguments.pod))
    after = arguments.after if arguments.after is not None else context.read_positions.get(pod_id, 0)
    text, to = await _told(children.read_output(context.key, pod_id, after))
    data: dict[str, Json] = {"read": {"pod_id": pod_id, "to": to}}
    said = one_line(arguments.pod, 64)
    if not text:
        return ToolOutcome("ok", f"{said} has written nothing after entry {after}", None, data)
    shown = await bounded(text, limits.result, context)
    return ToolOutcome("ok", f"read {said} up to entry {to}: {len(text):,} characters", shown, data)


def _sent(view: ChildView) -> dict[str, Json]:
    """The Pod has work again: what its log told up to `after` is from before."""
    return {"pod_id": view.pod_id, "after": view.head}


def _list(views: tuple[ChildView, ...]) -> ToolOutcome:
    """All that are not concluded, and the youngest of the rest, oldest first."""
    done = [view for view in views if view.concluded]
    left_out = {id(view) for view in done[: max(0, len(views) - _LISTED)]}
    rows = [_row(view) for view in views if id(view) not in left_out]
    note = [f"[{len(left_out)} older ones that are done are not shown]"] if left_out else []
    busy = len(views) - len(done)
    summary = f"{len(views)} Pods, {busy} not done" if views else "you have started no Pods"
    return ToolOutcome("ok", summary, "\n".join([*rows, *note]) or None)


def _row(view: ChildView) -> str:
    outcome = f", {view.outcome}" if view.outcome else ""
    trouble = f": {one_line(view.error)}" if view.error else ""
    return f"{view.name} ({view.pod_id}): {view.status}{outcome}{trouble}"
