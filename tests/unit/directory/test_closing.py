"""Ends that the Directory writes: the same form and the same delivery as a Pod's own (law 10)."""

from dataclasses import replace

import pytest

from actors.protocol.compaction import read_record
from actors.protocol.config import ModelSpec, PodConfig
from orchestrator.directory.closer import CloseFailure, close_session
from session_store.backends.memory import MemoryStore
from session_store.codec import decode_entry
from session_store.entries import (
    AssistantItems,
    Extension,
    Invoke,
    LogEntry,
    PodEnd,
    RunEnd,
    SegmentStart,
    Served,
    UserInput,
)
from session_store.errors import StoreUnavailable
from session_store.items import Problem, Segment, ToolCall
from session_store.local import LocalStore
from session_store.messages import USER, Message
from session_store.requests import (
    Append,
    ClaimDirectory,
    Create,
    Deliver,
    Open,
    Parent,
    Pending,
    PodRow,
    Query,
    Read,
    ReplyT,
    Request,
)
from tests.support.store import Ticks

PARENT, CHILD = "parent", "child"


def start(session: str, parent: str | None = None) -> SegmentStart:
    config = PodConfig(
        session, PARENT, ModelSpec("m", "scripted"), "/ws", parent_id=parent, depth=int(parent is not None)
    )
    return SegmentStart(session, config.plain(), "be good", (), 1)


def prompt(message_id: str, sender: str = USER) -> Message:
    return Message(message_id, "prompt", sender, {"segments": [{"type": "text", "text": message_id}]})


class Tree:
    """A parent at work and its child, whose task is `task`."""

    def __init__(self) -> None:
        self.memory = MemoryStore(Ticks())
        self.store = LocalStore(self.memory)
        self.directory = self.do(ClaimDirectory()).epoch
        self.do(Create(PARENT, "t", "p", start(PARENT), (prompt("p"),), "root"))
        self.do(Open(PARENT, self.directory))
        self.append(PARENT, [Invoke("run-p", "prompt", (Served("p", USER),))], ("p",))
        child = Create(CHILD, "t", "c", start(CHILD, PARENT), (prompt("task", PARENT),), CHILD)
        self.do(replace(child, parent=Parent(PARENT, 1, "run-p")))

    def do(self, request: Request[ReplyT]) -> ReplyT:
        return self.memory.execute(request)

    def append(self, session: str, entries: list[LogEntry], consumes: tuple[str, ...] = ()) -> None:
        row = self.row(session)
        self.do(Append(session, row.epoch, row.head, f"b{row.head}", tuple(entries), consumes=consumes))

    def begin(self) -> None:
        """The child takes its task up and calls a tool."""
        self.do(Open(CHILD, self.directory))
        said = UserInput((Segment("text", "task"),), "task", PARENT)
        self.append(CHILD, [Invoke("run-c", "prompt", (Served("task", PARENT),)), said], ("task",))
        self.append(CHILD, [AssistantItems("r1", (ToolCall("c1", "Shell", {}), ToolCall("c2", "Read", {})))])

    def row(self, session: str) -> PodRow:
        return self.do(Query(ids=(session,))).rows[0]

    def log(self, session: str) -> list[LogEntry]:
        return [decode_entry(e.body, e.seq, e.ts) for e in self.do(Read(session)).entries]

    def told(self) -> list[dict]:
        """Events in the parent's inbox."""
        return [m.body["event"] for m in self.do(Pending(PARENT)).messages if m.kind == "pod_event"]


async def test_E04_a_pod_given_up_in_mid_call_has_its_calls_closed_and_its_parent_told() -> None:
    tree = Tree()
    tree.begin()
    hints = await close_session(tree.store, CHILD, tree.directory, "died", "signal 9")
    assert [e.type for e in tree.log(CHILD)][-2:] == ["tool_results", "run_end"]
    results, end = tree.log(CHILD)[-2:]
    assert [(r.index, r.status) for r in results.results] == [(0, "interrupted"), (1, "interrupted")]
    assert (end.outcome, end.error.type, end.error.message) == ("errored", "died", "signal 9")
    (event,) = tree.told()
    assert (event["kind"], event["error"]["type"], event["pod_id"]) == ("errored", "died", CHILD)
    assert event["event_id"] == f"{CHILD}:{end.seq}"
    assert hints == (PARENT,)
    row = tree.row(CHILD)
    assert (row.status, row.epoch, row.owned, row.open) == ("errored", 2, False, False)


async def test_a_pod_that_never_ran_answers_its_prompt_before_it_is_given_up() -> None:
    tree = Tree()
    await close_session(tree.store, CHILD, tree.directory, "died", "it would not start")
    assert [e.type for e in tree.log(CHILD)] == ["segment_start", "invoke", "user_input", "run_end"]
    assert [e["kind"] for e in tree.told()] == ["errored"]


async def test_L01_a_failed_start_returns_everything_and_tells_nobody() -> None:
    tree = Tree()
    await close_session(tree.store, CHILD, tree.directory, "failed_start", "no room")
    assert isinstance(tree.log(CHILD)[-1], PodEnd)
    assert tree.log(CHILD)[-1].reason == "failed_start"
    assert tree.told() == []
    row = tree.row(CHILD)
    assert (row.status, row.open) == ("ended", False)
    again = Create("child-2", "t", "c2", start("child-2", PARENT), (prompt("task2", PARENT),), CHILD)
    assert not tree.do(replace(again, parent=Parent(PARENT, 1, "run-p"))).existed  # the name is free


async def test_a_start_that_was_late_but_took_place_is_no_failed_start() -> None:
    tree = Tree()
    tree.begin()
    before = tree.log(CHILD)
    await close_session(tree.store, CHILD, tree.directory, "failed_start", "late")
    assert tree.log(CHILD) == before


async def test_L04_a_stop_that_the_pod_did_not_carry_out() -> None:
    tree = Tree()
    tree.begin()
    tree.do(Deliver(CHILD, Message("s", "stop", USER, {"reason": "enough"})))
    await close_session(tree.store, CHILD, tree.directory, "stopped", "it did not stop")
    assert [e.type for e in tree.log(CHILD)][-3:] == ["tool_results", "run_end", "pod_end"]
    assert [e.outcome for e in tree.log(CHILD) if isinstance(e, RunEnd)] == ["stopped"]
    assert [e["kind"] for e in tree.told()] == ["shut_down"]
    await close_session(tree.store, CHILD, tree.directory, "stopped", "again")
    assert [e["kind"] for e in tree.told()] == ["shut_down"]


async def test_a_stop_beats_a_give_up() -> None:
    tree = Tree()
    tree.begin()
    tree.do(Deliver(CHILD, Message("s", "stop", USER)))
    await close_session(tree.store, CHILD, tree.directory, "died", "signal 9")
    assert [e["kind"] for e in tree.told()] == ["shut_down"]


async def test_a_lost_answer_to_the_end_writes_it_once() -> None:
    tree = Tree()
    tree.begin()

    class Deaf(LocalStore):
        """Commits, but its first answer to an append is lost."""

        lost = False

        async def execute(self, request: Request[ReplyT]) -> ReplyT:
            reply = await super().execute(request)
            if isinstance(request, Append) and not self.lost:
                self.lost = True
                raise StoreUnavailable("lost")
            return reply

    await close_session(Deaf(tree.memory), CHILD, tree.directory, "died", "signal 9")
    assert [e.type for e in tree.log(CHILD)].count("run_end") == 1
    assert len(tree.told()) == 1


async def test_an_older_directory_ends_nothing() -> None:
    tree = Tree()
    tree.begin()
    tree.do(ClaimDirectory())
    with pytest.raises(CloseFailure, match="Directory epoch 1 is over"):
        await close_session(tree.store, CHILD, tree.directory, "died", "signal 9")
    assert tree.told() == []


async def test_L05_a_cancel_that_was_accepted_is_how_a_given_up_run_ends() -> None:
    tree = Tree()
    tree.begin()
    tree.do(Deliver(CHILD, prompt("queued", PARENT)))
    tree.do(Deliver(CHILD, Message("c", "cancel", PARENT, {"cascade": True})))
    await close_session(tree.store, CHILD, tree.directory, "died", "signal 9")
    assert [e.type for e in tree.log(CHILD)][-3:] == ["tool_results", "run_end", "withdrawn"]
    assert [e["outcome"] for e in tree.told()] == ["cancelled", "withdrawn"]
    assert tree.row(CHILD).status == "idle"


async def test_a_cancel_from_above_that_finds_nothing_to_end_is_taken_out_of_the_inbox() -> None:
    tree = Tree()
    tree.begin()
    await close_session(tree.store, CHILD, tree.directory, "died", "signal 9")
    before = tree.log(CHILD)
    tree.do(Deliver(CHILD, Message("c", "cancel", PARENT, {"cascade": True})))
    await close_session(tree.store, CHILD, tree.directory, "died", "signal 9")
    assert tree.log(CHILD) == before
    assert tree.do(Pending(CHILD)).messages == ()


async def test_a_pod_that_is_given_up_gets_no_run_ahead_of_an_accepted_rewind() -> None:
    tree = Tree()
    tree.begin()
    tree.append(CHILD, [RunEnd("run-c", "cancelled")])
    rewind = Message("back", "rewind", USER, {"to": 3, "expected_head": tree.row(CHILD).head})
    tree.do(Deliver(CHILD, rewind))
    tree.do(Deliver(CHILD, prompt("next")))
    await close_session(tree.store, CHILD, tree.directory, "died", "again and again")
    assert [e.type for e in tree.log(CHILD)][-2:] == ["run_end", "rewound"]
    assert tree.row(CHILD).status == "running"  # the prompt's turn comes now


async def test_an_order_to_compact_does_not_wake_a_given_up_pod_for_ever() -> None:
    tree = Tree()
    tree.begin()
    tree.append(CHILD, [RunEnd("run-c", "finished")])
    tree.do(Deliver(CHILD, Message("c", "compact", USER)))
    assert [row.id for row in tree.do(Query(ids=(CHILD,), needs_owner=True)).rows] == [CHILD]
    await close_session(tree.store, CHILD, tree.directory, "died", "again and again")
    last = tree.log(CHILD)[-1]
    assert isinstance(last, Extension)
    record = read_record(last)
    assert record is not None
    assert (record.error, record.orders) == (Problem("died", "again and again"), ("c",))
    assert not tree.do(Query(ids=(CHILD,), needs_owner=True)).rows
