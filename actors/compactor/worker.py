"""The disposable worker: a transcript in, one summary out, by at most two requests. It has no Pod and no history."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from actors.compactor.prompt import CLOSING, OPENING, marked, refusal
from actors.protocol.compaction import CompactionError
from actors.protocol.dialogue import Dialogue
from actors.protocol.model import Model, ModelError, ModelReply
from actors.protocol.sizes import tokens
from actors.protocol.usage import WorkerUsage
from session_store.items import Text

WORKER = "compact"
"""Label of its tokens; also the name that a scripted model knows it by."""
ATTEMPTS = 2
"""The answer, and one repair."""
DEFAULT_INPUT = 100_000
"""Tokens of the transcript where the model does not say how many it takes."""
WINDOW_SHARE = 0.7
"""Of the model's context window; the rest is for its answer, and for what the estimate of tokens misses."""
LEAST_INPUT = 1_000


_FAILURE = re.compile(
    r"""[\s\W]*(?:[\w.]*(?:error|exception|traceback|fail(?:ed|ure))\b|(?:http\s*)?[45]\d\d\b|internal\ server
    |bad\ gateway|service\ unavailable|gateway\ time|too\ many\ requests|rate\ limit|overloaded|time(?:d\ |-|\ )?out\b
    |(?:i\W{0,2}a?m\ )?sorry|(?:i|we)\ (?:can\W?t|cannot|can\ not|could\ not|couldn\W?t|am\ unable|won\W?t)\b|unable\ to
    |エラー|申し訳|すみません)""",
    re.IGNORECASE | re.VERBOSE,
)
"""How texts begin that a model or a proxy gives instead of a summary. Only asked of an answer without marks."""


class _NoSummary(Exception):
    """The answer is none; says why."""


@dataclass(frozen=True, slots=True)
class Task:
    """`name` is unique for this compaction and makes the request ids; `mark` is a word that nobody can know before.
    `size`: tokens that the summary may have at most."""

    session: str
    name: str
    mark: str
    system_prompt: str
    transcript: str
    size: int


def budget(model: Model, system_prompt: str) -> int:
    """Tokens that the transcript may have."""
    window = model.context_window
    allowed = DEFAULT_INPUT if window is None else int(window * WINDOW_SHARE)
    return max(LEAST_INPUT, allowed - tokens(system_prompt))


async def summarise(model: Model, task: Task, spent: Callable[[WorkerUsage], Awaitable[None]]) -> str:
    """Ask the model; an answer that is no summary is sent back once. `spent` is told of every reply.

    Raises `CompactionError`.
    """
    dialogue = Dialogue(WORKER, task.session, task.name, task.system_prompt)
    dialogue.say(marked(task.transcript, task.mark))
    problem = ""
    for _ in range(ATTEMPTS):
        try:
            reply = await dialogue.ask(model, spent)
        except ModelError as error:
            raise CompactionError(error.type, f"the model failed: {error.message}") from None
        try:
            return summary_of(reply, task.size)
        except _NoSummary as error:
            problem = str(error)
            dialogue.send_back(reply, refusal(problem))
    raise CompactionError("no_summary", f"{ATTEMPTS} answers of the model were no summary; the last: {problem}")


def summary_of(reply: ModelReply, size: int) -> str:
    """The text between the marks; without any, the whole text, unless it begins as errors and refusals do (case C03).

    Raises `_NoSummary`.
    """
    text = "".join(item.text for item in reply.items if isinstance(item, Text))
    if reply.stop == "refusal":
        raise _NoSummary("It was a refusal.")
    start, end = text.find(OPENING), text.rfind(CLOSING)
    if reply.stop == "length" or (start >= 0 and end < 0):
        raise _NoSummary("It was cut off at the output limit: write less.")
    if start < 0:
        if end >= 0 or _FAILURE.match(text):
            raise _NoSummary(f"It was not between {OPENING} and {CLOSING}.")
        summary = text.strip()
    elif end < start:
        raise _NoSummary(f"It was not between {OPENING} and {CLOSING}.")
    else:
        summary = text[start + len(OPENING) : end].strip()
    if not summary:
        raise _NoSummary("It was empty.")
    if (found := tokens(summary)) > size:
        raise _NoSummary(f"It has about {found} tokens, {size} are the most: write less.")
    return summary
