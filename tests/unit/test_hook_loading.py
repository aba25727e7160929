"""Where hooks come from, and what becomes of one that cannot be loaded."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator import hooks
from orchestrator.hooks import BrokenHook, HookUnusable, load, load_hooks
from orchestrator.runtime import HookSettings
from orchestrator.settings import SettingsError, load_settings


class Audit:
    def after_run(self, view: Any) -> None:
        return None


class Waits:
    async def before_call(self, view: Any) -> None:
        return None


class Nothing:
    pass


AUDIT = Audit()
BAD = {
    "no_such_module:x": "ModuleNotFoundError",
    "tests_hooks_sample:gone": "AttributeError",
    "tests_hooks_sample:Nothing": "none of the methods",
    "tests_hooks_sample:Waits": "plain functions",
}


@pytest.fixture(autouse=True)
def sample(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("tests_hooks_sample")
    vars(module).update(Audit=Audit, AUDIT=AUDIT, Waits=Waits, Nothing=Nothing)
    monkeypatch.setitem(sys.modules, "tests_hooks_sample", module)


def test_an_object_is_taken_as_it_is_and_a_class_is_made_one() -> None:
    assert load("tests_hooks_sample:AUDIT") is AUDIT
    assert isinstance(load("tests_hooks_sample:Audit"), Audit)


@pytest.mark.parametrize(("place", "words"), BAD.items())
def test_what_is_no_hook_says_why(place: str, words: str) -> None:
    with pytest.raises(HookUnusable, match=words):
        load(place)


def test_settings_come_first_then_entry_points_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        [
            EntryPoint("b", "tests_hooks_sample:Audit", "polypod.hooks"),
            EntryPoint("a", "no_such_module:x", "polypod.hooks"),
        ]
    )
    monkeypatch.setattr(hooks, "entry_points", lambda group: points.select(group=group))
    found = load_hooks(HookSettings(("tests_hooks_sample:AUDIT",), on_failure="allow"))
    assert [runner.name for runner in found.runners] == ["tests_hooks_sample:AUDIT", "a", "b"]
    assert found.closed is False
    assert found.runners[1].has("before_call")
    assert load_hooks(HookSettings(entry_points=False)).runners == ()
    with pytest.raises(HookUnusable, match="cannot be loaded"):
        BrokenHook("cannot be loaded").before_call(None)


@pytest.mark.parametrize("place", BAD)
def test_a_hook_of_the_settings_that_cannot_be_loaded_is_refused_at_the_start(tmp_path: Path, place: str) -> None:
    (tmp_path / "polypod.toml").write_text(f'[hooks]\nuse = ["{place}"]\n')
    settings = load_settings(tmp_path, {"POLYPOD_HOME": str(tmp_path / "home")})
    assert settings.runtime().hooks == HookSettings((place,))
    with pytest.raises(SettingsError, match=r"hooks\.use"):
        settings.check_hooks()


def test_a_place_that_is_no_place_is_refused_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "polypod.toml").write_text('[hooks]\nuse = ["just.a.module"]\n')
    with pytest.raises(SettingsError, match=r"hooks\.use"):
        load_settings(tmp_path, {"POLYPOD_HOME": str(tmp_path / "home")})
