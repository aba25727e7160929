"""The public extension point: hooks see what a Pod does; they may deny a call or stop a run, and never change anything.

A hook is any object with some of these methods, plain functions that answer None or one of the verdicts named:

    before_request(view: RequestView) -> Stop | None        a model request is about to go
    before_call(view: CallView) -> Deny | Stop | None       a tool call is about to run
    after_call(view: ResultView) -> Stop | None             a tool call has its result
    after_run(view: RunEndView) -> None                     a run has ended; it is committed

They are called off the event loop, one call of a hook at a time, each within the time limit of the settings. How to
install one: docs/guides/hooks.md. Views hold no keys; what is JSON in them is read-only (mappings and tuples).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from session_store.items import Json

FrozenJson: TypeAlias = Any
"""JSON whose objects are read-only mappings and whose arrays are tuples."""
METHODS = ("before_request", "before_call", "after_call", "after_run")


@dataclass(frozen=True, slots=True)
class Deny:
    """The call is not run; the model is told `reason` in a result of status `denied`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """The run ends `limit_reached` with an error of type `hook` and this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class PodView:
    """Whose step it is. `workspace` is its folder, absolute."""

    session: str
    name: str
    parent_id: str | None
    generation: int
    run_id: str
    profile: str
    model: str
    workspace: str


@dataclass(frozen=True, slots=True)
class RequestView:
    """`number` counts the session's requests from 1, `run_request` those of the run. `history_len` counts the items of
    the history; `new_items` are those that no earlier request of this incarnation held, as the log has them."""

    pod: PodView
    request_id: str
    number: int
    run_request: int
    history_len: int
    new_items: tuple[FrozenJson, ...]


@dataclass(frozen=True, slots=True)
class CallView:
    """A call is named by the seq of its `assistant_items` entry and its index among the calls there."""

    pod: PodView
    call_seq: int
    index: int
    name: str
    arguments: Mapping[str, FrozenJson]


@dataclass(frozen=True, slots=True)
class ResultView:
    """`status`: `ok, error, denied, interrupted, not_run`. `content` None: the summary is all."""

    call: CallView
    status: str
    summary: str
    content: str | None


@dataclass(frozen=True, slots=True)
class RunEndView:
    """`outcome` as in the log. `text` is that of the last reply. `error_type` and `error` if something failed."""

    pod: PodView
    outcome: str
    text: str
    error_type: str | None = None
    error: str | None = None


def frozen(value: Json) -> FrozenJson:
    """A read-only copy of a JSON value."""
    if isinstance(value, dict):
        return MappingProxyType({k: frozen(v) for k, v in value.items()})
    if isinstance(value, list | tuple):
        return tuple(frozen(v) for v in value)
    return value
