"""Rewinds: from every rest, in one commit, and memory that follows the log."""

from dataclasses import replace

import pytest

from actors.pod import instructions as do
from actors.pod import stimuli as st
from actors.pod.facts import pod_facts
from actors.pod.transitions import Phase
from actors.protocol.tools import ToolOutcome
from session_store.entries import (
    AssistantItems,
    Choice,
    Invoke,
    LogEntry,
    Origin,
    Question,
    Rewound,
    RunEnd,
    SegmentStart,
    Served,
    UserInput,
)
from session_store.errors import ConditionFailed
from session_store.items import Segment, Text, ToolResult, ToolResultGroup, UserMessage
from session_store.messages import Message
from session_store.requests import Deliver
from tests.unit.pod.bench import PARENT, POD, Bench, call, prompt


def talked(*texts: str) -> Bench:
    """A bench at rest after these prompts, each answered by its capitals."""
    bench = Bench()
    for text in texts:
        bench.working(text).reply(text.upper())
    return bench


def ran(summary: str, **data: object) -> ToolOutcome:
    return ToolOutcome("ok", summary, None, dict(data))


def test_a_rewind_takes_the_history_back_to_before_its_prompt_and_the_next_request_shows_it() -> None:
    bench = talked("one", "two", "three")
    bench.rewind(bench.seq("user two"))
    assert (bench.story[-1], bench.row.status) == (f"rewound {bench.seq('user two')}", "idle")
    assert bench.shown() == ["user one", "assistant ONE"]
    bench.working("other")
    assert bench.shown() == ["user one", "assistant ONE", "user other"]
    assert bench.queue == []


def test_a_rewind_to_the_first_prompt_leaves_nothing_and_one_after_another_go_further_back() -> None:
    bench = talked("one", "two", "three")
    for text in ("three", "two", "one"):
        bench.rewind(bench.seq(f"user {text}"))
    assert (bench.shown(), bench.row.outcome) == ([], None)
    bench.reopen()
    assert (bench.shown(), bench.phase) == ([], Phase.RESTING)


def test_a_rewind_goes_behind_the_current_segment() -> None:
    summary = (UserMessage((Segment("text", "in short"),), "s", "user"),)
    log: tuple[LogEntry, ...] = (
        *said("one", "r1"),
        *said("two", "r2"),
        SegmentStart(POD, Bench().config.plain(), "Shorter.", (), 1, summary),
        *said("three", "r3"),
    )
    bench = Bench(log=log)
    assert bench.shown() == ["user in short", "user three", "assistant THREE"]
    bench.rewind(bench.seq("user two"))
    assert bench.shown() == ["user one", "assistant ONE"]
    assert bench.machine.state.history.system_prompt == "Work."


def said(text: str, run_id: str) -> tuple[LogEntry, ...]:
    return (
        Invoke(run_id, "prompt", (Served(text, "user"),)),
        UserInput((Segment("text", text),), text, "user"),
        AssistantItems(f"q-{run_id}", (Text(text.upper()),)),
        RunEnd(run_id, "finished"),
    )


def test_a_rewind_to_a_steering_prompt_keeps_the_first_half_of_its_run() -> None:
    bench = Bench().calling(call("Look"))
    bench.say("look left", when_busy="steer")
    bench.finish(0)
    bench.reply("Left it is.")
    bench.rewind(bench.seq("user look left"))
    assert bench.shown() == ["user go", "assistant <Look>", "results Look=ok"]
    bench.working("right")
    assert bench.shown()[-1] == "user right"


def test_what_was_read_follows_the_history_and_what_is_so_stays() -> None:
    bench = Bench().calling(call("Read"), call("ReadPodOutput"))
    bench.finish(0, outcome=ran("read", file={"path": "/a", "digest": "1"}))
    bench.finish(1, outcome=ran("read", read={"pod_id": "c1", "to": 7}))
    bench.reply("Read.")
    bench.working("on").reply(call("Write"), call("ReadPodOutput"), call("SpawnPod"), stop="tool_calls")
    bench.finish(0, outcome=ran("wrote", file={"path": "/a", "digest": "2"}))
    bench.finish(1, outcome=ran("read", read={"pod_id": "c1", "to": 30}))
    bench.finish(2, outcome=ran("spawned", pod_id="c2", name="c2"))
    bench.reply("Done.")
    bench.rewind(bench.seq("user on"))
    facts = bench.machine.state.facts
    assert {path: seen.digest for path, seen in facts.seen.items()} == {"/a": "1"}
    assert facts.read_positions == {"c1": 7}
    assert facts.children.keys() == {"c2"}  # it is there, whatever the history says
    assert facts.next_number == 5  # and the requests were made


def test_what_wait_for_pods_told_is_forgotten_with_it() -> None:
    bench = Bench().spawned("c1")
    bench.reply(call("WaitForPods"), stop="tool_calls")
    bench.finish(0, outcome=ran("concluded", listed=["c1"], concluded=["c1"]))
    bench.reply("Good.")
    bench.working("more").reply(call("WaitForPods"), stop="tool_calls")
    bench.finish(0, outcome=ran("concluded", listed=["c2"]))
    bench.reply("Good.")
    bench.rewind(bench.seq("user more"))
    assert bench.machine.state.facts.heard.keys() == {"c1"}
    assert bench.machine.state.facts.children["c1"].concluded


@pytest.mark.parametrize("rest", ["paused", "waiting", "asking", "asked for a permission", "errored"])
def test_a_rewind_ends_a_rest_that_waits_as_a_cancel_does(rest: str) -> None:
    bench = resting(rest)
    bench.rewind(bench.seq("user go"))
    ends = [s for s in bench.story if s.startswith(("end", "closed", "rewound", "results"))]
    to = bench.seq("user go")
    match rest:
        case "errored":
            assert ends[-2:] == ["end errored (bad_request)", f"rewound {to}"]
        case "asking":
            assert ends[-3:] == ["closed cancelled", "end cancelled", f"rewound {to}"]
        case "asked for a permission":
            assert ends[-4:] == ["results Act=not_run", "closed cancelled", "end cancelled", f"rewound {to}"]
        case _:
            assert ends[-2:] == ["end cancelled", f"rewound {to}"]
    assert (bench.row.status, bench.row.question, bench.shown(), bench.queue) == ("idle", None, [], [])
    bench.reopen()
    assert (bench.phase, bench.machine.state.fold.waiting) == (Phase.RESTING, False)


def resting(rest: str) -> Bench:
    match rest:
        case "paused":
            bench = Bench(parent=True).working(sender=PARENT)
            bench.control("pause")
            bench.abort_request()
        case "waiting":
            bench = Bench(parent=True).waiting("c1", sender=PARENT)
        case "errored":
            bench = Bench(parent=True).working(sender=PARENT)
            bench.fail_request()
        case _:
            asks = "clarify" if rest == "asking" else "permission"
            bench = Bench(parent=True, log=question(asks))
    return bench


def question(kind: str) -> tuple[LogEntry, ...]:
    begun = (
        Invoke("r", "prompt", (Served("go", PARENT),)),
        UserInput((Segment("text", "go"),), "go", PARENT),
    )
    asked = Question("q1", kind, "Which?", (Choice("a"), Choice("b")))  # type: ignore[arg-type]
    calls = (AssistantItems("q", (call("Act"),)),) if kind == "permission" else ()
    return (*begun, *calls, asked, RunEnd("r", "waiting_on_user"))


@pytest.mark.parametrize("rest", ["paused", "waiting", "asking", "asked for a permission"])
def test_the_parent_is_told_once_that_a_rewind_ended_its_work(rest: str) -> None:
    bench = resting(rest)
    told = len(bench.told)
    bench.rewind(bench.seq("user go"))
    assert bench.told[told:] == [("turn_ended", "cancelled")]
    assert not bench.row.open
    bench.working("mine").reply("Done.")
    assert len(bench.told) == told + 1


def test_a_rewind_of_what_has_ended_tells_the_parent_nothing() -> None:
    bench = Bench(parent=True).working(sender=PARENT)
    bench.reply("Done.")
    bench.rewind(bench.seq("user go"))
    assert bench.told == [("turn_ended", "finished")]


def test_the_children_of_a_wait_are_cancelled_with_it_and_their_news_wakes_nobody() -> None:
    bench = Bench().waiting("c1", "c2")
    bench.event("c1", 9)
    bench.hint()
    assert (bench.row.status, bench.queue) == ("waiting_on_children", ["c1:9"])
    bench.rewind(bench.seq("user go"))
    assert bench.story[-3:] == ["pod_event c1:9", "end cancelled", f"rewound {bench.seq('user go')}"]
    assert (bench.row.status, bench.queue, bench.shown()) == ("idle", [], [])
    assert all(c.concluded for c in bench.machine.state.facts.children.values())


def test_news_of_a_child_that_the_history_still_knows_is_not_lost_to_a_rewind() -> None:
    bench = Bench().spawned("c1")
    bench.reply("It works.")
    bench.waiting_again("c1", "c2")
    bench.event("c1", 9)
    bench.hint()
    bench.rewind(bench.seq("user wait"))
    assert bench.phase is Phase.REQUESTING
    assert bench.shown()[-2:] == ["assistant It works.", "pod_event c1:9"]


def test_prompts_that_waited_behind_a_paused_run_come_after_the_rewind() -> None:
    bench = Bench().working()
    bench.control("pause")
    bench.abort_request()
    bench.say("next")
    bench.rewind(bench.seq("user go"))
    assert bench.story[2:] == ["end paused", "end cancelled", f"rewound {bench.seq('user go')}", *NEXT]
    assert bench.shown() == ["user next"]


NEXT = ["invoke prompt", "user next"]


def test_a_prompt_that_comes_after_the_rewind_never_overtakes_it() -> None:
    bench = Bench(log=question("clarify"))
    to = bench.seq("user go")
    bench.deliver(Message("back", "rewind", "user", {"to": to, "expected_head": bench.row.head}))
    bench.deliver(prompt("next"))  # no answer: the question is closed for good
    assert bench.row.status == "running"
    bench.hint()
    assert bench.story[-5:] == ["closed cancelled", "end cancelled", f"rewound {to}", *NEXT]


def test_Q09_no_answer_is_taken_once_a_rewind_is_accepted() -> None:
    bench = Bench(log=question("clarify"))
    bench.deliver(Message("back", "rewind", "user", {"to": bench.seq("user go"), "expected_head": bench.row.head}))
    for _ in range(2):
        with pytest.raises(ConditionFailed) as refused:
            bench.store.execute(Deliver(POD, Message("a", "answer", "user", {"question_id": "q1", "text": "a"})))
        assert refused.value.reason == "question_closed"
        bench.hint()
    assert bench.story[-1].startswith("rewound")


@pytest.mark.parametrize("kind", ["cancel", "resume", "stop"])
def test_orders_that_come_after_an_accepted_rewind(kind: str) -> None:
    bench = Bench().working()
    bench.control("pause")
    bench.abort_request()
    to = bench.seq("user go")
    bench.deliver(Message("back", "rewind", "user", {"to": to, "expected_head": bench.row.head}))
    bench.control(kind)
    after = ["end stopped", "pod_end"] if kind == "stop" else ["end cancelled", f"rewound {to}"]
    assert bench.story[2:] == ["end paused", *after]
    assert bench.queue == []


def test_a_rewind_accepted_while_nobody_owned_the_session_takes_place_when_it_is_opened() -> None:
    bench = talked("one", "two")
    bench.deliver(Message("back", "rewind", "user", {"to": bench.seq("user two"), "expected_head": bench.row.head}))
    assert (bench.wanted(), bench.row.status) == (True, "idle")
    bench.reopen()
    assert (bench.shown(), bench.wanted()) == (["user one", "assistant ONE"], False)


def test_a_rewind_whose_commit_nobody_heard_of_is_there_once() -> None:
    bench = talked("one", "two")
    bench.hold = True
    bench.rewind(bench.seq("user two"))
    bench.commit_unheard()
    bench.hold = False
    bench.reopen()
    assert [e.type for e in bench.entries].count("rewound") == 1
    assert (bench.shown(), bench.queue) == (["user one", "assistant ONE"], [])


def test_a_commit_that_failed_is_tried_again() -> None:
    bench = talked("one", "two")
    bench.hold = True
    bench.rewind(bench.seq("user two"))
    bench.fail_append()
    bench.hold = False
    bench.feed(st.RetryDue())
    assert (bench.phase, bench.shown()) == (Phase.RESTING, ["user one", "assistant ONE"])


def test_what_comes_while_the_log_is_folded_anew_is_looked_at_after_it() -> None:
    bench = talked("one", "two")
    bench.hold = True
    bench.rewind(bench.seq("user two"))
    bench.commit()
    assert (bench.phase, bench.said) == (Phase.RESTORING, ["Restore"])
    bench.say("next")
    bench.feed(st.ParkingAsked())
    assert bench.phase is Phase.RESTORING
    bench.hold = False
    bench.restore()
    assert (bench.phase, bench.shown()) == (Phase.REQUESTING, ["user one", "assistant ONE", "user next"])


def test_a_log_that_cannot_be_read_lets_the_session_go_and_loses_nothing() -> None:
    bench = talked("one", "two")
    bench.hold = True
    bench.rewind(bench.seq("user two"))
    bench.commit()
    assert bench.feed(st.RestoreFailed("no answer")) == [do.Quit("store", "no answer")]
    bench.hold = False
    bench.reopen()
    assert bench.shown() == ["user one", "assistant ONE"]


@pytest.mark.parametrize("body", [{}, {"to": "x"}, {"to": 99}, {"to": 0}])
def test_a_malformed_rewind_that_was_imported_changes_nothing(body: dict[str, object]) -> None:
    bench = talked("one")
    bench.feed(st.MessagesArrived((Message("bad", "rewind", "user", dict(body), position=50),)))
    assert not any(isinstance(e, Rewound) for e in bench.entries)


def test_a_fork_has_read_the_files_that_its_history_shows_and_has_no_children() -> None:
    seen = ToolResult(3, 0, "c", "Read", "ok", "Read.", None, {"file": {"path": "/a", "digest": "1"}})
    failed = ToolResult(3, 1, "d", "Read", "error", "No.", None, {"file": {"path": "/b", "digest": "2"}})
    spawned = ToolResult(3, 2, "e", "SpawnPod", "ok", "Spawned.", None, {"pod_id": "c1", "name": "c1"})
    history = (ToolResultGroup((seen, failed, spawned)),)
    fork = SegmentStart("f", {}, "", (), 1, history, Origin("s", 9), seq=1)
    facts = pod_facts([fork], None)
    assert (list(facts.seen), facts.children, facts.next_number) == (["/a"], {}, 1)
    compacted = replace(fork, session="s", seq=10)
    assert pod_facts([compacted], None).seen == {}  # the same session has its own facts already
