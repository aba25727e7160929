"""What the import contracts in pyproject.toml cannot say: the pure core, and what importing a package costs."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import tidy

ROOT = Path(__file__).resolve().parent.parent

# The core takes time, chance, ids, disk and network as values or ports, never from these.
NOT_IN_CORE = {
    *("aiohttp", "asyncio", "concurrent", "http", "httpx", "io", "logging", "multiprocessing", "os", "random", "ray"),
    *("secrets", "select", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading"),
    *("time", "urllib", "uuid"),
}
PURE_ALL_THE_SAME = {"urllib.parse"}
CLOCK_READINGS = {"now", "utcnow", "today"}  # of datetime, whose values are welcome

# Imported by every Pod process or by `polypod --help`: these must not come along with a bare package.
HEAVY = {"ray", "aiohttp", "psycopg", "starlette", "uvicorn", "rich", "pydantic"}


def core_files() -> dict[str, Path]:
    every = {p.relative_to(ROOT).as_posix(): p for package in tidy.PACKAGES for p in (ROOT / package).rglob("*.py")}
    return {name: path for name, path in every.items() if tidy.is_core(name)}


def impurities(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {alias.name.split(".")[0] for alias in names} & NOT_IN_CORE
            case ast.ImportFrom(module=str(module)) if module not in PURE_ALL_THE_SAME:
                found |= {module.split(".")[0]} & NOT_IN_CORE
            case ast.Attribute(attr=attribute) if ast.unparse(node.value) in ("datetime", "date", "datetime.datetime"):
                found |= {attribute} & CLOCK_READINGS
    return found


def test_core_touches_no_clock_chance_or_io() -> None:
    found = {
        name: sorted(bad)
        for name, path in core_files().items()
        if (bad := impurities(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found == {}


def test_what_calls_itself_pure_is() -> None:
    found = {}
    for package in tidy.PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            first = (ast.get_docstring(tree) or "").partition("\n\n")[0]
            if first.endswith("Pure.") and (bad := impurities(tree)):
                found[path.relative_to(ROOT).as_posix()] = sorted(bad)
    assert found == {}


@pytest.mark.parametrize("package", tidy.PACKAGES)
def test_importing_a_package_says_nothing_and_loads_nothing_heavy(package: str) -> None:
    code = f"import sys, {package}; print('loaded', *sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr.strip() == "loaded"


def test_the_command_line_loads_no_ray() -> None:
    if importlib.util.find_spec("orchestrator.cli") is None:
        pytest.skip("no command line yet")
    code = "import sys, orchestrator.cli.main; print('ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
