"""An open question in the log: what answers it, what supersedes it, what waits for it."""

from __future__ import annotations

import pytest

from actors.pod.transitions import Phase
from session_store.entries import (
    AssistantItems,
    Choice,
    Invoke,
    LogEntry,
    Question,
    QuestionClosed,
    RunEnd,
    Served,
    ToolResults,
    UserInput,
)
from session_store.errors import ConditionFailed
from session_store.items import Segment, ToolCall, ToolResult
from session_store.messages import Message
from tests.unit.pod.bench import PARENT, Bench, prompt


def asked(sender: str = "user") -> tuple[LogEntry, ...]:
    """A log that ends with an open question (its segment start is entry 1)."""
    return (
        Invoke("r", "prompt", (Served("m", sender),)),
        UserInput((Segment("text", "go"),), "m", sender),
        AssistantItems("q", (ToolCall("c", "clarify", {"question": "Which?"}),)),
        ToolResults((ToolResult(4, 0, "c", "clarify", "ok", "Asked."),)),
        Question("q1", "clarify", "Which?", (Choice("left"), Choice("right"))),
        RunEnd("r", "waiting_on_user"),
    )


def answer(message_id: str = "a", sender: str = "user", **body: str) -> Message:
    return Message(message_id, "answer", sender, {"question_id": "q1", **body})


def test_Q04_a_restored_question_waits_and_its_answer_starts_a_run() -> None:
    bench = Bench(log=asked())
    assert (bench.phase, bench.row.status) == (Phase.RESTING, "waiting_on_user")
    bench.deliver(answer(choice="left", text="the near one"))
    bench.hint()
    assert bench.story[-3:] == ["closed answered", "invoke answer", "user left\nthe near one (answer)"]
    closed = next(e for e in bench.entries if isinstance(e, QuestionClosed))
    assert (closed.by, closed.choice, closed.text, closed.message_id) == ("user", "left", "the near one", "a")
    bench.reply("Left it is.")
    assert bench.row.status == "idle"


@pytest.mark.parametrize("sender", ["user", PARENT])
def test_a_plain_prompt_is_the_answer(sender: str) -> None:
    bench = Bench(parent=True, log=asked())
    bench.say("the left one", sender)
    assert bench.story[-3:] == ["closed answered", "invoke prompt", "user the left one (answer)"]


def test_Q03_events_and_notices_wait_for_the_answer_and_come_after_it() -> None:
    bench = Bench(log=asked())
    bench.event("c1", 3)
    bench.notify("news")
    assert (bench.phase, bench.row.status) == (Phase.RESTING, "waiting_on_user")
    bench.say("left")
    assert bench.story[-3:] == ["user left (answer)", "notification news", "pod_event c1:3"]


def test_Q08_the_second_answer_is_refused() -> None:
    bench = Bench(log=asked())
    bench.deliver(answer("a1", choice="left"))
    with pytest.raises(ConditionFailed) as refused:
        bench.deliver(answer("a2", choice="right"))
    assert refused.value.reason == "already_answered"
    bench.hint()
    assert [s for s in bench.story if s.startswith("user")] == ["user go", "user left (answer)"]


def test_Q10_a_prompt_queued_before_the_question_supersedes_it() -> None:
    bench = Bench(log=asked()[:3], opened=False)
    bench.deliver(prompt("before"))  # while the run goes on
    bench.write(*asked()[3:])
    bench.reopen()
    assert bench.story[-3:] == ["closed superseded", "invoke prompt", "user before"]
    assert bench.row.question is None


def test_Q09_cancel_closes_the_question_and_a_late_answer_is_refused() -> None:
    bench = Bench(log=asked())
    bench.control("cancel")
    assert bench.story[-2:] == ["closed cancelled", "end cancelled"]
    assert bench.row.status == "idle"
    with pytest.raises(ConditionFailed) as refused:
        bench.deliver(answer(choice="left"))
    assert refused.value.reason == "question_closed"


@pytest.mark.parametrize(
    ("first", "how"),
    [
        (Message("c", "cancel", "user"), "cancelled"),
        (Message("s", "stop", "user"), "cancelled"),
        (Message("p", "prompt", "stranger", {"segments": [{"type": "text", "text": "x"}]}), "superseded"),
    ],
    ids=lambda v: v.kind if isinstance(v, Message) else v,
)
def test_Q09_an_answer_behind_what_closes_the_question_is_refused_at_once(first: Message, how: str) -> None:
    """Accepted, it would count for nothing: the Pod may be closing the question already, and not see it."""
    bench = Bench(log=asked())
    bench.deliver(first)
    with pytest.raises(ConditionFailed) as refused:
        bench.deliver(answer(choice="left"))
    assert (refused.value.reason, refused.value.detail["how"]) == ("question_closed", how)


def test_Q09_stop_closes_the_question() -> None:
    bench = Bench(log=asked())
    bench.control("stop")
    assert bench.story[-2:] == ["closed cancelled", "pod_end"]
    assert bench.row.question is None


@pytest.mark.parametrize("reply", ["answer", "superseding prompt"])
def test_the_run_after_a_question_goes_on_with_the_parents_work(reply: str) -> None:
    bench = Bench(parent=True, log=asked(PARENT))
    if reply == "answer":
        bench.deliver(answer(choice="left"))
    else:
        bench.deliver(Message("p", "prompt", "stranger", {"segments": [{"type": "text", "text": "x"}]}))
    bench.hint()
    bench.reply("Done.")
    assert bench.told == [("turn_ended", "finished")]


def test_an_interrupting_prompt_goes_before_an_earlier_one() -> None:
    bench = Bench(log=asked())
    bench.deliver(Message("p", "prompt", "stranger", {"segments": [{"type": "text", "text": "x"}]}))
    bench.say("the left one, now", when_busy="interrupt")
    assert bench.story[-2:] == ["invoke prompt", "user the left one, now (answer)"]


def test_Q08_an_accepted_answer_is_the_answer_and_a_prompt_that_interrupts_comes_after_it() -> None:
    bench = Bench(log=asked())
    bench.deliver(answer(choice="left"))
    bench.say("forget it", when_busy="interrupt")
    assert bench.story[-6:] == [
        "closed answered",
        "invoke answer",
        "user left (answer)",
        "end cancelled",
        "invoke prompt",
        "user forget it",
    ]
