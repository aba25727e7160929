"""The worker's answer: four arrays and nothing else. The model's JSON is checked here and nowhere else.

Nothing in it says where it comes from: session, range and id are attached by the machine (law 8).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from session_store.entries import ToolSpec
from session_store.items import AssistantItem, Json, Text, ToolCall

TOOL = "record_activity"
_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)
_SHOWN = 3
"""So many mistakes are told to the model at once."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Decision(_Strict):
    options: list[str]
    chosen: str
    rationale: str


class Discussion(_Strict):
    topic: str
    points: list[str]


class Attempt(_Strict):
    action: str
    result: str
    succeeded: bool


class Request(_Strict):
    intent: str
    summary: str
    target: str | None = None


class Extraction(_Strict):
    """Candidates of what happened, in four arrays; each may be empty, none may be missing."""

    decisions: list[Decision]
    discussions: list[Discussion]
    attempts: list[Attempt]
    requests: list[Request]

    def plain(self) -> dict[str, Json]:
        """Without `target` where there is none."""
        return self.model_dump(exclude_none=True)


NOTHING = Extraction(decisions=[], discussions=[], attempts=[], requests=[])


class NoExtraction(Exception):
    """A reply that is no extraction; `str` says why, in words for the model."""


def tool() -> ToolSpec:
    """The one tool that the worker has: its arguments are the answer."""
    return ToolSpec(
        TOOL,
        "Records what happened in the session log. Call it exactly once. All four arrays are required; leave an array "
        "empty when there is nothing of its kind.",
        PARAMETERS,
    )


def read_reply(items: tuple[AssistantItem, ...]) -> Extraction:
    """The extraction in a reply: the arguments of its one call, or its text if that is the JSON object itself.

    Raises `NoExtraction`.
    """
    calls = [item for item in items if isinstance(item, ToolCall)]
    text = "".join(item.text for item in items if isinstance(item, Text)).strip()
    if len(calls) > 1:
        raise NoExtraction(f"There were {len(calls)} calls. Call `{TOOL}` exactly once.")
    if calls:
        return _of_call(calls[0])
    if not text:
        raise NoExtraction(f"There was no call. Call `{TOOL}`.")
    fenced = _FENCE.match(text)
    try:
        value = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        raise NoExtraction(f"The reply was prose. Call `{TOOL}` and write nothing else.") from None
    return _checked(value)


def cleaned(extraction: Extraction, mask: Callable[[str], str]) -> Extraction:
    """The same with every text masked."""
    return Extraction.model_validate(_masked(extraction.model_dump(), mask))


def _of_call(call: ToolCall) -> Extraction:
    if call.problem is not None or call.arguments is None:
        raise NoExtraction(f"The arguments were no JSON object: {call.problem}.")
    if call.name != TOOL:
        raise NoExtraction(f"There is no tool `{call.name}`. Call `{TOOL}`.")
    return _checked(call.arguments)


def _checked(value: Json) -> Extraction:
    try:
        return Extraction.model_validate(value)
    except ValidationError as error:
        mistakes = [f"`{'.'.join(map(str, e['loc'])) or 'reply'}`: {e['msg']}" for e in error.errors(include_url=False)]
        more = "" if len(mistakes) <= _SHOWN else f" (and {len(mistakes) - _SHOWN} more)"
        raise NoExtraction(f"It does not fit the schema: {'; '.join(mistakes[:_SHOWN])}{more}.") from None


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [_masked(v, mask) for v in value]
    if isinstance(value, dict):
        return {name: _masked(v, mask) for name, v in value.items()}
    return value


def _object(properties: dict[str, Json], optional: tuple[str, ...] = ()) -> dict[str, Json]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _array(items: dict[str, Json]) -> dict[str, Json]:
    return {"type": "array", "items": items}


_TEXT: dict[str, Json] = {"type": "string"}
PARAMETERS: dict[str, Json] = _object(
    {
        "decisions": _array(_object({"options": _array(_TEXT), "chosen": _TEXT, "rationale": _TEXT})),
        "discussions": _array(_object({"topic": _TEXT, "points": _array(_TEXT)})),
        "attempts": _array(_object({"action": _TEXT, "result": _TEXT, "succeeded": {"type": "boolean"}})),
        "requests": _array(_object({"intent": _TEXT, "target": _TEXT, "summary": _TEXT}, optional=("target",))),
    }
)
"""Written out, without references: weak servers take it as it is."""
