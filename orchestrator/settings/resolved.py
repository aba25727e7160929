"""Settings in force: the tables with every path absolute, and what other parts read from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from actors.protocol.config import CompactionRule, ModelSpec, ReminderRule
from orchestrator.directory.settings import DirectorySettings
from orchestrator.hooks import HookUnusable, load
from orchestrator.runtime import HookSettings, Limits, MemorySpec, PermissionSpec, ProfileSpec, RuntimeSettings
from orchestrator.settings.problems import SettingsError, nearest
from orchestrator.settings.schema import GatewayTable, ModelTable, ProfileTable, SettingsFile

FILE_NAME = "polypod.toml"
HOME_VARIABLE = "POLYPOD_HOME"
DEFAULT_HOME = "~/.polypod"
STORE_FILE = "store.db"
DEFAULT = "default"

KEY_VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
URL_VARIABLES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}

WITHOUT_A_KEY = "To try polypod without a key and without a network, run `polypod demo`."


@dataclass(frozen=True, slots=True)
class Settings:
    """`file` is the `polypod.toml` that was read (None: there is none), `folder` the working folder it was sought from.

    `tables` holds every section, also those that no part of this version uses yet.
    """

    tables: SettingsFile
    folder: Path
    home: Path
    file: Path | None = None

    @property
    def gateway(self) -> GatewayTable:
        return self.tables.gateway

    @property
    def store_url(self) -> str:
        """`sqlite:///absolute/path` or `postgresql://…`."""
        return self.tables.store.url or f"sqlite://{self.home / STORE_FILE}"

    @property
    def default_model(self) -> str | None:
        """The model of profiles that name none: that of the profile `default`, else the one called `default`, else the
        only one there is."""
        profile = self.tables.profiles.get(DEFAULT)
        if profile is not None and profile.model is not None:
            return profile.model
        names = list(self.tables.models)
        if DEFAULT in names:
            return DEFAULT
        return names[0] if len(names) == 1 else None

    @property
    def memory_root(self) -> str:
        """Absolute: what the settings say, else `memory` in the workspace."""
        return self.tables.memory.root or str(self.folder / "memory")

    def runtime(self) -> RuntimeSettings:
        """What the control plane needs to know, without files and environment."""
        tables = self.tables
        return RuntimeSettings(
            models={name: model_spec(name, table) for name, table in tables.models.items()},
            profiles={name: _profile(name, table) for name, table in tables.profiles.items()},
            directory=DirectorySettings(**tables.directory.model_dump()),
            workspace=str(self.folder),
            memory_root=self.memory_root,
            default_model=self.default_model,
            reminder=ReminderRule(**tables.reminder.model_dump()),
            compaction=_compaction(tables),
            memory=MemorySpec(**tables.memory.model_dump(exclude={"root"})),
            hooks=HookSettings(**{**tables.hooks.model_dump(), "use": tuple(tables.hooks.use)}),
        )

    def prices(self) -> dict[str, dict[str, float]]:
        """Money per million tokens by kind, of the models that have prices."""
        models = self.tables.models.items()
        return {n: m.prices.model_dump(exclude_unset=True) for n, m in models if m.prices is not None}

    def model_problem(self, name: str | None, environ: Mapping[str, str]) -> str | None:
        """Why Pods with this model (None: the default one) could not work here, and what to do; None if they could."""
        models = self.tables.models
        name = name or self.default_model
        if name is None and not models:
            variables = " or ".join(KEY_VARIABLES.values())
            return f"No model is configured. Set {variables}, or add [models.default] to {FILE_NAME}. {WITHOUT_A_KEY}"
        if name is None:
            return f"Several models are configured and none is the default one. Name one: {', '.join(sorted(models))}."
        if name not in models:
            return f"There is no model `{name}` in the settings. {nearest(name, models)}"
        variable = models[name].api_key_env
        if variable is not None and not environ.get(variable):
            return f"Model `{name}` needs a key: set the variable {variable}. {WITHOUT_A_KEY}"
        script = models[name].script
        if script is not None and not Path(script).is_file():
            return f"Model `{name}` reads its replies from {script}, and there is no such file."
        return None

    def check_hooks(self) -> None:
        """Raises `SettingsError` for a hook of the settings that cannot be loaded: who named it relies on it."""
        source = str(self.file) if self.file is not None else "settings"
        for place in self.tables.hooks.use:
            try:
                load(place)
            except HookUnusable as error:
                raise SettingsError(source, "hooks.use", f"`{place}` {error}.", "Correct or remove it.") from error

    def tenant_tokens(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Tenant by token. Raises `SettingsError` for a variable that is not set, or a token that two tenants share."""
        tenants: dict[str, str] = {}
        if self.gateway.token is not None:
            tenants[self.gateway.token] = DEFAULT
        source = str(self.file) if self.file is not None else "settings"
        for tenant, variable in self.gateway.tokens.items():
            key = f"gateway.tokens.{tenant}"
            token = environ.get(variable)
            if not token:
                raise SettingsError(source, key, f"variable {variable} is not set.", "Put the tenant's token in it.")
            if tenants.get(token, tenant) != tenant:
                raise SettingsError(source, key, f"has the same token as tenant `{tenants[token]}`.", "Make a new one.")
            tenants[token] = tenant
        return tenants


def model_spec(name: str, table: ModelTable) -> ModelSpec:
    """A `[models.NAME]` table as the model parts take it."""
    return ModelSpec(
        name=name,
        provider=table.provider,
        model=table.model or "",
        base_url=table.base_url,
        api_key_env=table.api_key_env,
        context_window=table.context_window,
        requests_per_minute=table.requests_per_minute,
        tokens_per_minute=table.tokens_per_minute,
        max_concurrency=table.max_concurrency,
        tool_mode=table.tool_mode,
        max_output_tokens=table.max_output_tokens,
        prices={} if table.prices is None else table.prices.model_dump(exclude_unset=True),
        script=table.script,
        options=table.options,
    )


def _compaction(tables: SettingsFile) -> CompactionRule:
    table, named = tables.compaction, tables.compaction.model
    model = None if named is None else model_spec(named, tables.models[named])
    return CompactionRule(table.threshold, table.request_threshold, table.retained_tokens, model, table.timeout)


def _profile(name: str, table: ProfileTable) -> ProfileSpec:
    return ProfileSpec(
        name=name,
        model=table.model,
        system_prompt=table.system_prompt,
        tools=None if table.tools is None else tuple(table.tools),
        planning=table.planning,
        workspace=table.workspace,
        limits=Limits(**table.limits.model_dump()),
        permissions=PermissionSpec(
            tuple(table.permissions.allow),
            tuple(table.permissions.deny),
            tuple(table.permissions.ask),
            table.permissions.bypass,
            table.permissions.away,
        ),
    )
