"""Open questions in words: who asks, what, since when, and the command that answers. Pure but for the clock."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from datetime import datetime
from textwrap import wrap
from typing import Any, TypeAlias

from orchestrator.cli.cells import clean, duration, one_line

Question: TypeAlias = Mapping[str, Any]
"""A question in the inbox's form."""


def question_lines(question: Question, width: int, *, with_way: bool = True) -> list[str]:
    """The whole question, its choices numbered, and how to answer it."""
    kind = "wants a permission" if question.get("kind") == "permission" else "asks"
    name = one_line(str(question.get("pod_name") or question["pod_id"]), 60)
    since = f", {duration(waited(question))} ago" if question.get("asked_at") else ""
    lines = [f"{name} {kind}{since}  [{question.get('question_id')}]"]
    for line in clean(str(question.get("question"))).splitlines():
        lines += wrap(line, max(width - 4, 20), initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    for number, choice in enumerate(question.get("choices") or (), 1):
        lines.append(f"  {number}. {shown(choice_words(choice))}")
    return [*lines, f"  answer: {way_to_answer(question)}"] if with_way else lines


def way_to_answer(question: Question) -> str:
    """The command that answers it."""
    pod = question["pod_id"]
    if question.get("kind") == "permission":
        return f"polypod answer {pod} --choice {'|'.join(labels(question))} [--text REASON]"
    choices = labels(question)
    if choices:
        word = shlex.quote(shown(choices[0]))
        given = f"--choice={word}" if shown(choices[0]).startswith("-") else f"--choice {word}"
        return f'polypod answer {pod} {given}  (or --text "...")'
    return f'polypod answer {pod} --text "..."'


def labels(question: Question) -> list[str]:
    return [str(choice.get("label")) for choice in question.get("choices") or ()]


def shown(label: str) -> str:
    """A label as people see it, and may type it."""
    return " ".join(clean(label).split())


def choice_words(choice: Mapping[str, Any]) -> str:
    """A choice with its description."""
    words = str(choice.get("label"))
    return f"{words}: {choice['description']}" if choice.get("description") else words


def waited(question: Question) -> float:
    """Seconds since it was asked."""
    try:
        then = datetime.fromisoformat(str(question["asked_at"])).timestamp()
    except (KeyError, ValueError):
        return 0.0
    return max(0.0, time.time() - then)
