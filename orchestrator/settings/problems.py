"""Settings that cannot be used, in words for the person who wrote them."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Path = tuple[str, ...]
"""Where a value stands: `("models", "fast", "provider")`."""


class SettingsError(Exception):
    """`source` is the file or variable that says it, `key` the dotted key (empty: the whole file), `problem` what is
    wrong with it and `advice` what to do. No secret is ever in the text."""

    def __init__(self, source: str, key: str, problem: str, advice: str = "") -> None:
        place = f"{source}: `{key}`" if key else source
        super().__init__(f"{place}: {problem}" + (f" {advice}" if advice else ""))
        self.source = source
        self.key = key
        self.problem = problem
        self.advice = advice

    def __reduce__(self) -> tuple[type[SettingsError], tuple[str, str, str, str]]:
        return (SettingsError, (self.source, self.key, self.problem, self.advice))


def nearest(name: str, known: Iterable[str]) -> str:
    """Advice on an unknown name: the nearest known one, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    if close:
        return f"Did you mean `{close[0]}`?"
    return f"Known are: {', '.join(names)}." if names else "There is none yet."


def from_validation(error: ValidationError, sources: Mapping[Path, str], root: type[BaseModel]) -> SettingsError:
    """The first complaint of pydantic, with its place named by who wrote it."""
    first = error.errors(include_url=False, include_input=False)[0]
    path = tuple(str(part) for part in first["loc"] if part != "[key]")
    problem, advice = _words(first, path, root)
    return SettingsError(source_of(path, sources), ".".join(path), problem, advice)


def source_of(path: Sequence[str], sources: Mapping[Path, str]) -> str:
    """Who named the value, or the nearest table around it."""
    for length in range(len(path), -1, -1):
        if (source := sources.get(tuple(path[:length]))) is not None:
            return source
    return "settings"


def known_keys(root: type[BaseModel], path: Sequence[str]) -> list[str]:
    """The keys that the table at `path` may hold; empty where any name may stand."""
    model = table_at(root, path)
    return [] if model is None else list(model.model_fields)


def table_at(root: type[BaseModel], path: Sequence[str]) -> type[BaseModel] | None:
    """The schema of the table at `path`; None if it is no table of fixed keys."""
    annotation: Any = root
    for part in path:
        annotation = step(annotation, part)
        if annotation is None:
            return None
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def step(annotation: Any, part: str) -> Any:
    """The type of the value under `part` in a value of this type; None if there is no such place."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = annotation.model_fields.get(part)
        return None if field is None else _inner(field.annotation)
    if get_origin(annotation) is dict:
        return _inner(get_args(annotation)[1])
    return None


def _inner(annotation: Any) -> Any:
    """Without `| None` and without annotations."""
    if get_origin(annotation) is Annotated:
        return _inner(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [a for a in get_args(annotation) if a is not type(None)]
        return _inner(rest[0]) if len(rest) == 1 else annotation
    return annotation


def _words(error: ErrorDetails, path: Path, root: type[BaseModel]) -> tuple[str, str]:
    context = error.get("ctx") or {}
    match error["type"]:
        case "extra_forbidden":
            return "unknown key.", nearest(path[-1], known_keys(root, path[:-1]))
        case "missing":
            return "is missing.", "Add it."
        case "literal_error":
            return "is not one of the known values.", f"Use {context.get('expected')}."
        case "value_error":
            return str(context.get("error")), ""
        case "model_type" | "dict_type" | "model_attributes_type":
            return "must be a table.", f"Write it as `[{'.'.join(path)}]`."
        case _:
            return f"{error['msg'][:1].lower()}{error['msg'][1:]}.", "Correct the value."
