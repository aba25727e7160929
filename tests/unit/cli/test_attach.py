"""`attach` before its screen opens: whom it attaches to, and when it does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli.attach import latest
from orchestrator.cli.main import run as polypod
from orchestrator.cli.reaching import GatewayReader
from orchestrator.cli.seam import Gateway
from tests.support.fake_gateway import CHILD, ROOT, SECRET, FakeGateway, served

OTHER = "01990000-0000-7000-8000-000000000003"


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeGateway]:
    gateway = FakeGateway()
    with served(gateway, tmp_path / "home"):
        yield gateway


def test_a_home_without_an_owner_is_exit_2_and_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert polypod(["--home", str(tmp_path / "home"), "attach"]) == 2
    said = capsys.readouterr().err
    assert "nobody owns the home" in said
    assert "polypod serve" in said


def test_without_a_terminal_it_is_exit_2(fake: FakeGateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake.add()
    assert polypod(["--home", str(tmp_path / "home"), "attach", "census"]) == 2
    assert "--follow" in capsys.readouterr().err


@pytest.mark.parametrize("channel", ["stdin", "stdout", "stderr"])
def test_a_channel_that_is_no_terminal_is_exit_2_instead_of_a_blank_screen(
    fake: FakeGateway, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, channel: str
) -> None:
    fake.add()
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda name=name: name != channel)
    assert polypod(["--home", str(tmp_path / "home"), "attach", "census"]) == 2
    assert "attach needs a terminal" in capsys.readouterr().err


def test_an_unknown_pod_is_exit_2(fake: FakeGateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert polypod(["--home", str(tmp_path / "home"), "attach", "nobody"]) == 2
    assert "there is no Pod 'nobody'" in capsys.readouterr().err


def test_the_root_that_was_busy_last(fake: FakeGateway) -> None:
    reader = GatewayReader(Gateway(fake.address, SECRET))
    assert latest(reader) is None
    fake.add(status="ended")
    assert latest(reader) is None
    fake.set(status="idle")
    fake.add(OTHER, root_id=OTHER, updated_at="2026-11-30T12:00:05.000Z")
    fake.add(CHILD, parent_id=ROOT, updated_at="2026-11-30T12:00:09.000Z")
    found = latest(reader)
    assert found is not None
    assert found["id"] == ROOT


def test_only_the_screen_itself_loads_textual() -> None:
    code = (
        "import sys, importlib, pkgutil, orchestrator.cli as cli\n"
        "for found in pkgutil.iter_modules(cli.__path__):\n"
        "    if found.name != '__main__': importlib.import_module(f'orchestrator.cli.{found.name}')\n"
        "print('textual' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
