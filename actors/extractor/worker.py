"""The disposable worker: one slice in, one extraction out, by at most two requests. It has no Pod and no history."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from actors.extractor.prompt import marked, refusal
from actors.extractor.schema import PARAMETERS, Extraction, NoExtraction, read_reply, tool
from actors.protocol.dialogue import Dialogue
from actors.protocol.model import Model, ModelError
from actors.protocol.sizes import tokens
from actors.protocol.usage import WorkerUsage

WORKER = "extract"
"""Label of its tokens; also the name that a scripted model knows it by."""
ATTEMPTS = 2
"""The answer, and one repair."""
DEFAULT_INPUT = 50_000
"""Tokens of input where neither the settings nor the model say how many it may take."""
WINDOW_SHARE = 0.75
"""Of the model's context window; the rest is for its answer, and for what the estimate of tokens misses."""
LEAST_SLICE = 256
"""Tokens of the slice that are shown in any case: with fewer no extraction would ever come to an end."""
_FRAME = 120
"""Tokens around the slice."""


class WorkerFailed(Exception):
    """There is no extraction. `type` is that of the model's error, or `no_extraction`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.type = kind
        self.message = message


@dataclass(frozen=True, slots=True)
class Task:
    """`name` is unique for this extraction and makes the request ids; `fresh` makes the slice's mark and ids unique
    among attempts after a crash."""

    session: str
    name: str
    fresh: str
    system_prompt: str
    slice_text: str


def budget(model: Model, system_prompt: str, max_input_tokens: int | None) -> int:
    """Tokens that the slice of one request may have."""
    window = model.context_window
    allowed = max_input_tokens or (DEFAULT_INPUT if window is None else int(window * WINDOW_SHARE))
    return max(LEAST_SLICE, allowed - tokens(system_prompt) - tokens(json.dumps(PARAMETERS)) - _FRAME)


async def extract(model: Model, task: Task, spent: Callable[[WorkerUsage], Awaitable[None]]) -> Extraction:
    """Ask the model; an answer that does not fit the schema is sent back once. `spent` is told of every reply.

    Raises `WorkerFailed`.
    """
    dialogue = Dialogue(WORKER, task.session, f"{task.name}-{task.fresh}", task.system_prompt, tool())
    dialogue.say(marked(task.slice_text, task.fresh))
    problem = ""
    for _ in range(ATTEMPTS):
        try:
            reply = await dialogue.ask(model, spent)
        except ModelError as error:
            raise WorkerFailed(error.type, f"the model failed: {error.message}") from None
        try:
            return read_reply(reply.items)
        except NoExtraction as error:
            problem = str(error)
            dialogue.send_back(reply, refusal(problem))
    raise WorkerFailed("no_extraction", f"{ATTEMPTS} answers of the model were no extraction; the last: {problem}")
