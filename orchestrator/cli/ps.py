"""`ps` and `tree`: where the Pods stand."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from orchestrator.cli.cells import align, clean, count, duration, one_line
from orchestrator.cli.failure import FINISHED
from orchestrator.cli.forest import WAITING, Pod, branches, short_ids, usage_of
from orchestrator.cli.paint import Screen, screen
from orchestrator.cli.questions import question_lines, waited
from orchestrator.cli.reaching import find_pod, home_of, open_reader

NAME_WIDTH = 32


def ps(options: Namespace) -> int:
    reader = open_reader(options)
    try:
        pods = reader.pods(**({"status": options.status} if options.status else {}))
    finally:
        reader.close()
    if options.waiting:
        pods = [pod for pod in pods if pod["status"] in WAITING]
    elif not options.all and not options.status:
        pods = [pod for pod in pods if pod["status"] != "ended"]
    out = screen()
    if options.json:
        out.line(_json(pods))
        return FINISHED
    if not pods:
        if options.waiting:
            out.line(f"no Pod waits for a person in {home_of(options).path}", "dim")
        else:
            out.line(_nobody(options, "" if options.all else "; `--all` also shows ended ones"), "dim")
        return FINISHED
    if options.waiting:
        _print_waiting(pods, out)
    else:
        _print_table(pods, out)
    return FINISHED


def _nobody(options: Namespace, more: str = "") -> str:
    """Which home was looked at is what a reader of an empty list wants to know."""
    return f"no Pods in {home_of(options).path}{more}"


def tree(options: Namespace) -> int:
    reader = open_reader(options)
    try:
        if options.pod is None:
            pods, roots = reader.pods(), None
        else:
            top = find_pod(reader, options.pod)
            pods, roots = reader.pods(root=top["root_id"]), [top["id"]]
    finally:
        reader.close()
    out = screen()
    if options.json:
        out.line(_json(nested(pods, roots)))
        return FINISHED
    drawn = branches(pods, roots)
    if not drawn:
        out.line(_nobody(options), "dim")
        return FINISHED
    short = short_ids(branch.pod["id"] for branch in drawn)
    rows = [
        [
            branch.stem + one_line(str(branch.pod.get("name") or ""), 60),
            short[branch.pod["id"]],
            state_words(branch.pod),
            waits_words(branch.pod, pods),
            *_figures(branch.pod),
            since(branch.pod),
        ]
        for branch in drawn
    ]
    _print_rows(["POD", "ID", "STATE", "WAITS FOR", "#REQUESTS", "#TOKENS", "#AGE"], rows, out)
    _print_questions([branch.pod for branch in drawn], out)
    return FINISHED


def nested(pods: Sequence[Pod], roots: Sequence[str] | None) -> list[dict[str, Any]]:
    """Trees as JSON: each Pod with `pods`, its children."""
    nodes: dict[str, dict[str, Any]] = {}
    tops: list[dict[str, Any]] = []
    for branch in branches(pods, roots):
        node = nodes[branch.pod["id"]] = {**branch.pod, "pods": []}
        parent = nodes.get(branch.pod.get("parent_id") or "")
        (tops if parent is None else parent["pods"]).append(node)
    return tops


def state_words(pod: Pod) -> str:
    """The status, with what a reader would ask next: the last outcome of an idle Pod, a run that nobody owns."""
    status = str(pod["status"])
    if status == "idle" and pod.get("last_outcome"):
        return f"idle ({pod['last_outcome']})"
    if status == "running" and pod.get("owner") is None:
        return "running (no owner)"
    return status


def age(pod: Pod) -> str:
    """Time since the last change."""
    try:
        then = datetime.fromisoformat(str(pod["updated_at"])).timestamp()
    except (KeyError, ValueError):
        return ""
    return duration(time.time() - then)


def _print_table(pods: Sequence[Pod], out: Screen) -> None:
    short = short_ids(pod["id"] for pod in pods)
    rows = [
        [
            short[pod["id"]],
            one_line(str(pod.get("name") or ""), NAME_WIDTH),
            state_words(pod),
            str(len(_children(pod))),
            str(_queue(pod)),
            *_figures(pod),
            age(pod),
        ]
        for pod in pods
    ]
    _print_rows(["ID", "NAME", "STATE", "#CHILDREN", "#QUEUE", "#REQUESTS", "#TOKENS", "#AGE"], rows, out)


def _print_rows(head: Sequence[str], rows: Sequence[Sequence[str]], out: Screen) -> None:
    lines = align(head, [[clean(cell) for cell in row] for row in rows], out.width)
    out.line(lines[0], "dim")
    for line in lines[1:]:
        out.line(line)


def _print_waiting(pods: Sequence[Pod], out: Screen) -> None:
    """Who waits for whom and since when, then every question whole with the command that answers it."""
    short = short_ids(pod["id"] for pod in pods)
    rows = [
        [short[p["id"]], one_line(str(p.get("name") or ""), NAME_WIDTH), waits_words(p, ()), since(p)] for p in pods
    ]
    _print_rows(["ID", "NAME", "WAITS FOR", "#SINCE"], rows, out)
    _print_questions(pods, out)


def _print_questions(pods: Sequence[Pod], out: Screen) -> None:
    for pod in pods:
        if pod.get("question"):
            out.line()
            for line in question_lines(pod["question"], out.width):
                out.line(line)
    if any(pod["status"] == "paused" for pod in pods):
        out.line()
        out.line("go on with what is paused: polypod resume POD", "dim")


def waits_words(pod: Pod, others: Sequence[Pod]) -> str:
    """Whom a Pod waits for; of `others` the names are known."""
    match pod["status"]:
        case "waiting_on_user":
            kind = (pod.get("question") or {}).get("kind")
            return "a person: a permission" if kind == "permission" else "a person: an answer"
        case "paused":
            return "a person: resume"
        case "waiting_on_children":
            names = {other["id"]: str(other.get("name") or other["id"]) for other in others}
            return ", ".join(one_line(names.get(i, i), NAME_WIDTH) for i in pod.get("waits_for") or ())
        case _:
            return ""


def since(pod: Pod) -> str:
    """How long it has been waiting: since the question was asked, else since the last change."""
    return duration(waited(pod["question"])) if pod.get("question") else age(pod)


def _figures(pod: Pod) -> list[str]:
    used = usage_of([pod])
    return [str(used["requests"]), count(used["input"] + used["output"])]


def _children(pod: Pod) -> Sequence[Any]:
    children = pod.get("children")
    return range(children) if isinstance(children, int) else children or ()


def _queue(pod: Pod) -> int:
    queue = pod.get("queue")
    return queue if isinstance(queue, int) else len(queue or ())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
