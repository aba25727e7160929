"""A run told as it happens: the root's text as it is made, one line for what the others do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len

from actors.protocol.live import TOOL_BLOCK
from orchestrator.cli.audience import Ending
from orchestrator.cli.cells import align, clean, count, cut, duration, one_line
from orchestrator.cli.forest import Pod, branches, short_ids, usage_of
from orchestrator.cli.paint import STATUS_STYLES, Screen, Style
from orchestrator.cli.questions import question_lines
from orchestrator.cli.story import (
    CHILD_MARK,
    OUTCOME_STYLES,
    Entry,
    call_words,
    calls_of,
    problem_words,
    tell,
    text_of,
    without_command,
)

SLOW_CALL = 3.0
"""Seconds after which a call that has no result yet is announced."""
LINE = 140
"""Cells of what is told of another Pod than the root, however wide the screen is."""
_LABEL = 28


@dataclass(slots=True)
class _OpenCall:
    words: str
    since: float
    announced: bool = False


@dataclass(slots=True)
class _Teller:
    """What is known of one Pod."""

    label: str
    status: str = ""
    calls: dict[tuple[int, int], _OpenCall] = field(default_factory=dict)
    printed: dict[str, int] = field(default_factory=dict)
    """Code points of each live block that are on the screen."""


class Narrator:
    """Tells people on a `Screen`."""

    def __init__(self, screen: Screen, root_id: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen = screen
        self._root_id = root_id
        self._clock = clock
        self._tellers: dict[str, _Teller] = {}
        self._open_line = False
        self._last_text: str | None = None
        """The root's last reply, while nothing else stands below it."""

    def pods(self, pods: Sequence[Pod]) -> None:
        known = {pod["id"]: pod for pod in pods}
        short = short_ids(known)
        for pod in pods:
            teller = self._tellers.get(pod["id"])
            if teller is None:
                teller = self._tellers[pod["id"]] = _Teller(self._label(pod, known))
                self._greet(pod, teller, short[pod["id"]])
            elif (
                teller.status != pod["status"] and pod["status"] == "ended"
            ):  # other rests are told by the end of the run
                self._line(pod["id"], "ended", STATUS_STYLES.get("ended", "plain"))
            teller.status = pod["status"]
        self._screen.flush()

    def entry(self, pod_id: str, entry: Entry) -> None:
        match entry.get("type"):
            case "assistant_items":
                self._reply(pod_id, entry)
            case "tool_results":
                for result in entry.get("results") or ():
                    self._result(pod_id, result)
            case "system_items" if pod_id == self._root_id:
                self._system_items(pod_id, entry)
            case "question":
                self._line(pod_id, f"asks: {entry.get('question')}", "yellow")
            case "run_end":
                self._run_end(pod_id, entry)
            case "rewound":
                self._line(pod_id, f"rewound to before entry {entry.get('to')}", "yellow")
            case _:
                pass
        self._screen.flush()

    def live(self, pod_id: str, name: str, data: Mapping[str, Any]) -> None:
        match name:
            case "delta" if pod_id == self._root_id:
                self._delta(data)
            case "retry":
                words = f"asks the model again in {duration(float(data.get('wait') or 0))}: {data.get('reason')}"
                self._line(pod_id, words, "yellow")
            case "alert":
                self._line(pod_id, f"{data.get('level')}: {data.get('message')}", "yellow")
            case "discard" if pod_id == self._root_id and self._open_line:
                self._line(pod_id, "(this reply broke off)", "yellow")
            case _:
                pass
        self._screen.flush()

    def say(self, text: str) -> None:
        self._break()
        self._screen.line(text, "dim")
        self._screen.flush()

    def tick(self) -> None:
        now = self._clock()
        for pod_id, teller in self._tellers.items():
            for call in teller.calls.values():
                if not call.announced and now - call.since >= SLOW_CALL:
                    call.announced = True
                    self._line(pod_id, f"-> {call.words} …", "dim")
        self._screen.flush()

    def end(self, ending: Ending) -> None:
        text = str(ending.result.get("text") or "")
        if text and text != self._last_text:
            self._break()
            self._screen.line()
            self._screen.line(clean(text).rstrip())
        self._break()
        self._screen.line()
        if len(ending.pods) > 1:
            for line in drawn_tree(ending.pods, self._screen):
                self._screen.line(line)
            self._screen.line()
        self._screen.line(summary(ending), OUTCOME_STYLES.get(str(ending.result.get("outcome")), "plain"))
        if ending.result.get("error"):
            self._screen.line(clean(problem_words(ending.result["error"])), "red")
        for line in ways_on(ending):
            self._screen.line(line)
        self._screen.flush()

    def _label(self, pod: Pod, known: Mapping[str, Pod]) -> str:
        names: list[str] = []
        at: Pod | None = pod
        while at is not None and at["id"] != self._root_id:
            names.append(str(at.get("name") or at["id"]))
            at = known.get(at.get("parent_id") or "")
        return cut(clean("/".join(reversed(names))), _LABEL)

    def _greet(self, pod: Pod, teller: _Teller, short: str) -> None:
        if pod["id"] == self._root_id:
            self._screen.line(f"{clean(str(pod.get('name') or 'Pod'))}  {short}", "bold")
        else:
            self._line(pod["id"], f"+ {teller.label}  {short}", "cyan", labelled=False)

    def _reply(self, pod_id: str, entry: Entry) -> None:
        teller = self._teller(pod_id)
        if pod_id == self._root_id:
            self._root_text(teller, entry)
        elif text := text_of(entry).strip():
            self._line(pod_id, text, "plain")
        for index, call in enumerate(calls_of(entry)):
            words = call_words(call, self._screen.width)
            teller.calls[(int(entry.get("seq") or 0), index)] = _OpenCall(words, self._clock())

    def _root_text(self, teller: _Teller, entry: Entry) -> None:
        """What of the reply is not on the screen yet."""
        written = False
        for item in entry.get("items") or ():
            if item.get("type") != "text":
                continue
            text = str(item.get("text") or "")
            done = teller.printed.pop(str(item.get("block")), 0)
            if done < len(text):
                self._write(text[done:])
            written = written or bool(text.strip())
        if written:
            self._break()
            self._last_text = text_of(entry)

    def _delta(self, data: Mapping[str, Any]) -> None:
        teller = self._teller(self._root_id)
        block, offset, text = str(data.get("block")), int(data.get("offset") or 0), str(data.get("text") or "")
        if block.startswith(TOOL_BLOCK):
            return  # what a tool prints is folded into the line of its call
        done = teller.printed.get(block, 0)
        if offset > done or offset + len(text) <= done:
            return  # a gap (the entry brings the whole text), or nothing new
        if done == 0:
            self._break()
        teller.printed[block] = offset + len(text)
        self._write(text[done - offset :])

    def _result(self, pod_id: str, result: Mapping[str, Any]) -> None:
        teller = self._teller(pod_id)
        call = teller.calls.pop((int(result.get("call_seq") or 0), int(result.get("index") or 0)), None)
        words = call.words if call is not None else str(result.get("name"))
        ok = result.get("status") == "ok"
        summary = one_line(without_command(str(result.get("summary") or "")), 60)
        status = str(result.get("status"))
        tail = f" · {summary if ok or summary.startswith(f'{status}:') else f'{status}: {summary}'}"
        room = max(min(self._screen.width, LINE) - len(teller.label) - cell_len(tail) - 8, 24)
        self._line(pod_id, f"-> {one_line(words, room)}{tail}", "dim" if ok else "red")

    def _system_items(self, pod_id: str, entry: Entry) -> None:
        """One line for each item, in the words that `logs` and `attach` use too; a child's news with its own sign."""
        for told in tell(entry):
            sign = "<- " if told.mark == CHILD_MARK else f"* {told.mark} "
            self._line(pod_id, sign + told.text, "cyan")

    def _run_end(self, pod_id: str, entry: Entry) -> None:
        outcome = str(entry.get("outcome"))
        if pod_id == self._root_id and outcome in ("finished", "waiting_on_children"):
            return  # what follows tells it
        words = outcome.replace("_", " ")
        if entry.get("error"):
            words += f": {problem_words(entry['error'])}"
        self._line(pod_id, words, OUTCOME_STYLES.get(outcome, "plain"))

    def _teller(self, pod_id: str) -> _Teller:
        return self._tellers.setdefault(pod_id, _Teller("" if pod_id == self._root_id else cut(pod_id, _LABEL)))

    def _line(self, pod_id: str, text: str, style: Style, *, labelled: bool = True) -> None:
        self._break()
        self._last_text = None
        label = self._teller(pod_id).label if labelled else ""
        head = f"  {label}  " if label else "  "
        room = max(self._screen.width - len(head) - 1, 20)
        self._screen.line(head + self._screen.paint(one_line(text, min(room, LINE)), style))

    def _write(self, text: str) -> None:
        shown = clean(text)
        if shown:
            self._screen.write(shown)
            self._open_line = not shown.endswith("\n")
            self._last_text = None

    def _break(self) -> None:
        if self._open_line:
            self._screen.line()
            self._open_line = False


def drawn_tree(pods: Sequence[Pod], screen: Screen) -> list[str]:
    """The tree with state, requests and tokens of each Pod."""
    drawn = branches(pods)
    names = [cut(branch.stem + clean(str(branch.pod.get("name") or branch.pod["id"])), 48) for branch in drawn]
    short = short_ids(pod["id"] for pod in pods)
    rows = []
    for branch, name in zip(drawn, names, strict=True):
        used = usage_of([branch.pod])
        tokens = f"{count(used['input'])}+{count(used['output'])}"
        rows.append([name, short[branch.pod["id"]], _state(branch.pod), str(used["requests"]), tokens])
    head = ["POD", "ID", "STATE", "#REQUESTS", "#TOKENS IN+OUT"]
    lines = align(head, rows, screen.width)
    return [screen.paint(lines[0], "dim"), *lines[1:]]


def summary(ending: Ending) -> str:
    """What it came to and what it used, in one line."""
    used = usage_of(ending.pods)
    outcome = str(ending.result.get("outcome") or ending.result.get("status") or "?").replace("_", " ")
    pods = f"{len(ending.pods)} Pod{'s' if len(ending.pods) != 1 else ''}"
    cached = f" ({count(used['cache_read'])} cached)" if used["cache_read"] else ""
    tokens = f"{count(used['input'])} tokens in{cached}, {count(used['output'])} out"
    requests = f"{used['requests']} request{'s' if used['requests'] != 1 else ''}"
    return f"{outcome} · {pods} · {requests} · {tokens} · {duration(ending.seconds)}"


def ways_on(ending: Ending, width: int = LINE) -> list[str]:
    """Every open question and paused Pod, with the command that moves it."""
    lines = []
    for question in ending.questions:
        lines += question_lines(question, width)
    for pod in ending.paused:
        lines.append(f"{clean(str(pod.get('name') or pod['id']))} is paused")
        lines.append(f"  go on:   polypod resume {pod['id']}")
    return lines


def _state(pod: Pod) -> str:
    outcome = pod.get("last_outcome")
    return str(outcome) if pod.get("status") == "idle" and outcome else str(pod.get("status"))
