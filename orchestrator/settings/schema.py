"""The tables of `polypod.toml`. Unknown keys, wrong types and values out of range are refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from actors.protocol.config import LARGEST, Provider
from actors.protocol.permissions import parse_rule
from actors.protocol.tasks import FACE_TOOLS, Face
from session_store.items import Json

Count = Annotated[int, Field(strict=True, ge=0, le=LARGEST)]
Positive = Annotated[int, Field(strict=True, ge=1, le=LARGEST)]
Seconds = Annotated[float, Field(strict=True, gt=0, le=LARGEST)]
Name = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Text = Annotated[str, StringConstraints(strict=True, min_length=1)]


def _rule(text: str) -> str:
    return str(parse_rule(text))


RuleText = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=2_000), AfterValidator(_rule)]


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StoreTable(Table):
    """`url`: `sqlite:///absolute/path`, `sqlite:relative/path` or `postgresql://…`; None: a SQLite file in the home."""

    url: Text | None = None

    @model_validator(mode="after")
    def _known_scheme(self) -> StoreTable:
        if self.url is not None and not self.url.startswith(("sqlite:", "memory://", "postgresql://")):
            raise ValueError("is no store url. Use sqlite:PATH or postgresql://….")
        return self


class Prices(Table):
    """Money per million tokens, by kind. `input` is what is neither read from a cache nor written to one."""

    input: Annotated[float, Field(ge=0)] = 0.0
    cache_read: Annotated[float, Field(ge=0)] = 0.0
    cache_write: Annotated[float, Field(ge=0)] = 0.0
    output: Annotated[float, Field(ge=0)] = 0.0


class ModelTable(Table):
    """One `[models.NAME]`. The key itself is never here, only the name of the variable that holds it."""

    provider: Provider
    model: Text | None = None
    base_url: Annotated[str, StringConstraints(pattern=r"^https?://\S+$")] | None = None
    api_key_env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    context_window: Positive | None = None
    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = None
    max_concurrency: Positive | None = None
    tool_mode: Literal["native", "schema"] = "native"
    max_output_tokens: Positive | None = None
    prices: Prices | None = None
    script: Text | None = None
    options: dict[str, Json] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _complete(self) -> ModelTable:
        if self.provider in ("openai", "anthropic") and self.model is None:
            raise ValueError(f'needs `model`, the name that the "{self.provider}" endpoint knows it by.')
        if self.provider in ("scripted", "replay") and self.script is None:
            raise ValueError(f'needs `script`, the file that a "{self.provider}" model reads.')
        return self


class LimitsTable(Table):
    """Of one run: `requests, tokens, seconds`. `depth` counts levels below the Pod, `children` its open children."""

    requests: Positive | None = None
    tokens: Positive | None = None
    seconds: Seconds | None = None
    depth: Count | None = None
    children: Count | None = None


class PermissionsTable(Table):
    """Rules for tool calls, each `Tool` or `Tool(pattern)`. `bypass`: what would be asked is allowed; `away`: nobody is
    there, it is denied."""

    allow: list[RuleText] = Field(default_factory=list)
    deny: list[RuleText] = Field(default_factory=list)
    ask: list[RuleText] = Field(default_factory=list)
    bypass: Annotated[bool, Field(strict=True)] = False
    away: Annotated[bool, Field(strict=True)] = False


class ProfileTable(Table):
    """`planning` None: the face whose tools `tools` names; `tasks` where that is None too."""

    model: Name | None = None
    system_prompt: Text | None = None
    tools: list[Text] | None = None
    planning: Face | None = None
    permissions: PermissionsTable = Field(default_factory=PermissionsTable)
    workspace: Text | None = None
    limits: LimitsTable = Field(default_factory=LimitsTable)

    @model_validator(mode="after")
    def _one_face(self) -> ProfileTable:
        named = [face for face, tools in FACE_TOOLS.items() if not {*tools}.isdisjoint(self.tools or ())]
        if len(named) > 1:
            raise ValueError("`tools` names todo beside task tools: a Pod has one of the two, choose.")
        if self.planning is not None and named and named != [self.planning]:
            raise ValueError(f'`planning = "{self.planning}"` does not go with `tools`, which names {named[0]} tools.')
        return self


class MemoryTable(Table):
    """`root` None: `memory` in the workspace. Thresholds in tokens; 0 turns extraction off."""

    root: Text | None = None
    language: Text | None = None
    extract_model: Name | None = None
    extract_threshold: Count | None = None
    extract_worker_max_input_tokens: Positive | None = None


class CompactionTable(Table):
    """Tokens; see `actors.protocol.config.CompactionRule`. `timeout` in seconds."""

    threshold: Count = 0
    request_threshold: Count = 0
    retained_tokens: Count | None = None
    model: Name | None = None
    timeout: Seconds = 300.0

    @model_validator(mode="after")
    def _ordered(self) -> CompactionTable:
        if 0 < self.request_threshold < self.threshold:
            raise ValueError("`request_threshold` must not be below `threshold`.")
        least = self.threshold or self.request_threshold
        if self.retained_tokens is not None and 0 < least <= self.retained_tokens:
            raise ValueError(f"`retained_tokens` must be below {least}, or nothing could ever be left out.")
        return self


class ReminderTable(Table):
    """Counted in requests; `requests = 0` turns reminders off."""

    requests: Count = 8
    cooldown: Count = 8


class DirectoryTable(Table):
    """Times in seconds; see `orchestrator.directory.settings.DirectorySettings`."""

    pods_per_actor: Positive = 1
    warm_pool: Count = 2
    park_after: Annotated[float, Field(strict=True, ge=0, le=LARGEST)] = 60.0
    lease: Seconds = 4.0
    sweep: Seconds = 1.0
    spawn_timeout: Seconds = 30.0
    max_restarts: Count = 5
    max_depth: Count = 8
    max_children: Count = 64
    max_pods: Positive = 1000
    max_wakes: Count = 1000


class HooksTable(Table):
    """`use`: hooks as `module:object`. `entry_points`: also those of installed packages. `timeout`: of one call of one.

    `on_failure`: what becomes of a tool call when the hook that was to judge it raises or is too slow.
    """

    use: list[Annotated[str, StringConstraints(strict=True, pattern=r"^\w+(\.\w+)*:\w+(\.\w+)*$")]] = Field(
        default_factory=list
    )
    entry_points: bool = True
    timeout: Seconds = 5.0
    on_failure: Literal["deny", "allow"] = "deny"


class ClusterTable(Table):
    """`address`: the running Ray cluster that `serve` attaches to (`auto`, `HOST:PORT`); None: a Ray of its own."""

    address: Text | None = None


class GatewayTable(Table):
    """`tokens` maps a tenant to the name of the variable that holds its token."""

    host: Text = "127.0.0.1"
    port: Annotated[int, Field(strict=True, ge=0, le=65535)] = 7420
    token: Text | None = Field(default=None, repr=False)
    tokens: dict[Name, Text] = Field(default_factory=dict)


class SettingsFile(Table):
    """The whole file."""

    store: StoreTable = Field(default_factory=StoreTable)
    models: dict[Name, ModelTable] = Field(default_factory=dict)
    profiles: dict[Name, ProfileTable] = Field(default_factory=dict)
    memory: MemoryTable = Field(default_factory=MemoryTable)
    compaction: CompactionTable = Field(default_factory=CompactionTable)
    reminder: ReminderTable = Field(default_factory=ReminderTable)
    directory: DirectoryTable = Field(default_factory=DirectoryTable)
    hooks: HooksTable = Field(default_factory=HooksTable)
    gateway: GatewayTable = Field(default_factory=GatewayTable)
    cluster: ClusterTable = Field(default_factory=ClusterTable)
