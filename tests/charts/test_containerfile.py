"""The image: linted, and its steps without a container."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.charts.conftest import ROOT, tool

FILE = ROOT / "Containerfile"


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", "", FILE.read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def copied(folder: Path) -> None:
    """What the build stage copies, as it would lie there."""
    for word, rest in instructions():
        if word == "COPY" and not rest.startswith("--from"):
            *sources, target = rest.split()
            for source in sources:
                place = folder / target / ("" if (ROOT / source).is_dir() else source)
                place.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, place)


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run([tool("hadolint"), "--no-color", FILE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_it_is_staged_pinned_and_not_root() -> None:
    steps = instructions()
    bases = [rest for word, rest in steps if word == "FROM"]
    assert len(bases) == 2
    assert all(re.fullmatch(r"\S+:\d\S+( AS \w+)?", base) for base in bases)
    installs = [rest for word, rest in steps if word == "RUN" and "pip install" in rest]
    assert all("--require-hashes" in rest or "--no-deps" in rest for rest in installs)
    assert [rest for word, rest in steps if word == "USER"] == ["10001:10001"]
    last_run = max(n for n, (word, _) in enumerate(steps) if word == "RUN")
    assert last_run < next(n for n, (word, _) in enumerate(steps) if word == "USER")
    assert not [rest for word, rest in steps if word in ("ENV", "ARG") and re.search("token|key|password", rest, re.I)]


def test_what_is_copied_is_enough_to_build_the_package(tmp_path: Path) -> None:
    copied(tmp_path / "src")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--no-build-isolation", "--wheel-dir", tmp_path, "."], cwd=tmp_path / "src", check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {"orchestrator/cli/main.py", "actors/pod/turn.py", "session_store/actor.py"} <= names


@pytest.mark.long
def test_the_build_stage_runs_without_a_container(tmp_path: Path) -> None:
    copied(tmp_path / "src")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "POLYPOD_"))}
    for word, rest in instructions()[: [word for word, _ in instructions()].index("LABEL")]:
        if word == "RUN":
            step = rest.replace("/opt/polypod", str(tmp_path / "opt"))
            subprocess.run(["/bin/sh", "-ec", step], cwd=tmp_path / "src", env=environ, check=True, timeout=600)
    said = subprocess.check_output([tmp_path / "opt" / "bin" / "polypod", "--version"], env=environ, text=True)
    assert "0.1.0" in said
