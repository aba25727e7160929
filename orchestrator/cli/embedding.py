"""One way to the Pods for every command: join the home's owner, or become the owner and be a client of oneself."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from orchestrator.cli.failure import CommandError, UsageError
from orchestrator.cli.reaching import reach
from orchestrator.cli.seam import Gateway
from orchestrator.home import HOME_VARIABLE, Home

if TYPE_CHECKING:
    from orchestrator.owner import OwnerProcess
    from orchestrator.settings import Settings

ATTEMPTS = 5
"""How often the home may change hands while a command looks for its owner."""
SLOW_START = 4.0
"""Seconds after which a command says that it is still starting."""
STORE_PATIENCE = 30.0
"""Seconds for which a command that follows a tree bears a store that does not answer."""


@dataclass(slots=True)
class Link:
    """A way to the Pods. `owner` is set when this process owns the home."""

    gateway: Gateway
    owner: OwnerProcess | None = None

    def __enter__(self) -> Link:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """An owner ends what it runs and gives the home up; a client has nothing to close."""
        owner, self.owner = self.owner, None
        if owner is not None:
            owner.close()


@dataclass(frozen=True, slots=True)
class Plan:
    """How to own the home if nobody does.

    `settings` loads them (only then). `roots` are the trees to go on with, besides those created here. `ready` looks at
    the settings before anything is started and may raise `UsageError`.
    """

    settings: Callable[[], Settings]
    roots: tuple[str, ...] = ()
    ready: Callable[[Settings], None] = lambda settings: None


def join_or_own(home: Home, plan: Plan | None = None) -> Link:
    """Raises `CommandError`, `HomeError`, `SettingsError`; the home is free again then."""
    plan = plan or Plan(lambda: settings_of(home))
    for _ in range(ATTEMPTS):
        gateway = reach(home)
        if gateway is not None:
            return Link(replace(gateway, patience=STORE_PATIENCE))
        settings = plan.settings()
        plan.ready(settings)
        ownership = home.own()
        if ownership is None:
            continue  # someone was faster: join them
        try:
            from orchestrator.owner import OwnerPlan, OwnerProcess  # lazy: start-up, it brings Ray

            with _not_silent():
                owner = OwnerProcess.start(ownership, settings, OwnerPlan("run", roots=plan.roots))
        except BaseException:
            ownership.close()
            raise
        return Link(Gateway(owner.address, owner.secret, patience=STORE_PATIENCE), owner)
    raise CommandError(f"the owner of the home {home.path} changes all the time: try again")


@contextmanager
def _not_silent() -> Iterator[None]:
    """A start that takes long is told of: a busy machine may need half a minute for Ray."""
    timer = threading.Timer(SLOW_START, warn, ("starting; this machine takes its time …",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def settings_of(home: Home, folder: Path | None = None) -> Settings:
    """The settings in force for a working folder (default: this one) and this home. Raises `SettingsError`."""
    from orchestrator.settings import load_settings  # lazy: start-up, it brings pydantic

    return load_settings(folder or working_folder(), {**os.environ, HOME_VARIABLE: str(home.path)})


def with_model(model: str | None, profile: str | None) -> Callable[[Settings], None]:
    """Refuses settings under which a Pod with this model or profile could not work (a missing key, an unknown name)."""

    def check(settings: Settings) -> None:
        profiles = settings.tables.profiles
        if profile is not None and profile != "default" and profile not in profiles:
            known = ", ".join(sorted(profiles)) or "none"
            raise UsageError(f"there is no profile `{profile}` in the settings (known: {known})")
        chosen = profiles.get(profile or "default")
        problem = settings.model_problem(model or (chosen.model if chosen else None), os.environ)
        if problem is not None:
            raise UsageError(problem)

    return check


def working_folder() -> Path:
    """The folder this command runs in. Raises `UsageError` when it is gone."""
    try:
        return Path.cwd()
    except OSError:
        raise UsageError("the folder this command runs in is not there any more: change to another one") from None


def warn(words: str) -> None:
    sys.stderr.write(f"polypod: {words}\n")
