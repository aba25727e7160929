"""What a session was created with: the typed view of `segment_start.config`.

It holds all that later settings must not change under a session (case S11): the model's endpoint, the profile's tools,
scope, workspace and limits. Keys are never in it, only the name of the variable that holds one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from actors.protocol.permissions import PermissionRules
from actors.protocol.tasks import Face
from session_store.codec import from_plain, to_plain
from session_store.items import Json
from session_store.requests import Scope

Provider = Literal["openai", "anthropic", "scripted", "replay", "chaos"]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One `[models.NAME]` table. Prices are money per million tokens by kind; `script` is a path (scripted, replay)."""

    name: str
    provider: Provider
    model: str = ""
    base_url: str | None = None
    api_key_env: str | None = None
    context_window: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrency: int | None = None
    tool_mode: Literal["native", "schema"] = "native"
    max_output_tokens: int | None = None
    prices: dict[str, float] = field(default_factory=dict)
    script: str | None = None
    options: dict[str, Json] = field(default_factory=dict)


LARGEST = 2**53
"""Of any number that an order or the settings give: larger ones survive neither JSON nor the log."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one run: model requests, tokens (input + output), seconds; None is no limit."""

    requests: int | None = 1000
    tokens: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ReminderRule:
    """When a Pod is reminded of its active tasks: after so many requests without a change, and between reminders.

    `requests` 0: never. `cooldown` 0: before every request once it is due.
    """

    requests: int = 8
    cooldown: int = 8


@dataclass(frozen=True, slots=True)
class CompactionRule:
    """When a Pod's history is compacted. Tokens of occupancy; 0 is off.

    `threshold` is looked at between runs, `request_threshold` between requests. `retained_tokens` of the newest history
    stay as they are (None: see `actors.compactor.plan.retained`). `model` writes the summary (None: the Pod's own),
    within `timeout` seconds.
    """

    threshold: int = 0
    request_threshold: int = 0
    retained_tokens: int | None = None
    model: ModelSpec | None = None
    timeout: float = 300.0

    @property
    def on(self) -> bool:
        """Whether anything is compacted without a person's order."""
        return bool(self.threshold or self.request_threshold)


@dataclass(frozen=True, slots=True)
class PodConfig:
    name: str
    root_id: str
    model: ModelSpec
    workspace: str
    tenant: str = "default"
    profile: str = "default"
    parent_id: str | None = None
    depth: int = 0
    detached: bool = False
    tools: tuple[str, ...] = ()
    planning: Face = "none"
    reminder: ReminderRule = field(default_factory=ReminderRule)
    compaction: CompactionRule = field(default_factory=CompactionRule)
    limits: RunLimits = field(default_factory=RunLimits)
    max_depth: int = 8
    max_children: int = 64
    max_wakes: int = 1000
    scope: Scope | None = None
    permissions: tuple[PermissionRules, ...] = ()
    """Its own profile's rules and those of the Pods above it: the strictest decides."""
    metadata: dict[str, Json] = field(default_factory=dict)

    @classmethod
    def read(cls, config: dict[str, Json]) -> PodConfig:
        """From `segment_start.config`; fields of a newer version are ignored. Raises `pydantic.ValidationError`."""
        return from_plain(cls, config)

    def plain(self) -> dict[str, Json]:
        config: dict[str, Json] = to_plain(self)
        return config
