"""python -m benchmarks [names] [--json] [--quick] [--report FILE]

One file per question. Every ratio is of figures taken in one run on one machine: read those, not the absolutes. Without
names all are run, each in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.machine import facts
from benchmarks.report import Report, as_markdown, as_plain, as_text, from_plain

NAMES = (
    "steps",
    "sessions",
    "recovery",
    "spawn",
    "delivery",
    "store",
    "memory",
    "startup",
    "tools",
    "http_client",
    "extraction",
)
LIMIT = 1800.0
"""Seconds for one of them."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What polypod costs, beside others.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it works")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the whole as Markdown")
    chosen = parser.parse_args()
    unknown = [n for n in chosen.names if n not in NAMES]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    names = chosen.names or list(NAMES)
    before = facts()
    reports: dict[str, Report] = {}
    failed: dict[str, str] = {}
    for name in names:
        if len(names) == 1:
            reports[name] = _run(name, chosen.quick)
        else:
            _note(f"{name} ...")
            _run_apart(name, chosen.quick, reports, failed)
        if not chosen.json:
            print(
                as_text(reports[name]) + "\n" if name in reports else f"== {name} failed\n{failed[name]}\n", flush=True
            )
    if chosen.json:
        print(
            json.dumps({"machine": before, "reports": {n: as_plain(r) for n, r in reports.items()}, "failed": failed})
        )
    if chosen.report is not None:
        chosen.report.write_text(_document(before, list(reports.values()), failed))
    return 1 if failed else 0


def _run(name: str, quick: bool) -> Report:
    module: Any = importlib.import_module(f"benchmarks.{name}")
    report: Report = module.run(quick)
    return report


def _run_apart(name: str, quick: bool, reports: dict[str, Report], failed: dict[str, str]) -> None:
    """In a process of its own: each has a Ray of its own, and memory that no other has touched."""
    command = [sys.executable, "-m", "benchmarks", name, "--json", *(["--quick"] if quick else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        failed[name] = f"no result within {LIMIT:g} s"
        return
    if done.returncode:
        failed[name] = done.stderr.strip()[-3000:]
        return
    reports[name] = from_plain(json.loads(done.stdout.splitlines()[-1])["reports"][name])


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _document(machine: dict[str, str], reports: list[Report], failed: dict[str, str]) -> str:
    arguments = " ".join(a for a in sys.argv[1:])
    head = [
        "# Benchmarks",
        "",
        f"Made by `python -m benchmarks {arguments}`.".replace(" `.", "`."),
        "Ratios are of figures taken in one run; the absolutes belong to this machine on that day.",
        "",
        *(f"- {name}: {value}" for name, value in machine.items()),
    ]
    asked = [t for r in reports for t in r.targets]
    missed = [t.what for t in asked if t.met is False]
    met = sum(t.met is True for t in asked)
    head += ["", f"Of {len(asked)} targets {met} are met" + (f"; missed: {'; '.join(missed)}." if missed else ".")]
    head += [f"\n`{name}` failed:\n\n```\n{text}\n```" for name, text in failed.items()]
    return "\n".join(head) + "\n\n" + "\n\n".join(as_markdown(r) for r in reports) + "\n"


if __name__ == "__main__":
    sys.exit(main())
