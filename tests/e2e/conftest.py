"""Real commands in processes of their own, each with a home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120.0
"""Seconds for one command, on a machine that has much else to do."""


@dataclass
class Polypod:
    """`polypod` as a user runs it. `script` is the scripted model's, one dict a line."""

    home: Path
    workspace: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def script(self, *lines: dict[str, Any]) -> None:
        self.home.mkdir(exist_ok=True)
        (self.home / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        (self.home / "polypod.toml").write_text(
            '[models.default]\nprovider = "scripted"\nscript = "script.jsonl"\n[directory]\nwarm_pool = 1\n',
            encoding="utf-8",
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("POLYPOD_", "OPENAI_", "ANTHROPIC_"))}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        environ["PYTHONPATH"] = str(ROOT)
        process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator.cli", "--home", str(self.home), *words],
            cwd=self.workspace,
            env=environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.running.append(process)
        return process

    def run(self, *words: str, code: int = 0) -> str:
        """Standard output of a command that must end with `code`."""
        process = self.start(*words)
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == code, f"{words} ended with {process.returncode}\n{out}\n{err}"
        return out

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code))

    def result(self, *words: str, code: int = 0) -> dict[str, Any]:
        """The last line of a `--json` run."""
        last: dict[str, Any] = json.loads(self.run(*words, "--json", code=code).splitlines()[-1])
        return last

    def until(self, what: str, test: Any) -> Any:
        """What `test` gives once it is true."""
        limit = time.monotonic() + LIMIT
        while not (found := test()):
            assert time.monotonic() < limit, f"waited {LIMIT:g} s until {what}"
            time.sleep(0.2)
        return found

    def status(self, name: str) -> str | None:
        return next((p["status"] for p in self.json("ps", "--all") if p["name"] == name), None)

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


@pytest.fixture
def polypod(tmp_path: Path) -> Iterator[Polypod]:
    workspace = tmp_path / "仕事 work"
    workspace.mkdir()
    command = Polypod(tmp_path / "home", workspace)
    yield command
    command.close()
