"""`tasks`: what a Pod means to do and how far it is, from its log."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from orchestrator.cli.cells import table
from orchestrator.cli.failure import FINISHED
from orchestrator.cli.paint import Screen, Style, screen
from orchestrator.cli.reaching import find_pod, open_reader

STATUS_STYLES: Mapping[str, Style] = {
    "inprogress": "cyan",
    "in_progress": "cyan",
    "completed": "green",
    "cancelled": "dim",
    "deleted": "dim",
}


def tasks(options: Namespace) -> int:
    reader = open_reader(options)
    try:
        pod = find_pod(reader, options.pod)
        found = reader.tasks(pod["id"])
    finally:
        reader.close()
    out = screen()
    if options.json:
        out.line(json.dumps({"pod_id": pod["id"], **found}, ensure_ascii=False, indent=2))
    else:
        print_tasks(found, out)
    return FINISHED


def print_tasks(found: Mapping[str, Any], out: Screen) -> None:
    """The list in its order, and how much of it is done."""
    if not found["tasks"]:
        why = "; its profile gives it no planning tools" if found["planning"] == "none" else ""
        out.line(f"no tasks{why}", "dim")
        return
    rows = [[str(t["taskid"]), str(t["status"]), str(t["subject"])] for t in found["tasks"]]
    head, *lines = table(["ID", "STATUS", "TASK"], rows, out.width)
    out.line(head, "dim")
    for row, line in zip(rows, lines, strict=True):
        out.line(line, STATUS_STYLES.get(row[1], "plain"))
    out.line(summary_words(found["summary"]), "dim")


def summary_words(summary: Mapping[str, int]) -> str:
    """`5 tasks: 2 completed, 1 in progress, 2 pending`, in the face's own words."""
    total = summary["total"]
    parts = [f"{n} {word}" for word, n in summary.items() if word != "total" and n]
    return f"{total} {'task' if total == 1 else 'tasks'}: {', '.join(parts)}"
