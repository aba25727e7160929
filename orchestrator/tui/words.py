"""What stands around the transcript, as lines of a given width. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from orchestrator.cli.cells import clean, count, cut, one_line
from orchestrator.cli.forest import Pod, branches, usage_of
from orchestrator.tui.blocks import AlertNote, OpenQuestion
from orchestrator.tui.history import cost_of
from orchestrator.tui.styles import STATUS_COLOURS, STYLES
from orchestrator.tui.wrap import wrap

QUESTION_ROWS = 12
TASK_ROWS = 8


@dataclass(frozen=True, slots=True)
class Standing:
    """What the head line tells. `away`: why the server does not answer; None: it does."""

    pod: Mapping[str, Any] | None
    status: str
    model: str = ""
    prices: Mapping[str, float] | None = None
    away: str | None = None


def head_line(standing: Standing, width: int) -> Text:
    """Name, status, model, tokens and cost; what does not fit goes from the right."""
    pod = standing.pod
    if pod is None:
        return Text("new Pod", style=STYLES["bold"])
    status = standing.status or str(pod.get("status") or "")
    name = one_line(str(pod.get("name") or pod.get("id")), max(width // 3, 8))
    words = status.replace("_", " ")
    if status == "running" and pod.get("owner") is None and standing.away is None and pod.get("head_seq"):
        words = "running (nobody owns it: ctrl+p goes on)" if pod.get("generation") else words
    line = Text.assemble((name, STYLES["bold"]), "  ", (words, STATUS_COLOURS.get(status, "")))
    if standing.away is not None:
        line.append("  server away", STYLES["red"])
    parts = _figures(pod, standing)
    for part in parts:
        if line.cell_len + 3 + cell_len(part) <= width:
            line.append(" · " + part, STYLES["dim"])
    return line


def _figures(pod: Mapping[str, Any], standing: Standing) -> list[str]:
    used = usage_of([pod])
    figures = [f"{count(used['input'])} tokens in, {count(used['output'])} out"] if used["requests"] else []
    cost = cost_of(used, standing.prices or {})
    if cost is not None and used["requests"]:
        figures.append(f"cost {cost:.4f}" if cost < 1 else f"cost {cost:.2f}")
    if used["requests"]:
        figures.append(f"{used['requests']} request{'s' if used['requests'] != 1 else ''}")
    queue = int(pod.get("queue") or 0)
    if queue:
        figures.append(f"{queue} in the queue")
    if standing.model:
        figures.append(f"model {one_line(standing.model, 24)}")
    return figures


def hint_line(status: str, question: OpenQuestion | None, width: int) -> Text:
    """The keys that matter now."""
    if question is not None:
        keys = ["enter answer", "↑↓ or number choose"] if question.choices else ["enter answer"]
    elif status == "running":
        keys = ["enter queue", "ctrl+s steer", "ctrl+g cut in", "ctrl+p pause", "esc esc cancel"]
    elif status == "paused":
        keys = ["ctrl+p go on", "esc esc cancel", "enter queue"]
    else:
        keys = ["enter send", "ctrl+j new line"]
    keys += ["ctrl+q leave", "ctrl+t Pods", "ctrl+o details", "f1 keys"]
    line = ""
    for key in keys:
        longer = f"{line} · {key}" if line else key
        if cell_len(longer) > width:
            break
        line = longer
    return Text(line, style=STYLES["dim"])


def placeholder(pod: Mapping[str, Any] | None, question: OpenQuestion | None, workspace: str) -> str:
    """What the empty box is for."""
    if pod is None:
        return f"the task of a new Pod, which works in {clean(workspace)}"
    if question is not None:
        return "the answer"
    return "" if pod.get("status") == "ended" else f"write to {one_line(str(pod.get('name') or 'the Pod'), 60)}"


def alert_line(alerts: Sequence[AlertNote], note: str | None, width: int) -> Text | None:
    """The newest alert, or a word of this client."""
    if note is not None:
        return Text(one_line(note, width), style=STYLES["yellow"])
    if not alerts:
        return None
    newest = alerts[-1]
    more = f"  (f2: {len(alerts)} alerts)" if len(alerts) > 1 else ""
    style = STYLES["red"] if newest.level == "error" else STYLES["yellow"]
    words = one_line(f"{newest.level}: {newest.message}", max(width - len(more), 10))
    return Text(cut(words + more, width), style=style)


def question_lines(question: OpenQuestion, marked: int | None, width: int) -> Text:
    """The form: the question, its choices by number, and what the box is for."""
    lines: list[tuple[str, str]] = [(row, "ask") for row in wrap(clean(question.question), width)[:QUESTION_ROWS]]
    for number, (label, description) in enumerate(question.choices):
        sign = ">" if number == marked else " "
        words = one_line(f"{number + 1}. {label}{': ' + description if description else ''}", width - 2)
        lines.append((f"{sign} {words}", "bold" if number == marked else "plain"))
    if not question.choices:
        lines.append(("write the answer below", "dim"))
    elif question.kind == "permission":
        lines.append(("what you write below goes along as the reason", "dim"))
    else:
        lines.append(("or write an answer of your own below", "dim"))
    return Text("\n").join(Text(text, style=STYLES[style]) for text, style in lines)


def tree_rows(pods: Sequence[Pod], current: str | None, width: int) -> list[tuple[str, Text]]:
    """(id, line) of each Pod, drawn as trees."""
    rows = []
    for branch in branches(pods):
        pod = branch.pod
        status = str(pod.get("status"))
        sign = _SIGNS.get(status, " ")
        here = "> " if pod["id"] == current else "  "
        room = max(width - cell_len(here + branch.stem) - 2, 4)
        name = one_line(str(pod.get("name") or pod["id"]), room)
        style = STYLES["bold"] if pod["id"] == current else STYLES["plain"]
        colour = STATUS_COLOURS.get(status, "")
        rows.append(
            (pod["id"], Text.assemble((here + branch.stem, STYLES["dim"]), (sign + " ", colour), (name, style)))
        )
    return rows


_SIGNS = {
    "running": "*",
    "waiting_on_user": "?",
    "waiting_on_children": "~",
    "paused": "=",
    "errored": "!",
    "ended": "x",
    "idle": "-",
}


def task_lines(tasks: Sequence[Mapping[str, Any]], width: int) -> Text | None:
    """Tasks that are not deleted, the open ones first seen; None when there are none."""
    shown = [t for t in tasks if str(t.get("status")) != "deleted"]
    if not shown:
        return None
    done = sum(str(t.get("status")) in ("completed", "cancelled") for t in shown)
    lines = [Text(f"tasks {done}/{len(shown)}", style=STYLES["bold"])]
    open_ones = [t for t in shown if str(t.get("status")) not in ("completed", "cancelled")]
    for task in open_ones[:TASK_ROWS]:
        status = str(task.get("status"))
        active = status in ("inprogress", "in_progress")
        ident = task.get("taskid", task.get("id", ""))
        words = one_line(f"{ident} {task.get('subject') or task.get('content')}", width - 2)
        lines.append(Text(("> " if active else "  ") + words, style=STYLES["bold" if active else "plain"]))
    if len(open_ones) > TASK_ROWS:
        lines.append(Text(f"  and {len(open_ones) - TASK_ROWS} more", style=STYLES["dim"]))
    return Text("\n").join(lines)


KEYS = """\
enter          send; while a run goes on it waits its turn
ctrl+j         new line (also shift+enter, where the terminal tells it from enter)
ctrl+s         steer: into the run that goes on, at its next step
ctrl+g         cut in: cut the run short and go on with this
ctrl+p         pause the run, or go on
esc esc        cancel the run and those below it

up, down       earlier prompts, at the first and last line
@ # /          complete files, knowledge, workflows: tab or enter takes one

ctrl+t         the Pods at the side: enter shows one; again: hide them
ctrl+up, ctrl+down   the Pod above or below in that list
ctrl+n         a new Pod: the next prompt is its task
pageup, pagedown, ctrl+home, ctrl+end   move through the transcript
tab            to the transcript and back; there up and down go from call to call, enter opens one
ctrl+o         details: all calls and results, tokens of each request
ctrl+l         tasks
f2             alerts

ctrl+q         leave: the Pod runs on (also q outside the box, ctrl+d in an empty box)"""
