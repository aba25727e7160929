"""A tool made of a pydantic model of its arguments and a function that does the work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from actors.protocol.tools import ToolArgumentError, ToolContext, ToolOutcome
from session_store.entries import ToolSpec
from session_store.items import Json, ResultStatus


class ToolRefusal(Exception):
    """A tool's plain no, in words for the model: it becomes an outcome of `status` with the message as content."""

    status: ClassVar[ResultStatus] = "error"


class Arguments(BaseModel):
    """Arguments of one tool. The class's name is the tool's name; `says` is what the model is told of it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    says: ClassVar[str]


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


def touches_nothing(arguments: Any, context: ToolContext) -> str | None:
    """For tools that any other call may overlap."""
    return None


@dataclass(frozen=True, slots=True)
class TypedTool(Generic[ArgumentsT]):
    """A `Tool`: `accepts` checks the arguments, `work` does it, `touches` names the resource."""

    accepts: type[ArgumentsT]
    work: Callable[[ArgumentsT, ToolContext], Awaitable[ToolOutcome]]
    spec: ToolSpec
    idempotent: bool
    touches: Callable[[ArgumentsT, ToolContext], str | None]

    def parse(self, arguments: dict[str, Json]) -> ArgumentsT:
        try:
            return self.accepts.model_validate(arguments)
        except ValidationError as error:
            raise ToolArgumentError(_problems(error, self.accepts)) from None

    def resource(self, arguments: ArgumentsT, context: ToolContext) -> str | None:
        return self.touches(arguments, context)

    async def run(self, arguments: ArgumentsT, context: ToolContext) -> ToolOutcome:
        return await self.work(arguments, context)


def typed_tool(
    accepts: type[ArgumentsT],
    work: Callable[[ArgumentsT, ToolContext], Awaitable[ToolOutcome]],
    *,
    idempotent: bool = False,
    touches: Callable[[ArgumentsT, ToolContext], str | None] = touches_nothing,
) -> TypedTool[ArgumentsT]:
    """The tool named after its arguments' class. `idempotent`: it may run again after a crash."""
    return TypedTool(accepts, work, spec_of(accepts), idempotent, touches)


@cache
def spec_of(accepts: type[Arguments]) -> ToolSpec:
    """What the model is told of the tool. Made once for each class: pydantic takes half a millisecond for it."""
    return ToolSpec(name=accepts.__name__, description=accepts.says, parameters=parameters_of(accepts))


def parameters_of(accepts: type[Arguments]) -> dict[str, Json]:
    """The arguments as a compact JSON schema: no titles, no references, optional means not required."""
    schema = accepts.model_json_schema()
    plain: dict[str, Json] = _compact(schema, schema.get("$defs", {}))
    plain.pop("description", None)
    plain.setdefault("properties", {})
    return plain


def _compact(node: Json, defs: dict[str, Json]) -> Json:
    if isinstance(node, list):
        return [_compact(part, defs) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        inner = {k: v for k, v in defs[node["$ref"].rsplit("/", 1)[1]].items() if k != "description"}
        return _compact({**inner, **{k: v for k, v in node.items() if k != "$ref"}}, defs)
    plain = {}
    for key, value in node.items():
        if key == "$defs" or (key == "title" and isinstance(value, str)):
            continue
        if key == "properties":
            plain[key] = {name: _compact(part, defs) for name, part in value.items()}
        elif key == "anyOf":
            branches = [_compact(part, defs) for part in value if part != {"type": "null"}]
            plain.update(branches[0] if len(branches) == 1 else {key: branches})
        elif key != "default" or value is not None:
            plain[key] = _compact(value, defs)
    return plain


def _problems(error: ValidationError, accepts: type[Arguments]) -> str:
    """What does not fit, argument by argument, and what the tool takes."""
    said = []
    for problem in error.errors(include_url=False):
        place = ".".join(map(str, problem["loc"]))
        match problem["type"]:
            case "extra_forbidden":
                said.append(f"unknown argument `{place}`")
            case "missing":
                said.append(f"argument `{place}` is missing")
            case "string_unicode":
                said.append(f"`{place}` holds half a character (a lone surrogate)")
            case "value_error":
                said.append(f"`{place}`: {problem['ctx']['error']}" if place else str(problem["ctx"]["error"]))
            case _:
                text = problem["msg"][:1].lower() + problem["msg"][1:]
                said.append(f"`{place}`: {text}, not {_kind(problem['input'])}")
    fields = accepts.model_fields
    takes = ", ".join(name if field.is_required() else f"{name}?" for name, field in fields.items())
    return f"{'; '.join(dict.fromkeys(said))}. {accepts.__name__} takes {{{takes}}}."


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the string {value[:40]!r}"
        case int() | float():
            return f"the number {value}"
        case list():
            return "an array"
        case _:
            return "an object"
