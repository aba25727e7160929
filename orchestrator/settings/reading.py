"""From files and environment to `Settings`: find the file, lay the overrides over it, check, resolve paths."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_origin

from pydantic import BaseModel, ValidationError

from orchestrator.settings import problems
from orchestrator.settings.problems import SettingsError, from_validation, nearest, source_of
from orchestrator.settings.resolved import (
    DEFAULT,
    DEFAULT_HOME,
    FILE_NAME,
    HOME_VARIABLE,
    KEY_VARIABLES,
    URL_VARIABLES,
    Settings,
)
from orchestrator.settings.schema import SettingsFile

__all__ = ["Settings", "load_settings"]

PREFIX = "POLYPOD__"
MODEL_VARIABLES = {"openai": "OPENAI_MODEL", "anthropic": "ANTHROPIC_MODEL"}
DEFAULT_MODELS = {"openai": "gpt-5-mini", "anthropic": "claude-sonnet-4-5"}

Tree = dict[str, Any]
Sources = dict[problems.Path, str]


def load_settings(folder: Path, environ: Mapping[str, str], file: Path | None = None) -> Settings:
    """The settings in force for a working folder. `file` names a settings file instead of looking for one.

    Raises `SettingsError`, which names who says what is wrong.
    """
    folder = Path(os.path.abspath(folder))
    home = _absolute(environ.get(HOME_VARIABLE) or DEFAULT_HOME, folder)
    file = _absolute(str(file), folder) if file is not None else find_file(folder, home)
    tree: Tree = {}
    sources: Sources = {}
    if file is not None:
        tree = _read(file)
        _note_sources(tree, (), str(file), sources)
    if not tree.get("models"):
        tree["models"] = _default_model(environ, sources)
    _override(tree, sources, environ)
    _fill_models(tree, environ)
    _resolve_paths(tree, sources, file, folder)
    try:
        tables = SettingsFile.model_validate(tree)
    except ValidationError as error:
        # Without the chain: a traceback of pydantic would show the values, and one may be a token.
        raise from_validation(error, sources, SettingsFile) from None
    _check_names(tables, sources)
    return Settings(tables, folder, home, file)


def find_file(folder: Path, home: Path) -> Path | None:
    """The nearest `polypod.toml` upward from `folder`, else the home's."""
    places = [*(parent / FILE_NAME for parent in (folder, *folder.parents)), home / FILE_NAME]
    return next((place for place in places if place.is_file()), None)


def _read(file: Path) -> Tree:
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(str(file), "", f"is no TOML: {error}.", "Correct that line.") from None
    except UnicodeDecodeError as error:
        raise SettingsError(str(file), "", f"is not UTF-8 (byte {error.start}).", "Save it as UTF-8.") from None
    except OSError as error:
        raise SettingsError(
            str(file), "", f"cannot be read: {error.strerror}.", "Check the path and its rights."
        ) from None


def _note_sources(value: Any, path: problems.Path, source: str, sources: Sources) -> None:
    sources[path] = source
    if isinstance(value, dict):
        for key, inner in value.items():
            _note_sources(inner, (*path, key), source, sources)


def _default_model(environ: Mapping[str, str], sources: Sources) -> Tree:
    """The model `default` of a key in the environment; none without a key."""
    for provider, variable in KEY_VARIABLES.items():
        if environ.get(variable):
            _note_sources({}, ("models", DEFAULT), variable, sources)
            named = environ.get(MODEL_VARIABLES[provider]) or DEFAULT_MODELS[provider]
            return {DEFAULT: {"provider": provider, "model": named}}
    return {}


def _fill_models(tree: Tree, environ: Mapping[str, str]) -> None:
    """What a provider's own variables say for a model that does not say it: the key's variable, and the address."""
    models = tree.get("models")
    for table in models.values() if isinstance(models, dict) else ():
        provider = table.get("provider") if isinstance(table, dict) else None
        if provider not in KEY_VARIABLES:
            continue
        own = table.get("base_url") is not None
        address = environ.get(URL_VARIABLES[provider])
        if not own and address and "api_key_env" not in table:
            table["base_url"] = address
        if "api_key_env" not in table and not (own and not environ.get(KEY_VARIABLES[provider])):
            table["api_key_env"] = KEY_VARIABLES[provider]


def _override(tree: Tree, sources: Sources, environ: Mapping[str, str]) -> None:
    """Lay `POLYPOD__SECTION__KEY` over the file. An empty value counts as not set."""
    for variable in sorted(v for v in environ if v.startswith(PREFIX) and environ[v]):
        path, annotation = _place(variable, tree)
        *above, key = path
        table = tree
        for part in above:
            inner = table.setdefault(part, {})
            if not isinstance(inner, dict):
                raise SettingsError(source_of(path, sources), ".".join(above), "must be a table.", "Correct the file.")
            table = inner
        table[key] = _value(variable, environ[variable], annotation)
        sources[path] = variable


def _place(variable: str, tree: Tree) -> tuple[problems.Path, Any]:
    """The key that a variable names, and the type of its value."""
    annotation: Any = SettingsFile
    path: problems.Path = ()
    here: Any = tree
    for part in variable.removeprefix(PREFIX).split("__"):
        known = problems.known_keys(SettingsFile, path)
        names = known or (list(here) if isinstance(here, dict) else [])
        key = next((n for n in names if _as_variable(n) == part.upper()), part.lower())
        inner = problems.step(annotation, key)
        if inner is None or not key:
            advice = nearest(key, known) if known else "Give it a value as it stands in the file."
            raise SettingsError(variable, ".".join((*path, key)), "there is no such key.", advice)
        annotation, path = inner, (*path, key)
        here = here.get(key) if isinstance(here, dict) else None
    return path, annotation


def _as_variable(name: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def _value(variable: str, text: str, annotation: Any) -> Any:
    """The variable's text as a value: as it is where text belongs, else written as in TOML."""
    if annotation is str or get_origin(annotation) is Literal:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            keys = ", ".join(annotation.model_fields)
            advice = f"Add a key to the variable's name: {keys}."
            raise SettingsError(variable, "", "names a table, not a value.", advice) from None
        return text


def _resolve_paths(tree: Tree, sources: Sources, file: Path | None, folder: Path) -> None:
    """Make paths absolute: relative to the file that names them, those of variables to the working folder."""
    wanted = [("memory", "root"), ("store", "url")]
    inner = ("options", "model", "script")  # of a model that `chaos` spoils
    for section, *keys in (("models", "script"), ("models", *inner), ("profiles", "workspace")):
        names = tree.get(section)
        wanted += [(section, name, *keys) for name in names] if isinstance(names, dict) else []
    for path in wanted:
        *above, key = path
        table: Any = tree
        for part in above:
            table = table.get(part) if isinstance(table, dict) else None
        if not isinstance(table, dict) or not isinstance(table.get(key), str) or not table[key]:
            continue
        named_by_file = file is not None and source_of(path, sources) == str(file)
        base = file.parent if named_by_file and file is not None else folder
        table[key] = _store_url(table[key], base) if key == "url" else str(_absolute(table[key], base))


def _store_url(url: str, base: Path) -> str:
    """A SQLite address with an absolute path: `sqlite:a.db`, `sqlite:///a.db` (absolute), or a path alone."""
    if re.match(r"[a-z][a-z0-9+]*:", url) and not url.startswith("sqlite:"):
        return url
    path = url.removeprefix("sqlite:")
    if path.startswith("//"):
        path = path.removeprefix("//")
    return f"sqlite://{_absolute(path, base)}"


def _absolute(path: str, base: Path) -> Path:
    return Path(os.path.abspath(base / Path(path).expanduser()))


def _check_names(tables: SettingsFile, sources: Sources) -> None:
    """Every model that a table names exists."""
    named = [(("profiles", name, "model"), profile.model) for name, profile in tables.profiles.items()]
    named += [(("memory", "extract_model"), tables.memory.extract_model)]  # type: ignore[list-item]
    named += [(("compaction", "model"), tables.compaction.model)]  # type: ignore[list-item]
    for path, name in named:
        if name is not None and name not in tables.models:
            advice = nearest(name, tables.models)
            raise SettingsError(source_of(path, sources), ".".join(path), f"there is no model `{name}`.", advice)
