"""Settings as the control plane uses them: resolved values, no file and no environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from actors.protocol.config import CompactionRule, ModelSpec, ReminderRule
from actors.protocol.tasks import Face
from orchestrator.directory.settings import DirectorySettings


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a Pod as a profile or an order gives them; None says nothing.

    `requests, tokens, seconds` are of one run; `depth` counts levels below the Pod, `children` its open children.
    """

    requests: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    depth: int | None = None
    children: int | None = None


@dataclass(frozen=True, slots=True)
class PermissionSpec:
    """Rules for tool calls, as texts. `bypass`: nobody is asked; `away`: nobody is there to be asked."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    bypass: bool = False
    away: bool = False


@dataclass(frozen=True, slots=True)
class ProfileSpec:
    """One `[profiles.NAME]` table. `model` None: the default model. `tools` None: all, with those of the planning face.

    `planning` None: the face whose tools `tools` names, and `tasks` where that is None too. `system_prompt` None: the
    built-in one. `workspace` None: that of the caller or of the owner.
    """

    name: str
    model: str | None = None
    system_prompt: str | None = None
    tools: tuple[str, ...] | None = None
    planning: Face | None = None
    workspace: str | None = None
    limits: Limits = field(default_factory=Limits)
    permissions: PermissionSpec = field(default_factory=PermissionSpec)


@dataclass(frozen=True, slots=True)
class MemorySpec:
    """Extraction: see `actors.extractor.ports.ExtractionSettings`. `extract_model` None: the session's own model."""

    language: str | None = None
    extract_model: str | None = None
    extract_threshold: int | None = None
    extract_worker_max_input_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The `[hooks]` table. `use`: hooks as `module:object`; `timeout`: seconds for one call of one."""

    use: tuple[str, ...] = ()
    entry_points: bool = True
    timeout: float = 5.0
    on_failure: Literal["deny", "allow"] = "deny"


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """`default_model` is the model of profiles that name none (None: there is none). Folders are absolute."""

    models: Mapping[str, ModelSpec]
    profiles: Mapping[str, ProfileSpec]
    directory: DirectorySettings
    workspace: str
    memory_root: str
    default_model: str | None = None
    reminder: ReminderRule = field(default_factory=ReminderRule)
    compaction: CompactionRule = field(default_factory=CompactionRule)
    memory: MemorySpec = field(default_factory=MemorySpec)
    hooks: HookSettings = field(default_factory=HookSettings)
