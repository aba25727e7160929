"""clarify: one question to the person. The tool only checks and normalises it; asking is the turn machine's."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from actors.protocol.tools import Tool, ToolContext, ToolOutcome
from actors.tools.text import one_line, visible
from actors.tools.typed import Arguments, typed_tool
from session_store.items import Json

QUESTION_LIMIT = 4_000
LABEL_LIMIT = 200
DESCRIPTION_LIMIT = 1_000
"""Characters. A question is read on one screen; a label is a line of a list, and is typed."""
_BREAKS = re.compile("[ \t\n-\r\x1c-\x1e\x85\u2028\u2029]*[\t\n-\r\x1c-\x1e\x85\u2028\u2029][ ]*")
LEAST_CHOICES, MOST_CHOICES = 2, 4


class Option(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    label: str = Field(
        description="The choice in a few words.", json_schema_extra={"minLength": 1, "maxLength": LABEL_LIMIT}
    )
    description: str | None = Field(
        default=None,
        description="What comes of it: its outcome or trade-off.",
        json_schema_extra={"maxLength": DESCRIPTION_LIMIT},
    )

    @field_validator("label")
    @classmethod
    def _short(cls, label: str) -> str:
        return _trimmed(_in_one_line(label), LABEL_LIMIT, "a choice")

    @field_validator("description")
    @classmethod
    def _bounded(cls, description: str | None) -> str | None:
        if description is None or not description.strip():
            return None
        return _trimmed(description, DESCRIPTION_LIMIT, "a description")


def _option(given: Json) -> Json:
    """A bare text is a label: it states its outcome itself."""
    return {"label": given} if isinstance(given, str) else given


class clarify(Arguments):  # the class's name is the tool's
    says = (
        "Ask the person one question and end this turn: their reply comes as the next message, and you go on from "
        "there. Ask only where you cannot choose the intended outcome or the next action without the answer, and the "
        "answer would change the result. First use the request and the conversation: never ask again for a preference "
        "that was already given, and never ask where there is a safe, low-risk default: take that. Ask for feedback "
        "after a task only where the answer decides whether the work is accepted, revised or continued. The question "
        "must be complete in itself. Leave `choices` out for a free answer, or give 2 to 4 that really differ, each "
        "stating its outcome or trade-off; where the action can be declined, one of them is to do nothing. Make it "
        "the last call of a reply: calls before it run, later ones are not run."
    )
    question: str = Field(
        description="The one question, complete in itself.",
        json_schema_extra={"minLength": 1, "maxLength": QUESTION_LIMIT},  # told, and checked below once trimmed
    )
    choices: list[Annotated[Option, BeforeValidator(_option, json_schema_input_type=str | Option)]] | None = Field(
        default=None,
        description="2 to 4 different choices; without them the answer is free text.",
        json_schema_extra={"minItems": LEAST_CHOICES, "maxItems": MOST_CHOICES},
    )

    @field_validator("question")
    @classmethod
    def _asked(cls, question: str) -> str:
        return _trimmed(question, QUESTION_LIMIT, "the question")

    @field_validator("choices")
    @classmethod
    def _distinct(cls, choices: list[Option] | None) -> list[Option] | None:
        if not choices:
            return None
        if not LEAST_CHOICES <= len(choices) <= MOST_CHOICES:
            raise ValueError(f"give {LEAST_CHOICES} to {MOST_CHOICES} choices, or none, not {len(choices)}")
        known: dict[str, str] = {}
        for choice in choices:
            if (twin := known.get(_same(choice.label))) is not None:
                raise ValueError(f"the choices {twin!r} and {choice.label!r} do not differ")
            known[_same(choice.label)] = choice.label
        return choices


def clarify_tool() -> Tool:
    async def ask(arguments: clarify, context: ToolContext) -> ToolOutcome:
        choices = [choice.model_dump(exclude_none=True) for choice in arguments.choices or ()]
        data = {"question": {"question": arguments.question, "choices": choices}}
        return ToolOutcome("ok", f"asked: {one_line(arguments.question)}", ASKED, data)

    return typed_tool(clarify, ask, idempotent=True)


ASKED = "The question was put to the person. The turn ends here; the answer comes with the next message."


def _trimmed(text: str, most: int, what: str) -> str:
    text = text.strip()
    if not any(map(visible, text)):
        raise ValueError(f"{what} is blank")
    if len(text) > most:
        raise ValueError(f"{what} has {len(text):,} characters, at most {most:,}")
    return text


def _in_one_line(label: str) -> str:
    """A label is a line of a list and is typed: line ends and tabs become a space, other controls nothing."""
    spaced = _BREAKS.sub(" ", label)
    return "".join(c for c in spaced if unicodedata.category(c) != "Cc")


def _same(label: str) -> str:
    """Labels that look the same to a person are the same."""
    seen = "".join(c for c in unicodedata.normalize("NFKC", label) if visible(c) or c.isspace())
    return " ".join(seen.casefold().split())
