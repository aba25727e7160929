"""Binds ports to real parts: what a Pod process is made of, and what the Directory is. The one place that knows all."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from actors.compactor import prompt as compactor_prompt
from actors.compactor.driver import CompactorParts, PromptUnreadable, SessionCompactor
from actors.extractor.actor import DirectoryAlerts, ExtractorSetup, RayExtractors
from actors.extractor.ports import ExtractionSettings, ExtractorParts, StagingError
from actors.extractor.prompt import PROMPT_FILE, built_in
from actors.extractor.staging import FolderStaging
from actors.models import limits_actor
from actors.models.limits_client import Limits
from actors.models.registry import build_model
from actors.models.secrets import Redactor
from actors.pod.actor import NAMESPACE, Built, PodActorSetup, Shell
from actors.pod.compaction_call import FIX_LIMIT
from actors.pod.heartbeat import Rhythm
from actors.pod.hooks import HookSet
from actors.pod.ports import CallRunner, DirectoryPort, LeaseGate
from actors.protocol.compaction import Compactor
from actors.protocol.config import ModelSpec, PodConfig
from actors.protocol.ids import Clock
from actors.protocol.model import Model, ModelError
from actors.protocol.references import Place, References
from actors.protocol.tools import ALL_TOOLS, FILE_TOOLS, Children, Toolbox
from actors.tools.environment import redacted
from actors.tools.executor import run_calls
from actors.tools.guard import GuardPool
from actors.tools.permission import Permissions
from actors.tools.references.resolver import Library
from actors.tools.registry import ToolSetup, UnknownTools, build_toolbox
from orchestrator.directory.actor import NAME as DIRECTORY
from orchestrator.directory.actor import DirectorySetup
from orchestrator.directory.roots import RootsFile
from orchestrator.hooks import load_hooks
from orchestrator.pods import OrderRefused
from orchestrator.presence import be_present
from orchestrator.rehearsal import RehearsalFailed, rehearse
from orchestrator.runtime import RuntimeSettings
from orchestrator.system import SystemClock, SystemIds
from session_store.codec import pack, to_plain
from session_store.entries import ToolSpec
from session_store.items import Json
from session_store.ray_client import RayStore, named_store
from session_store.requests import AsyncStore

log = logging.getLogger("polypod.wiring")

LIMITS = limits_actor.NAME
ROOTS_NAME = "roots"
DIRECTORY_STORE_LIMIT = 5.0
"""Seconds the Directory waits for one answer of the store; it asks again by itself."""


class PodParts:
    """Implements `HostParts` for one actor process. `home` None: folders of the home are on no shared disk."""

    def __init__(self, shell: Shell, settings: RuntimeSettings, home: Path, roots: RootsFile | None) -> None:
        self._shell = shell
        self._lease = settings.directory.lease
        self._memory = settings.memory_root
        self._home = home
        self._models: dict[bytes, Model] = {}
        self._guards: list[weakref.ref[GuardPool]] = []
        self._lock = threading.Lock()
        self._limits: Limits | None = None
        self._store = RayStore(named_store())
        self._store.hear(shell.hint)
        self._presence = be_present(home)
        self._extractors = extractors(settings, roots)
        self._hooks = load_hooks(settings.hooks)
        self._prepare(settings)
        self._providers = {m.provider for m in settings.models.values()} & {"openai", "anthropic"}

    @property
    def store(self) -> AsyncStore:
        return self._store

    @property
    def directory(self) -> DirectoryPort:
        return self._shell.directory

    @property
    def clock(self) -> Clock:
        return self._shell.clock

    @property
    def gate(self) -> LeaseGate:
        return self._shell.gate

    @property
    def run_calls(self) -> CallRunner:
        return run_calls

    @property
    def hooks(self) -> HookSet:
        return self._hooks

    def model(self, spec: ModelSpec) -> Model:
        key = pack(to_plain(spec))
        if key not in self._models:
            self._models[key] = build_model(spec, os.environ, self._limits_for(spec))
        return self._models[key]

    def toolbox(self, config: PodConfig, children: Children) -> Toolbox:
        guard = GuardPool(lease=self._lease)
        with self._lock:
            self._guards = [r for r in self._guards if r() is not None]
            self._guards.append(weakref.ref(guard))
        try:
            setup = ToolSetup(permissions=Permissions(config.permissions, config.profile))
            return build_toolbox(config.tools, children, guard, setup)
        except UnknownTools as error:  # made by another version: this one cannot run it
            raise ModelError("settings", f"{error}: this polypod does not have them") from error

    def references(self, config: PodConfig) -> References:
        return Library(Place(config.workspace, config.scope), self._memory, (self._home,))

    def prepare_endpoints(self, specs: Iterable[ModelSpec]) -> None:
        """Build the models that speak to a server: their HTTP client takes half a second to import."""
        for spec in specs:
            if spec.provider in ("openai", "anthropic"):
                with suppress(ModelError):  # a Pod that needs it is told
                    self.model(spec)

    def spill_folder(self, session: str) -> str:
        return str(self._home / "spill" / session)

    def offer_extraction(self, session: str) -> None:
        if self._extractors is not None:
            self._extractors.offer(session)

    async def fix_extraction(self, session: str, through: int) -> bool:
        return self._extractors is None or await self._extractors.fix(session, through, FIX_LIMIT)

    def compactor(self, config: PodConfig, references: References) -> Compactor:
        rule = config.compaction
        return SessionCompactor(
            CompactorParts(
                store=self._store,
                references=references,
                ids=SystemIds(),
                rule=rule,
                model=partial(self.model, rule.model or config.model),
                prompt=partial(compaction_prompt, Path(self._memory)),
            )
        )

    def forbidden(self) -> tuple[str, ...]:
        return (self._memory,)

    def hidden(self) -> tuple[str, ...]:
        return (str(self._home),)

    def feed_guards(self) -> None:
        """Called on the heartbeat thread."""
        with self._lock:
            guards = [g for r in self._guards if (g := r()) is not None]
        for guard in guards:
            guard.feed_all()

    async def close(self) -> None:
        for model in self._models.values():
            await model.close()
        os.close(self._presence)

    async def rehearse(self) -> None:
        """One whole run, of each provider that the settings name."""
        try:
            for provider in sorted(self._providers):
                await rehearse(self, provider, tool_specs(FILE_TOOLS))
        except RehearsalFailed as error:  # the first Pod will be slower, no more
            log.warning("%s", error)

    def _prepare(self, settings: RuntimeSettings) -> None:
        """Import and build now, while no Pod waits, what its first binding would: 0.2 s of work."""
        config = PodConfig("-", "-", ModelSpec("-", "scripted"), "/", tools=ALL_TOOLS)
        self.toolbox(PodConfig.read(config.plain()), _NoChildren())
        for spec in settings.models.values():
            with suppress(ModelError):  # who runs a Pod on it meets the same and tells
                self.model(spec)

    def _limits_for(self, spec: ModelSpec) -> Limits | None:
        if not has_limits(spec):
            return None
        if self._limits is None:
            self._limits = limits_actor.named_limits(LIMITS, NAMESPACE)
        return self._limits


@dataclass(frozen=True, slots=True)
class PartsFactory:
    """Makes the parts inside the actor's process; travels there by pickle."""

    settings: RuntimeSettings
    home: Path
    roots: RootsFile | None

    def __call__(self, shell: Shell) -> Built:
        parts = PodParts(shell, self.settings, self.home, self.roots)
        tool_specs(ALL_TOOLS)  # made once for a process, now that no Pod waits
        parts.prepare_endpoints(self.settings.models.values())
        return Built(parts, parts.feed_guards, parts.rehearse)


class ExtractionModels:
    """The worker's models, built when first wanted: the one that the settings name, else the session's own."""

    def __init__(self, settings: RuntimeSettings) -> None:
        named = settings.memory.extract_model
        self._named = None if named is None else settings.models[named]
        self._models: dict[bytes, Model] = {}
        self._limits: Limits | None = None

    def __call__(self, config: dict[str, Json]) -> Model:
        """Raises `ModelError`."""
        spec = self._named or PodConfig.read(config).model
        key = pack(to_plain(spec))
        if key not in self._models:
            if has_limits(spec) and self._limits is None:
                self._limits = limits_actor.named_limits(LIMITS, NAMESPACE)
            self._models[key] = build_model(spec, os.environ, self._limits if has_limits(spec) else None)
        return self._models[key]


@dataclass(frozen=True, slots=True)
class ExtractorFactory:
    """Makes an extractor's parts inside its process; travels there by pickle."""

    settings: RuntimeSettings
    roots: RootsFile | None

    def __call__(self) -> ExtractorParts:
        root, memory = Path(self.settings.memory_root), self.settings.memory
        return ExtractorParts(
            store=RayStore(named_store()),
            staging=FolderStaging(root),
            alerts=DirectoryAlerts(DIRECTORY),
            clock=SystemClock(),
            ids=SystemIds(),
            model=ExtractionModels(self.settings),
            prompt=partial(extraction_prompt, root),
            mask=partial(without_known_secrets, Redactor(), os.environ),
            settings=ExtractionSettings(
                memory.extract_threshold, memory.extract_worker_max_input_tokens, memory.language
            ),
            roots=None if self.roots is None else self.roots.load,
        )


def extractors(settings: RuntimeSettings, roots: RootsFile | None) -> RayExtractors | None:
    """The pool that sessions are offered to; None when extraction is off. Starts nothing. `roots`: the Directory's."""
    if not settings.memory.extract_threshold:
        return None
    return RayExtractors(ExtractorSetup(ExtractorFactory(settings, roots)))


def extraction_prompt(root: Path) -> str:
    """The worker's instructions: the person's own below the memory's root, else the built-in ones."""
    path = root / PROMPT_FILE
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else built_in()
    except (OSError, UnicodeDecodeError) as error:
        raise StagingError(f"the instructions at {path} cannot be read: {error}") from None


def compaction_prompt(root: Path) -> str:
    """The compactor's instructions: the person's own beside those of the extraction, else the built-in ones."""
    path = root / compactor_prompt.PROMPT_FILE
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else compactor_prompt.built_in()
    except (OSError, UnicodeDecodeError) as error:
        raise PromptUnreadable(f"the instructions at {path} cannot be read: {error}") from None


def without_known_secrets(redactor: Redactor, environment: Mapping[str, str], text: str) -> str:
    """The text without what secret variables hold, and without what looks like a key."""
    return redactor.clean(redacted(text, environment))


def directory_setup(
    settings: RuntimeSettings, home: Path, roots: frozenset[str] | None, *, alone: Callable[[], bool]
) -> DirectorySetup:
    """All that the Directory is made of. `roots`: the trees to begin with, None: every tree of the home goes on;
    `alone` as in `DirectorySetup`.

    Called by the home's owner when it starts.
    """
    kept = None if roots is None else RootsFile(home / ROOTS_NAME)
    if kept is not None and roots is not None:
        kept.begin(roots)
    directory = settings.directory
    pods = PodActorSetup(
        directory=DIRECTORY,
        rhythm=Rhythm(directory.heartbeat, directory.lease),
        clock=SystemClock(),
        factory=PartsFactory(settings, home, kept),
        call_limit=2 * directory.spawn_timeout,
    )
    return DirectorySetup(
        settings=settings,
        pods=pods,
        store=partial(RayStore, named_store(), DIRECTORY_STORE_LIMIT),
        specs=tool_specs,
        clock=SystemClock(),
        ids=SystemIds(),
        alone=alone,
        roots=kept,
    )


def tool_specs(names: tuple[str, ...]) -> tuple[ToolSpec, ...]:
    """A `ToolCatalogue`: the specs of the named tools."""
    try:
        return build_toolbox(names, _NoChildren(), GuardPool()).specs
    except UnknownTools as error:
        raise OrderRefused("invalid", f"The profile names {error}.") from error


def has_limits(spec: ModelSpec) -> bool:
    inner = spec.options.get("model") if spec.provider == "chaos" else None
    names = ("requests_per_minute", "tokens_per_minute", "max_concurrency")
    return any(getattr(spec, n) is not None for n in names) or (
        isinstance(inner, dict) and any(inner.get(n) is not None for n in names)
    )


class _NoChildren:
    """Stands for the children where only the specs of their tools are wanted."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise AssertionError("only the specs of the child tools are wanted here")

    spawn = send = read_output = stop = list = resolve = _refuse
