"""`polypod.toml` and its overrides as typed, resolved values. Reads a file only when asked to."""

from orchestrator.settings.problems import SettingsError
from orchestrator.settings.reading import Settings, load_settings

__all__ = ["Settings", "SettingsError", "load_settings"]
