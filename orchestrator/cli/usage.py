"""`usage`: tokens and money, by Pod, tree, model or worker."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from orchestrator.cli.cells import align, count, one_line
from orchestrator.cli.failure import FINISHED
from orchestrator.cli.forest import short_ids
from orchestrator.cli.paint import screen
from orchestrator.cli.reaching import find_pod, home_of, open_reader

NAME_WIDTH = 40
_TITLES = {"pod": ["POD", "ID"], "tree": ["TREE", "ID"], "model": ["MODEL"], "worker": ["WORKER"]}
_FIGURES = ["#REQUESTS", "#INPUT", "#CACHED", "#WRITTEN", "#OUTPUT", "#COST"]


def usage(options: Namespace) -> int:
    reader = open_reader(options)
    try:
        pod = None if options.pod is None else find_pod(reader, options.pod)["id"]
        told = reader.usage(options.by, pod)
    finally:
        reader.close()
    out = screen()
    if options.json:
        out.json(told)
        return FINISHED
    rows = told["rows"]
    if not rows:
        out.line(f"nothing was spent in {home_of(options).path}", "dim")
        return FINISHED
    short = short_ids(str(row.get("pod_id") or row.get("root_id") or "") for row in rows)
    cells = [[*_names(options.by, row, short), *_figures(row)] for row in rows]
    titles = _TITLES[options.by]
    cells.append(["total", *[""] * (len(titles) - 1), *_figures(told["total"])])
    lines = align([*titles, *_FIGURES], cells, out.width)
    out.line(lines[0], "dim")
    for line in lines[1:]:
        out.line(line)
    for words in _notes(told):
        out.line(words, "dim")
    return FINISHED


def _names(by: str, row: Mapping[str, Any], short: Mapping[str, str]) -> list[str]:
    if by in ("pod", "tree"):
        name, ident = (row["pod_name"], row["pod_id"]) if by == "pod" else (row["root_name"], row["root_id"])
        label = "" if row["worker"] == "pod" else f" ({row['worker']})"
        return [one_line(str(name) + label, NAME_WIDTH), short[ident]]
    return [one_line(str(row[by]), NAME_WIDTH)]


def _figures(row: Mapping[str, Any]) -> list[str]:
    tokens = [count(row[kind]) for kind in ("input", "cache_read", "cache_write", "output")]
    return [str(row["requests"]), *tokens, "-" if row["cost"] is None else f"{row['cost']:.4f}"]


def _notes(told: Mapping[str, Any]) -> list[str]:
    total, notes = told["total"], []
    if total["unpriced"]:
        notes.append(f"no price is set for {total['unpriced']} requests: [models.NAME] prices")
    if total["estimated"]:
        notes.append(f"{total['estimated']} requests are estimated: their provider reported no usage")
    if told["unread"]:
        notes.append(f"damaged logs left out: {', '.join(told['unread'])}; see `polypod check`")
    return notes
