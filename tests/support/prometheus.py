"""Prometheus' own programs, where they are installed (`scripts/debian-parts prometheus`), and its text format."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`; skips the test without it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} here (Debian package prometheus; scripts/debian-parts prometheus, as root)")
    return found


def check_metrics(page: str) -> None:
    """`promtool check metrics`: no complaint, also none about names."""
    done = subprocess.run([program("promtool"), "check", "metrics"], input=page, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def series(page: str) -> dict[str, float]:
    """Values by `name{label="value",…}`, labels in order of name."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = ",".join(f'{k}="{v}"' for k, v in sorted(sample.labels.items()))
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found
