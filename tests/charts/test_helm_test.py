"""The script of `helm test`, tried on a local tree: the same script and model, against a `polypod serve` here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.charts.conftest import CHART, ROOT

TOKEN = "a-token-of-a-test"


def test_the_script_of_helm_test_runs_a_tree(tmp_path: Path) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("POLYPOD_", "OPENAI_", "ANTHROPIC_"))}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    environ |= {
        "PYTHONPATH": str(ROOT),
        "POLYPOD_TOKEN": TOKEN,
        "POLYPOD__GATEWAY__TOKEN": TOKEN,
        "POLYPOD__DIRECTORY__WARM_POOL": "3",
        "POLYPOD__MODELS__HELM_TEST__PROVIDER": "scripted",
        "POLYPOD__MODELS__HELM_TEST__SCRIPT": str(CHART / "files" / "helm-test.jsonl"),
    }
    command = [sys.executable, "-m", "orchestrator.cli", "--home", str(tmp_path / "home"), "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        gateway = serving.stdout.readline().split(" at ")[1].split()[0]
        test = [sys.executable, str(CHART / "files" / "helm-test.py")]
        good = subprocess.run([*test, gateway], env=environ, capture_output=True, text=True, timeout=120)
        wrong = {**environ, "POLYPOD_TOKEN": "another"}
        bad = subprocess.run([*test, gateway], env=wrong, capture_output=True, text=True, timeout=120)
        serving.terminate()
        assert serving.wait(30) == 0
    assert good.returncode == 0, good.stdout + good.stderr
    assert "('helm-test-one', 'one'), ('helm-test-two', 'two')" in good.stdout
    assert bad.returncode == 1
    assert "401" in bad.stderr
