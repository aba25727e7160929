"""`inbox` and `answer`: what people are asked, and what they say to it. Nobody else's answer is ever made up here."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from orchestrator.cli.cells import clean
from orchestrator.cli.control import set_going
from orchestrator.cli.failure import FINISHED, CommandError, UsageError
from orchestrator.cli.forest import Pod
from orchestrator.cli.paint import Screen, screen
from orchestrator.cli.questions import Question, labels, question_lines, shown, way_to_answer
from orchestrator.cli.reaching import Reader, find_pod, home_of, open_reader
from orchestrator.cli.run import read_text

_QUESTION_ID = re.compile(r"(?:[qp]|fork)-([0-9a-f]{12})-(?:\d+-\d+|question)")
"""The middle part is the end of its Pod's id."""


def inbox(options: Namespace) -> int:
    reader = open_reader(options)
    try:
        questions = reader.questions()
    finally:
        reader.close()
    out = screen()
    if options.json:
        out.json(list(questions))
        return FINISHED
    if not questions:
        out.line(f"nobody asks anything in {home_of(options).path}", "dim")
        return FINISHED
    for place, question in enumerate(questions):
        if place:
            out.line()
        for line in question_lines(question, out.width):
            out.line(line)
    return FINISHED


def answer(options: Namespace) -> int:
    pod, question = _meant(options)
    body = _said(options, question) if question is not None else _blind(options)
    body["question_id"] = options.question if question is None else question["question_id"]
    return set_going(options, pod, "answer", body, follow=options.wait)


def _meant(options: Namespace) -> tuple[Pod, Question | None]:
    """The Pod, and its open question; None for a question that was asked once and is not open any more: the store
    knows what became of it. Raises `CommandError`."""
    reader = open_reader(options)
    try:
        questions = reader.questions()
        by_id = [q for q in questions if q["question_id"] == options.question]
        if len(by_id) == 1:
            return reader.pod(by_id[0]["pod_id"]), by_id[0]
        if by_id:
            pods = ", ".join(str(q["pod_id"]) for q in by_id)
            raise UsageError(f"several Pods ask {options.question}: name the Pod instead ({pods})")
        if (pod := _asked_once(reader, options.question)) is not None:
            return pod, None
        pod = find_pod(reader, options.question)
    finally:
        reader.close()
    found = next((q for q in questions if q["pod_id"] == pod["id"]), None)
    if found is None:
        name = clean(str(pod.get("name") or pod["id"]))
        raise CommandError(f"{name} asks nothing (it is {pod['status']}); `polypod inbox` lists what is asked")
    return pod, found


def _asked_once(reader: Reader, text: str) -> Pod | None:
    match = _QUESTION_ID.fullmatch(text)
    if match is None:
        return None
    return next((pod for pod in reader.pods() if str(pod["id"]).endswith(match.group(1))), None)


def _said(options: Namespace, question: Question) -> dict[str, Any]:
    """What the command line, or a person at the terminal, answers. Raises `UsageError`."""
    known = labels(question)
    as_seen = {shown(label): label for label in known}
    if options.choice is None and options.words is not None and shown(options.words) in as_seen:
        options.choice, options.words = options.words, None
    said = _blind(options)
    if not said:
        if options.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError(f"no answer was given, and there is no terminal to ask at: {way_to_answer(question)}")
        return form(question, screen(), input)
    choice = said.get("choice")
    if choice is not None:
        said["choice"] = choice = choice if choice in known else as_seen.get(shown(choice), choice)
    if choice is not None and choice not in known:
        there = f"the choices are {', '.join(map(repr, known))}" if known else "it has no choices: answer by text"
        raise UsageError(f"{choice!r} is no choice of this question; {there}")
    if choice is None and question.get("kind") == "permission":
        raise UsageError(f"a permission is decided by one of its choices ({', '.join(known)}); a text is the reason")
    return said


def _blind(options: Namespace) -> dict[str, Any]:
    if options.words is not None and options.text is not None:
        raise UsageError("give the text once: as `--text` or after the name")
    said: dict[str, Any] = {}
    if options.choice is not None:
        said["choice"] = options.choice
    text = options.text if options.text is not None else options.words
    if text is not None:
        said["text"] = read_text(text, "the answer")
    return said


def form(question: Question, out: Screen, ask: Callable[[str], str]) -> dict[str, Any]:
    """The question at a terminal, its choices numbered. Raises `CommandError` when nothing is answered."""
    for line in question_lines(question, out.width, with_way=False):
        out.line(line)
    choices, permission = labels(question), question.get("kind") == "permission"
    prompt = "number: " if permission else "number, or your answer: " if choices else "your answer: "
    while True:
        try:
            said = ask(prompt).strip()
        except EOFError:
            raise CommandError("nothing was answered; the question stays open") from None
        if not said:
            continue
        chosen = _chosen(said, choices)
        if chosen is None and permission:
            out.line(f"a number from 1 to {len(choices)} is needed", "yellow")
            continue
        if chosen is None:
            return {"text": said}
        reason = _reason(ask) if permission and chosen == "deny" else ""
        return {"choice": chosen, **({"text": reason} if reason else {})}


def _chosen(said: str, choices: Sequence[str]) -> str | None:
    if said in choices:
        return said
    return choices[int(said) - 1] if said.isascii() and said.isdecimal() and 0 < int(said) <= len(choices) else None


def _reason(ask: Callable[[str], str]) -> str:
    try:
        return ask("reason (may be empty): ").strip()
    except EOFError:
        return ""
