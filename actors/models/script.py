"""The script of a scripted model: JSON lines, one reply each, and which of them answers which request.

Which line answers request N of Pod P follows from P and N alone (`ScriptLine.match` and the order of the lines), so a
Pod that was restarted goes on in its script where it stood.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from actors.models.secrets import Redactor
from actors.models.wire.blocks import parse_arguments
from actors.models.wire.json_bytes import dump_text
from actors.models.wire.refusals import ERROR_TYPES, error_type
from actors.protocol.model import ModelError
from session_store.items import Json, ToolCall

_STRICT = ConfigDict(extra="forbid", frozen=True)
_Count = Annotated[int, Field(ge=0, strict=True)]


class Match(BaseModel):
    """Which requests a line answers: Pod names (exact or a pattern with `*`, `?`, `[]`), and a request's number."""

    model_config = _STRICT
    pod: str | None = None
    request: Annotated[int, Field(ge=1, strict=True)] | None = None


class ScriptCall(BaseModel):
    """A tool call. `arguments` as an object, or as the very text a model might have written."""

    model_config = _STRICT
    name: str
    arguments: dict[str, Json] | str = Field(default_factory=dict)
    id: str | None = None

    def call(self, call_id: str) -> ToolCall:
        raw = self.arguments if isinstance(self.arguments, str) else dump_text(self.arguments)
        arguments, problem = parse_arguments(raw)
        kept = raw if problem is not None else None
        return ToolCall(self.id if self.id is not None else call_id, self.name, arguments, kept, problem)


class ScriptUsage(BaseModel):
    model_config = _STRICT
    input: _Count | None = None
    cache_read: _Count = 0
    cache_write: _Count = 0
    output: _Count | None = None


class ScriptError(BaseModel):
    """A failure by `type` (of `ModelError`) or HTTP `status`. With `times`, so many attempts fail before the reply."""

    model_config = _STRICT
    type: str | None = None
    status: Annotated[int, Field(ge=400, le=599, strict=True)] | None = None
    message: str = ""
    retry_after: Annotated[float, Field(ge=0)] | None = None
    times: Annotated[int, Field(ge=1, strict=True)] | None = None

    @model_validator(mode="after")
    def _known(self) -> ScriptError:
        if self.type is None and self.status is None:
            raise ValueError("an error needs `type` or `status`")
        if self.type is not None and self.type not in ERROR_TYPES:
            raise ValueError(f"unknown error type {self.type!r}; there are {', '.join(sorted(ERROR_TYPES))}")
        return self

    def error(self) -> ModelError:
        kind = self.type or error_type(self.status, "", self.message)
        message = self.message or (f"the script answers {self.status}" if self.status else "the script says so")
        return ModelError(kind, Redactor().clean(message), status=self.status)


class ScriptLine(BaseModel):
    """One reply of the script. `repeat`: the line answers all further requests that reach it.

    `text_from: "tool_results"` puts the contents of the latest tool results below `text`, so that a scripted Pod can
    tell what its tools found.
    """

    model_config = _STRICT
    match: Match = Match()
    text: str = ""
    text_from: Literal["tool_results"] | None = None
    reasoning: str = ""
    tool_calls: tuple[ScriptCall, ...] = ()
    usage: ScriptUsage = ScriptUsage()
    stop: Literal["end", "length", "refusal", "pause"] | None = None
    error: ScriptError | None = None
    delay_ms: _Count = 0
    repeat: bool = False

    @model_validator(mode="before")
    @classmethod
    def _short_error(cls, plain: Json) -> Json:
        """`"error": "overloaded"` is its type; other words are the message of a server error."""
        if isinstance(plain, dict) and isinstance(plain.get("error"), str):
            words = plain["error"]
            error = {"type": words} if words in ERROR_TYPES else {"type": "server", "message": words}
            return {**plain, "error": error}
        return plain

    @model_validator(mode="after")
    def _consistent(self) -> ScriptLine:
        if self.repeat and self.match.request is not None:
            raise ValueError("a line with `match.request` answers one request and cannot `repeat`")
        return self

    def applies(self, pod: str) -> bool:
        return self.match.pod is None or fnmatchcase(pod, self.match.pod)


def read_script(text: str, source: str) -> tuple[ScriptLine, ...]:
    """Parse a script. Empty lines and lines that begin with `#` are skipped. Raises `ModelError` (`settings`)."""
    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                plain = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ModelError("settings", f"{source}, line {number}: not JSON: {error}") from None
            lines.append(script_line(plain, f"{source}, line {number}"))
    return tuple(lines)


def script_line(plain: Mapping[str, Json], place: str) -> ScriptLine:
    """One line from plain data. Raises `ModelError` (`settings`) that names `place` and the field."""
    try:
        return ScriptLine.model_validate(plain)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        where = f" at `{field}`" if field else ""
        raise ModelError("settings", f"{place}{where}: {first['msg']}") from None


def line_for(lines: Iterable[ScriptLine], pod: str, number: int) -> ScriptLine | None:
    """The line that answers request `number` (from 1) of the Pod named `pod`.

    Of the lines that apply to the Pod, the first with that `match.request` answers it. All other requests take the
    lines without `match.request` in order, each once, or from there on always if it says `repeat`.
    """
    numbered: dict[int, ScriptLine] = {}
    free: list[ScriptLine] = []
    for line in lines:
        if not line.applies(pod):
            continue
        if line.match.request is None:
            free.append(line)
        else:
            numbered.setdefault(line.match.request, line)
    if number in numbered:
        return numbered[number]
    place = number - 1 - sum(1 for n in numbered if n < number)
    for index, line in enumerate(free):
        if index == place or line.repeat:
            return line
    return None
