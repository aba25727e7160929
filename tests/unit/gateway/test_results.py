"""What became of a message, from the log."""

import asyncio
import time
from dataclasses import dataclass

import pytest

from orchestrator.gateway.results import Ended, ResultFold, cancelled_view
from session_store.entries import (
    AssistantItems,
    Invoke,
    LogEntry,
    QuestionClosed,
    RunEnd,
    Served,
    SystemItems,
    ToolResults,
    UserInput,
    Withdrawn,
)
from session_store.items import Problem, Segment, SystemItem, Text
from session_store.requests import Pending
from tests.support import store as words
from tests.support.control_plane import FakePlane
from tests.support.gateway import client_of


def say(text: str, request_id: str = "q") -> AssistantItems:
    return AssistantItems(request_id, (Text(text),))


def run(number: int, *middle: LogEntry, message: str | None = None, outcome: str = "finished") -> list[LogEntry]:
    taken: list[LogEntry] = []
    if message is not None:
        taken.append(UserInput((Segment("text", "x"),), message, "user"))
    return [Invoke(f"run{number}", "prompt"), *taken, *middle, RunEnd(f"run{number}", outcome)]  # type: ignore[arg-type]


NOTICE = SystemItems((SystemItem("notification", "n1", {}, "x"),))


@dataclass(frozen=True)
class Case:
    name: str
    entries: list[LogEntry]
    message_id: str | None
    expect: Ended | None


CASES = [
    Case("its run", run(1, say("a"), say("b", "q2"), message="m"), "m", Ended("run1", "finished", "b")),
    Case("of one request, all its text", run(1, say("a"), say("b"), message="m"), "m", Ended("run1", "finished", "ab")),
    Case(
        "not a later run",
        run(1, say("a"), message="m") + run(2, say("b"), message="n"),
        "m",
        Ended("run1", "finished", "a"),
    ),
    Case(
        "the later run",
        run(1, say("a"), message="m") + run(2, say("b"), message="n"),
        "n",
        Ended("run2", "finished", "b"),
    ),
    Case("still at work", run(1, say("a"), message="m")[:-1], "m", None),
    Case("never met", run(1, say("a"), message="m"), "other", None),
    Case(
        "steered in",
        run(1, say("a"), UserInput((), "m", "user"), say("b", "q2"), message="n"),
        "m",
        Ended("run1", "finished", "b"),
    ),
    Case("a notice", run(1, NOTICE, say("a")), "n1", Ended("run1", "finished", "a")),
    Case("served", [Invoke("r", "prompt", (Served("m", "user"),)), RunEnd("r", "errored")], "m", Ended("r", "errored")),
    Case("given back", [Withdrawn("m", ())], "m", Ended("", "withdrawn")),
    Case(
        "through a wait for children",
        run(1, say("a"), message="m", outcome="waiting_on_children") + run(2, NOTICE, say("b")),
        "m",
        Ended("run2", "finished", "b"),
    ),
    Case("paused", run(1, say("a"), message="m", outcome="paused"), "m", Ended("run1", "paused", "a")),
    Case(
        "resumed and at work",
        [*run(1, say("a"), message="m", outcome="paused"), ToolResults(())],
        "m",
        None,
    ),
    Case(
        "resumed to its end",
        [*run(1, say("a"), message="m", outcome="paused"), say("b", "q2"), RunEnd("run1", "finished")],
        "m",
        Ended("run1", "finished", "b"),
    ),
    Case(
        "an answered question is another run",
        [
            *run(1, say("a"), message="m", outcome="waiting_on_user"),
            QuestionClosed("q", "answered", "user", message_id="m2"),
            *run(2, say("b"), message="m2"),
        ],
        "m",
        Ended("run1", "waiting_on_user", "a"),
    ),
    Case("the last run", run(2, say("b"), message="n"), None, Ended("run2", "finished", "b")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_run_that_serves_a_message_is_followed_to_its_end(case: Case) -> None:
    fold = ResultFold(case.message_id)
    fold.take(case.entries)
    assert fold.ended == case.expect


def test_T01_a_cancel_gives_back_what_the_run_had_taken() -> None:
    given = (Segment("text", "x"),)
    entries: list[LogEntry] = [
        Invoke("r", "prompt", seq=2),
        UserInput(given, "m1", "user", seq=3),
        RunEnd("r", "withdrawn", seq=4),
        Withdrawn("m2", given, seq=5),
        Withdrawn("later", given, seq=6),
    ]
    earlier: list[LogEntry] = [Invoke("r0", "prompt", seq=1), UserInput(given, "m0", "user", seq=1)]
    back = [{"type": "text", "text": "x"}]
    assert cancelled_view([*earlier, *entries], 5) == {
        "outcome": "withdrawn",
        "withdrawn": [{"message_id": "m1", "segments": back}, {"message_id": "m2", "segments": back}],
    }
    assert cancelled_view([*entries[:2], RunEnd("r", "cancelled", seq=4)], 4) == {
        "outcome": "cancelled",
        "withdrawn": [],
    }


async def test_the_result_waits_for_the_end_and_no_longer() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    async with client_of(plane) as http:
        began = time.monotonic()
        waiting = asyncio.create_task(http.get("/v1/pods/p/result", params={"wait": 5}))
        mine = asyncio.create_task(http.get("/v1/pods/p/result", params={"wait": 5, "message_id": "p:p"}))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        owner.append(words.text("the answer"))
        owner.end()
        for response in (await waiting, await mine):
            assert response.json() == {"status": "idle", "outcome": "finished", "text": "the answer"}
        assert time.monotonic() - began < 2


async def test_E14_waiting_for_a_reply_has_a_limit_and_neither_cancels_nor_sends_again() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    async with client_of(plane) as http:
        sent = (await http.post("/v1/pods/p/messages", json={"content": "and this"})).json()
        before = plane.row("p")
        told = await http.get("/v1/pods/p/result", params={"wait": 0.1, "message_id": sent["message_id"]})
        assert (told.status_code, told.json()["outcome"]) == (200, None)
        assert plane.row("p") == before
        assert [m.message_id for m in plane.memory.execute(Pending("p")).messages] == [sent["message_id"]]
        owner.append(words.text("done"))
        owner.end()
        assert (await http.get("/v1/pods/p/result", params={"wait": 0.1, "message_id": sent["message_id"]})).json()[
            "outcome"
        ] is None  # that run served another message


async def test_at_the_timeout_the_outcome_is_null() -> None:
    plane = FakePlane()
    words.running(plane.memory, "p")
    words.create(plane.memory, "idle")
    async with client_of(plane) as http:
        told = await http.get("/v1/pods/p/result", params={"wait": 0.1})
        assert told.status_code == 200
        assert told.json() == {"status": "running", "outcome": None, "text": ""}
        assert (await http.get("/v1/pods/idle/result")).json() == {"status": "idle", "outcome": None, "text": ""}
        words.deliver(plane.memory, "idle", words.message("m1"))
        told = await http.get("/v1/pods/idle/result", params={"wait": 0.1, "message_id": "m1"})
        assert told.json()["outcome"] is None
        unknown = await http.get("/v1/pods/p/result", params={"message_id": "nothing"})
        assert unknown.status_code == 404
        assert (await http.get("/v1/pods/p/result", params={"wait": "soon"})).status_code == 422


async def test_the_result_waits_through_waiting_on_children() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    owner.end("waiting_on_children", waits_for=("kid",))
    async with client_of(plane) as http:
        waiting = asyncio.create_task(http.get("/v1/pods/p/result", params={"wait": 5, "message_id": "p:p"}))
        await asyncio.sleep(0.1)
        owner.begin(trigger="pod_event")
        owner.append(words.text("all in"))
        owner.end()
        assert (await waiting).json() == {"status": "idle", "outcome": "finished", "text": "all in"}


async def test_an_error_is_told_with_its_type() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    owner.append(RunEnd(owner.run_id, "errored", Problem("auth", "no key")))
    async with client_of(plane) as http:
        told = (await http.get("/v1/pods/p/result")).json()
        assert told["error"] == {"type": "auth", "message": "no key"}
        assert told["outcome"] == told["status"] == "errored"


async def test_a_message_from_far_back_is_found() -> None:
    plane = FakePlane()
    owner = words.running(plane.memory, "p")
    for number in range(400):
        owner.append(words.text(f"{number}", f"r{number}"))
    owner.end()
    async with client_of(plane) as http:
        told = (await http.get("/v1/pods/p/result", params={"message_id": "p:p"})).json()
        assert told["text"] == "399"
