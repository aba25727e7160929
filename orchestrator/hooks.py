"""Finds the hooks of the settings and of installed packages. One that cannot be loaded counts as one that fails."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, NoReturn

from actors.pod.hooks import HookRunner, HookSet
from actors.protocol.hooks import METHODS
from orchestrator.runtime import HookSettings

GROUP = "polypod.hooks"
"""Of entry points: `name = "package.module:object"`."""


class HookUnusable(Exception):
    """Why an object is no hook; the words follow its name."""


@dataclass(frozen=True, slots=True)
class BrokenHook:
    """Stands for a hook that could not be loaded: it fails whenever it would have been asked."""

    problem: str

    def before_request(self, view: Any) -> NoReturn:
        raise HookUnusable(self.problem)

    def before_call(self, view: Any) -> NoReturn:
        raise HookUnusable(self.problem)


def load_hooks(settings: HookSettings) -> HookSet:
    """Those of the settings in their order, then those of entry points by name."""
    names = [(name, name) for name in settings.use]
    if settings.entry_points:
        names += sorted((point.name, point.value) for point in entry_points(group=GROUP))
    runners = []
    for name, place in names:
        try:
            hook = load(place)
        except HookUnusable as error:
            hook = BrokenHook(str(error))
        runners.append(HookRunner(name, hook, settings.timeout))
    return HookSet(tuple(runners), settings.on_failure == "deny")


def load(place: str) -> Any:
    """The hook at `module:object`; a class is made into an object. Raises `HookUnusable`."""
    module, _, path = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        hook = found() if inspect.isclass(found) else found
    except Exception as error:  # whatever a foreign module does while it is imported
        raise HookUnusable(f"cannot be loaded: {type(error).__name__}: {error}") from error
    methods = [getattr(hook, name) for name in METHODS if callable(getattr(hook, name, None))]
    if not methods:
        raise HookUnusable(f"has none of the methods {', '.join(METHODS)}")
    if any(inspect.iscoroutinefunction(method) for method in methods):
        raise HookUnusable("has a method that is `async`; hooks are plain functions, called in a thread")
    return hook
