"""From an order to a session: what a new Pod is created with. Pure.

Everything that later settings must not change (case S11) is fixed here, in `PodConfig` and in the tools of the first
`segment_start`.
"""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from actors.protocol.config import LARGEST, ModelSpec, PodConfig, RunLimits
from actors.protocol.ids import child_id, name_problem
from actors.protocol.permissions import PermissionRules
from actors.protocol.references import Place
from actors.protocol.tasks import FACE_TOOLS, Face
from actors.protocol.tools import ASKING_TOOLS, CHILD_TOOLS, FILE_TOOLS, SpawnOrder
from orchestrator.ports import NewPod
from orchestrator.prompts import system_prompt
from orchestrator.runtime import Limits, ProfileSpec, RuntimeSettings
from session_store.codec import to_plain
from session_store.entries import SegmentStart, ToolSpec
from session_store.items import Json, Segment
from session_store.messages import USER, Message
from session_store.requests import Create, Parent, PodLimits, PodRow, Scope

WIRE_VERSION = 1
DEFAULT_PROFILE = "default"

ToolCatalogue = Callable[[tuple[str, ...]], tuple[ToolSpec, ...]]
"""The specs of the named tools, in order. Raises `OrderRefused` for a name it does not know."""

NumberT = TypeVar("NumberT", int, float)


class OrderRefused(Exception):
    """An order for a Pod that cannot be carried out; `code` is `invalid` or `limit`. Nothing was written."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class PodFactory:
    """Builds the `Create` of a Pod from the settings in force and the tools that exist."""

    settings: RuntimeSettings
    specs: ToolCatalogue

    def root(self, new: NewPod, session: str) -> Create:
        """A Pod of its own. Raises `OrderRefused`."""
        profile = self._profile(new.profile or DEFAULT_PROFILE)
        limits = _narrower(self._bounds(), profile.limits, read_limits(new.limits))
        workspace = _root_workspace(new, profile, self.settings)
        config = PodConfig(
            name=_checked_name(new.name) or f"task-{session[-8:]}",
            root_id=session,
            model=self._model(new.model or profile.model),
            workspace=workspace,
            tenant=new.tenant,
            profile=profile.name,
            reminder=self.settings.reminder,
            compaction=self.settings.compaction,
            limits=_run_limits(limits),
            max_depth=_or(limits.depth, self.settings.directory.max_depth),
            max_children=_or(limits.children, self.settings.directory.max_children),
            max_wakes=self.settings.directory.max_wakes,
            scope=new.scope,
            permissions=_rules(profile, workspace),
            metadata=new.metadata,
        )
        if new.scope is not None:
            _check_scope(new.scope, _folder(workspace), workspace, "the workspace")
        messages = _prompt(new.message_id, USER, new.segments)
        return self._create(session, new.message_id, config, profile, messages)

    def child(self, parent: PodRow, order: SpawnOrder) -> Create:
        """A child as `SpawnPod` orders it; its id and message id follow from the call. Raises `OrderRefused`."""
        above = PodConfig.read(parent.config)
        profile = self._profile(order.profile or above.profile)
        own = read_limits(order.limits)
        inherited = Limits(
            above.limits.requests, above.limits.tokens, above.limits.seconds, children=above.max_children
        )
        limits = _narrower(inherited, profile.limits, own)
        depth = parent.depth + 1
        depths = [above.max_depth, *(depth + d for d in (profile.limits.depth, own.depth) if d is not None)]
        bounds = above.scope or _folder(above.workspace)
        workspace = _child_workspace(profile, above, bounds)
        if order.scope is not None:
            _check_scope(order.scope, bounds, workspace, f"the scope of its parent {above.name}")
        key = order.key
        config = PodConfig(
            name=_checked_name(order.name) or f"pod-{key.call_seq}-{key.index + 1}",
            root_id=parent.root_id,
            model=self._model(profile.model) if order.profile and profile.model else above.model,
            workspace=workspace,
            tenant=parent.tenant,
            profile=profile.name,
            parent_id=parent.id,
            depth=depth,
            detached=order.detached,
            reminder=above.reminder,
            compaction=above.compaction,
            limits=_run_limits(limits),
            max_depth=min(depths),
            max_children=_or(limits.children, above.max_children),
            max_wakes=above.max_wakes,
            scope=order.scope or _moved(above, workspace),
            permissions=tuple(dict.fromkeys((*_rules(profile, workspace), *above.permissions))),
            metadata=above.metadata,
        )
        session = child_id(key.session, key.call_seq, key.index)
        messages = _prompt(str(key), parent.id, (Segment("text", order.task),))
        create = self._create(session, str(key), config, profile, messages)
        room = replace(create.limits, max_depth=above.max_depth, max_children=above.max_children)
        spawner = Parent(parent.id, order.epoch, order.run_id)
        return replace(create, parent=spawner, detached=order.detached, scope=order.scope, limits=room)

    def _create(
        self, session: str, message_id: str, config: PodConfig, profile: ProfileSpec, messages: tuple[Message, ...]
    ) -> Create:
        face, names = tools_of(profile)
        config = replace(config, tools=names, planning=face)
        prompt = profile.system_prompt or system_prompt(config)
        start = SegmentStart(session, config.plain(), prompt, self.specs(names), WIRE_VERSION)
        directory = self.settings.directory
        limits = PodLimits(directory.max_depth, directory.max_children, directory.max_pods)
        return Create(
            session, config.tenant, message_id, start, messages, config.name, scope=config.scope, limits=limits
        )

    def _bounds(self) -> Limits:
        directory, run = self.settings.directory, RunLimits()
        return Limits(run.requests, run.tokens, run.seconds, directory.max_depth, directory.max_children)

    def _profile(self, name: str) -> ProfileSpec:
        profile = self.settings.profiles.get(name)
        if profile is None and name == DEFAULT_PROFILE:
            return ProfileSpec(DEFAULT_PROFILE)
        if profile is None:
            raise _unknown("profile", name, self.settings.profiles)
        return profile

    def _model(self, name: str | None) -> ModelSpec:
        models = self.settings.models
        if name is None:
            name = self.settings.default_model
        if name is None:
            raise OrderRefused("invalid", "No model is configured: name one, or set a default in the settings.")
        spec = models.get(name)
        if spec is None:
            raise _unknown("model", name, models)
        if spec.script is None:
            return spec
        return replace(spec, script=_absolute(spec.script, self.settings.workspace))


def tools_of(profile: ProfileSpec) -> tuple[Face, tuple[str, ...]]:
    """The planning face of a profile and the tools its Pods have.

    `tools` are taken as they are, with the tools of a face that `planning` names beside them. Without `planning` the
    face is that of the planning tools among them; without `tools` it is `tasks`, and there are all of them.
    """
    if profile.tools is None:
        face = profile.planning or "tasks"
        return face, (*FILE_TOOLS, *CHILD_TOOLS, *FACE_TOOLS[face], *ASKING_TOOLS)
    named: Face = next((f for f, tools in FACE_TOOLS.items() if not {*tools}.isdisjoint(profile.tools)), "none")
    if profile.planning is None:
        return named, profile.tools
    missing = (tool for tool in FACE_TOOLS[profile.planning] if tool not in profile.tools)
    return profile.planning, (*profile.tools, *missing)


def place_of(new: NewPod, settings: RuntimeSettings) -> Place | None:
    """Where a root Pod would work; None for a profile that does not exist."""
    name = new.profile or DEFAULT_PROFILE
    profile = settings.profiles.get(name, ProfileSpec(name) if name == DEFAULT_PROFILE else None)
    return None if profile is None else Place(_root_workspace(new, profile, settings), new.scope)


def _root_workspace(new: NewPod, profile: ProfileSpec, settings: RuntimeSettings) -> str:
    return _absolute(new.workspace or profile.workspace or settings.workspace, settings.workspace)


def read_limits(given: Mapping[str, Json]) -> Limits:
    """The limits of an order. Raises `OrderRefused` for unknown names and for what is no positive number."""
    known = [f.name for f in fields(Limits)]
    for name, value in given.items():
        if name not in known:
            raise _unknown("limit", name, known)
        least = 0 if name in ("depth", "children") else 1
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name == "seconds":
            if not number or not 0 < value <= LARGEST:
                raise OrderRefused("invalid", f"The limit `seconds` is a number above 0, not {value!r}.")
        elif not number or not least <= value <= LARGEST or value != int(value):
            raise OrderRefused("invalid", f"The limit `{name}` is a whole number of at least {least}, not {value!r}.")
    return Limits(**{k: v if k == "seconds" else int(v) for k, v in given.items()})


def _narrower(*all_limits: Limits) -> Limits:
    """The narrowest that any of them says, field by field."""

    def least(values: Iterable[NumberT | None]) -> NumberT | None:
        return min((v for v in values if v is not None), default=None)

    return Limits(
        least(x.requests for x in all_limits),
        least(x.tokens for x in all_limits),
        least(x.seconds for x in all_limits),
        least(x.depth for x in all_limits),
        least(x.children for x in all_limits),
    )


def _rules(profile: ProfileSpec, workspace: str) -> tuple[PermissionRules, ...]:
    """The profile's own rules. A child has those of the Pods above it too: no choice of a profile escapes them."""
    given = profile.permissions
    if not any((given.allow, given.deny, given.ask)):
        return ()
    return (PermissionRules(profile.name, workspace, given.allow, given.deny, given.ask, given.bypass, given.away),)


def _run_limits(limits: Limits) -> RunLimits:
    return RunLimits(limits.requests, limits.tokens, limits.seconds)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _prompt(message_id: str, sender: str, segments: tuple[Segment, ...]) -> tuple[Message, ...]:
    if not segments:
        return ()
    return (Message(message_id, "prompt", sender, {"segments": to_plain(segments)}),)


def _checked_name(name: str | None) -> str | None:
    problem = None if name is None else name_problem(name)
    if problem is not None:
        raise OrderRefused("invalid", f"{problem[0].upper()}{problem[1:]}.")
    return name


def _child_workspace(profile: ProfileSpec, above: PodConfig, bounds: Scope) -> str:
    """The parent's, or that of the profile if it lies in what the parent may see (case L01)."""
    if profile.workspace is None or profile.name == above.profile:
        return above.workspace
    workspace = _absolute(profile.workspace, above.workspace)
    _check_scope(Scope(read=(workspace,)), bounds, above.workspace, f"the scope of its parent {above.name}")
    return workspace


def _moved(above: PodConfig, workspace: str) -> Scope | None:
    """The parent's scope as it is shared, in absolute paths when the child's workspace is another."""
    if workspace == above.workspace:
        return above.scope
    scope = above.scope or _folder(above.workspace)
    return Scope(*(tuple(_absolute(p, above.workspace) for p in paths) for paths in (scope.read, scope.write)))


def _check_scope(scope: Scope, bounds: Scope, workspace: str, whose: str) -> None:
    write = [_absolute(p, workspace) for p in bounds.write]
    read = [*write, *(_absolute(p, workspace) for p in bounds.read)]
    for paths, folders, verb in ((scope.write, write, "write"), (scope.read, read, "read")):
        for path in paths:
            if not any(_holds(folder, _absolute(path, workspace)) for folder in folders):
                raise OrderRefused("invalid", f"The scope asks to {verb} {path}, which is outside {whose}.")


def _folder(workspace: str) -> Scope:
    return Scope((workspace,), (workspace,))


def _absolute(path: str, folder: str) -> str:
    return posixpath.normpath(posixpath.join("/", folder, path))


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _unknown(what: str, name: str, known: Iterable[str]) -> OrderRefused:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean `{near[0]}`?" if near else ""
    there = f" Known: {', '.join(names)}." if names else f" No {what} is configured."
    return OrderRefused("invalid", f"There is no {what} `{name[:64]}`.{hint}{there}")
