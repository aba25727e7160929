"""`demo`: a census of a folder by a tree of Pods, on the same road as `run`."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path

from orchestrator.cli.embedding import Plan, join_or_own, settings_of, with_model
from orchestrator.cli.failure import CommandError
from orchestrator.cli.reaching import home_of
from orchestrator.cli.run import folder_of, start_and_follow
from orchestrator.demo import PARENT, jobs_for, script_for, settings_for, task_for
from orchestrator.home import Home, HomeError

KEPT = 3
"""How many homes of earlier demos stay, to look at their logs."""


def demo(options: Namespace) -> int:
    folder = folder_of(options.folder)
    if options.live:
        home = home_of(options)
        plan = Plan(lambda: settings_of(home), ready=with_model(None, None))
        with join_or_own(home, plan) as link:
            body = {"prompt": task_for(folder), "workspace": str(folder)}
            return start_and_follow(home, link, body, as_json=options.json)
    home = _demo_home(home_of(options))
    jobs = jobs_for(folder)
    _write(home.path / "script.jsonl", script_for(folder, jobs))
    _write(home.path / "polypod.toml", settings_for("script.jsonl", folder))
    with join_or_own(home, Plan(lambda: _settings(home))) as link:
        body = {"prompt": f"Take a census of {folder.name}.", "name": PARENT, "workspace": str(folder)}
        code = start_and_follow(home, link, body, as_json=options.json)
    if not options.json:
        print(f"\nlook closer:  {_command()} --home {home.path} logs {PARENT}")
    return code


def _command() -> str:
    """What to type for this very program: `make demo` runs one that is on nobody's PATH."""
    return "polypod" if shutil.which("polypod") else sys.argv[0]


def _settings(home: Home):  # type: ignore[no-untyped-def]
    """The demo's own: nothing that is set for real work reaches it."""
    from orchestrator.settings import load_settings  # lazy: start-up, it brings pydantic

    plain = {name: value for name, value in os.environ.items() if not name.startswith("POLYPOD_")}
    return load_settings(home.path, {**plain, "POLYPOD_HOME": str(home.path)}, home.path / "polypod.toml")


def _demo_home(home: Home) -> Home:
    """A fresh home below the real one, or in the folder for temporary files when that cannot be written."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    place = Home(home.path / "demo")
    try:
        place.create()
        _remove_old(place.path)
        own = Home(place.path / name)
        own.create()
    except HomeError:
        own = Home(Path(tempfile.mkdtemp(prefix="polypod-demo-")))
    return own


def _remove_old(place: Path) -> None:
    homes = sorted((Home(p) for p in place.iterdir() if p.is_dir()), key=lambda h: h.path.name)
    for old in homes[: max(0, len(homes) - KEPT + 1)]:
        if not old.is_owned():
            shutil.rmtree(old.path, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None
