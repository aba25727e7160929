"""The table of values in charts/polypod/README.md, made from values.yaml: `python scripts/chart_values.py [--check]`.

Each key has a comment right above it, which is its text; tables of keys without one are walked into.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parent.parent / "charts" / "polypod"
BEGIN, END = "<!-- values: made by scripts/chart_values.py -->", "<!-- end of values -->"


def rows(text: str) -> Iterator[tuple[str, str, str]]:
    """(key, default, about) of every key that has a comment. Raises `LookupError` for a leaf without one."""
    values = yaml.safe_load(text)
    path: list[tuple[int, str]] = []
    about: list[str] = []
    within: int | None = None  # depth of a key whose value is shown whole
    for line in text.splitlines():
        stripped, depth = line.strip(), len(line) - len(line.lstrip())
        if not stripped or (within is not None and depth > within):
            about = [] if not stripped else about
            continue
        within = None
        if stripped.startswith("#"):
            about.append(stripped.lstrip("# "))
            continue
        name, _, rest = stripped.partition(":")
        path = [*(p for p in path if p[0] < depth), (depth, name)]
        value = at(values, [key for _, key in path])
        if about:
            within = depth
            yield ".".join(key for _, key in path), json.dumps(value, ensure_ascii=False), " ".join(about)
        elif rest.strip() or not isinstance(value, dict):
            raise LookupError(f"{'.'.join(key for _, key in path)} has no comment above it")
        about = []


def at(values: Any, keys: list[str]) -> Any:
    for key in keys:
        values = values[key]
    return values


def table(text: str) -> str:
    lines = ["| key | default | |", "|---|---|---|"]
    for key, default, about in rows(text):
        cells = (f"`{key}`", f"`{default}`".replace("|", "\\|"), about.replace("|", "\\|"))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def with_table(readme: str, values: str) -> str:
    before, _, rest = readme.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise LookupError(f"README.md has no place for the table: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{table(values)}\n\n{END}{after}"


def main(arguments: list[str]) -> int:
    readme = CHART / "README.md"
    old = readme.read_text(encoding="utf-8")
    new = with_table(old, (CHART / "values.yaml").read_text(encoding="utf-8"))
    if arguments == ["--check"]:
        if new != old:
            print("charts/polypod/README.md is stale: run scripts/chart_values.py")
        return int(new != old)
    readme.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
