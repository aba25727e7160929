"""What the command line pays for the gateway before it needs one: nothing."""

import importlib.util
import subprocess
import sys

import pytest


def loaded_by(statement: str) -> list[str]:
    code = (
        f"import sys; {statement}; print(*[m for m in ('starlette', 'uvicorn', 'ray', 'aiohttp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_help_loads_no_gateway() -> None:
    if importlib.util.find_spec("orchestrator.cli") is None:
        pytest.skip("no command line yet")
    assert loaded_by("import orchestrator.cli.main") == []


def test_settings_load_no_server() -> None:
    assert loaded_by("import orchestrator.settings") == []


def test_the_gateway_loads_no_ray() -> None:
    assert loaded_by("import orchestrator.gateway.server") == ["starlette", "uvicorn"]


def test_the_owner_loads_no_ray_before_its_environment_is_set() -> None:
    """Ray reads at import what keeps its words about dead workers off the terminal of a run."""
    assert "ray" not in loaded_by("import orchestrator.owner")
