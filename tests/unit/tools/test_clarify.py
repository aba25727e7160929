"""clarify: what it accepts, the normalised form, and what its description asks of the model."""

from __future__ import annotations

from typing import Any

import pytest

from actors.tools.clarify import DESCRIPTION_LIMIT, LABEL_LIMIT, QUESTION_LIMIT, clarify, clarify_tool
from tests.support.tool_calls import Bench, told

ACCEPTED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"question": "  Which one?\n"}, {"question": "Which one?", "choices": []}),
    ({"question": "Which?", "choices": []}, {"question": "Which?", "choices": []}),
    ({"question": "Which?", "choices": None}, {"question": "Which?", "choices": []}),
    (
        {"question": "消しますか", "choices": [" はい ", {"label": " いいえ ", "description": " 何もしない "}]},
        {"question": "消しますか", "choices": [{"label": "はい"}, {"label": "いいえ", "description": "何もしない"}]},
    ),
    (
        {"question": "Q", "choices": [{"label": "a", "description": "  "}, "b", "c", "d"]},
        {"question": "Q", "choices": [{"label": x} for x in "abcd"]},
    ),
    (
        {"question": "Q", "choices": ["one \r\n\t line", "左\u3000右\x1b\x00"]},
        {"question": "Q", "choices": [{"label": "one line"}, {"label": "左\u3000右"}]},
    ),
    ({"question": "x" * QUESTION_LIMIT}, {"question": "x" * QUESTION_LIMIT, "choices": []}),
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "argument `question` is missing"),
    ({"question": " \n\t\u3000"}, "the question is blank"),
    ({"question": "\u200b\u2060"}, "the question is blank"),
    ({"question": "x" * (QUESTION_LIMIT + 1)}, "at most 4,000"),
    ({"question": 3}, "`question`"),
    ({"question": "Q", "choices": ["one"]}, "give 2 to 4 choices, or none, not 1"),
    ({"question": "Q", "choices": ["a", "b", "c", "d", "e"]}, "give 2 to 4 choices, or none, not 5"),
    ({"question": "Q", "choices": ["a", " "]}, "a choice is blank"),
    ({"question": "Q", "choices": ["a", {"label": ""}]}, "a choice is blank"),
    ({"question": "Q", "choices": ["yes", "no", " yes "]}, "the choices 'yes' and 'yes' do not differ"),
    ({"question": "Q", "choices": ["a", "a"]}, "the choices 'a' and 'a' do not differ"),  # one object in memory
    ({"question": "Q", "choices": ["は\u200bい", "はい"]}, "do not differ"),
    ({"question": "Q", "choices": ["Yes", {"label": "ｙｅｓ", "description": "other"}]}, "do not differ"),
    ({"question": "Q", "choices": ["a", "x" * (LABEL_LIMIT + 1)]}, "at most 200"),
    (
        {"question": "Q", "choices": ["a", {"label": "b", "description": "x" * (DESCRIPTION_LIMIT + 1)}]},
        "at most 1,000",
    ),
    ({"question": "Q", "choices": ["a", {"label": "b", "default": True}]}, "unknown argument `choices.1.default`"),
    ({"question": "Q", "choices": ["a", 2]}, "`choices.1`"),
    ({"question": "Q", "choices": "a or b"}, "`choices`"),
    ({"question": "Q", "options": ["a", "b"]}, "unknown argument `options`"),
]


@pytest.mark.parametrize(("arguments", "recorded"), ACCEPTED, ids=str)
async def test_Q01_question_and_choices_are_recorded_trimmed(
    bench: Bench, arguments: dict[str, Any], recorded: dict[str, Any]
) -> None:
    outcome = await bench.call("clarify", **arguments)
    assert (outcome.status, outcome.data) == ("ok", {"question": recorded})


@pytest.mark.parametrize(("arguments", "says"), REFUSED, ids=lambda v: v if isinstance(v, str) else "")
async def test_Q01_what_does_not_fit_is_a_tool_error_that_says_why(
    bench: Bench, arguments: dict[str, Any], says: str
) -> None:
    outcome = await bench.call("clarify", **arguments)
    assert (outcome.status, outcome.data) == ("error", None)
    assert says in told(outcome)


def test_its_schema_tells_the_limits() -> None:
    schema: dict[str, Any] = clarify_tool().spec.parameters["properties"]
    assert (schema["choices"]["minItems"], schema["choices"]["maxItems"]) == (2, 4)
    assert schema["question"]["maxLength"] == QUESTION_LIMIT


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("only where the answer is needed for the outcome or the next action", "cannot choose the intended outcome or"),
        ("only where the answer changes the result", "would change the result"),
        ("what was said before comes first", "use the request and the conversation"),
        ("no preference is asked again", "never ask again for a preference that was already given"),
        ("no question where a safe default exists", "never ask where there is a safe, low-risk default"),
        ("feedback only where it decides", "decides whether the work is accepted, revised or continued"),
        ("self-contained", "complete in itself"),
        ("one question", "one question"),
        ("choices that differ", "2 to 4 that really differ"),
        ("each choice states what comes of it", "each stating its outcome or trade-off"),
        ("a do-nothing choice", "can be declined, one of them is to do nothing"),
        ("it ends the turn", "end this turn"),
        ("the reply is the next message", "comes as the next message"),
        ("no further calls", "later ones are not run"),
    ],
)
def test_its_description_carries_every_rule_of_use(rule: str, words: str) -> None:
    assert words in clarify.says, rule
