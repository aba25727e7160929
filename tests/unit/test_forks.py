"""What a fork begins with, from its source's log alone."""

from dataclasses import replace
from typing import Any

import pytest

from actors.protocol.task_log import snapshot_item, tasks_of
from actors.protocol.tasks import Task, TaskChange, TaskList, TaskStatus
from orchestrator.forks import ForkOrder, fork_of, last_rest
from session_store.entries import (
    AssistantItems,
    Choice,
    ConfigChanged,
    Invoke,
    LogEntry,
    Origin,
    Question,
    QuestionClosed,
    Rewound,
    RunEnd,
    SegmentEnd,
    SegmentStart,
    SystemItems,
    ToolResults,
    UserInput,
)
from session_store.items import Segment, SystemItem, Text, ToolCall, ToolResult, ToolResultGroup, UserMessage
from session_store.requests import Fork
from session_store.restore import restore
from session_store.rows import Scope
from session_store.status import StatusFold

CONFIG: dict[str, Any] = {
    "name": "scout",
    "root_id": "boss",
    "parent_id": "boss",
    "depth": 2,
    "max_depth": 5,
    "detached": True,
    "workspace": "/ws",
    "scope": {"read": ["a"], "write": ["b"]},
    "model": {"name": "m"},
    "later": {"kept": True},
}
START = SegmentStart("s", CONFIG, "be good", (), 1)
ORDER = ForkOrder("s", "00000000-0000-7000-8000-0000000000ff", "m1", "t")


def said(text: str) -> tuple[LogEntry, ...]:
    """Four entries."""
    return (
        Invoke(f"r-{text}", "prompt"),
        UserInput((Segment("text", text),), text, "user"),
        AssistantItems(f"q-{text}", (Text(text.upper()),)),
        RunEnd(f"r-{text}", "finished"),
    )


def log(*entries: LogEntry) -> list[LogEntry]:
    return [replace(e, seq=seq) for seq, e in enumerate((START, *entries), 1)]


def shown(fork: Fork) -> list[str]:
    return [item.text for item in fork.start.history if isinstance(item, UserMessage)]


def forked(entries: list[LogEntry], at_seq: int | None = None) -> Fork:
    return fork_of(entries, len(entries) if at_seq is None else at_seq, ORDER)


@pytest.mark.parametrize(
    ("at_seq", "kept", "origin"),
    [(1, [], 1), (4, [], 1), (5, ["a"], 5), (8, ["a"], 5), (9, ["a", "b"], 9)],
)
def test_a_fork_keeps_up_to_the_last_end_of_a_run(at_seq: int, kept: list[str], origin: int) -> None:
    fork = forked(log(*said("a"), *said("b")), at_seq)
    assert (shown(fork), fork.start.origin, fork.more) == (kept, Origin("s", origin), ())


def test_its_config_is_the_sources_as_a_root_of_its_own() -> None:
    fork = forked(log(ConfigChanged({"model": {"name": "n"}}, "be better"), *said("a")))
    config = fork.start.config
    assert config == {
        **{k: v for k, v in CONFIG.items() if k != "parent_id"},
        "name": "scout-000000ff",
        "root_id": ORDER.session,
        "depth": 0,
        "max_depth": 3,
        "detached": False,
        "model": {"name": "n"},
    }
    assert (fork.start.session, fork.start.system_prompt, fork.name) == (ORDER.session, "be better", "scout-000000ff")
    assert (fork.scope, fork.message_id) == (Scope(("a",), ("b",)), "fork:s:m1")
    named = fork_of(log(), 1, replace(ORDER, name="mine"))
    assert (named.name, named.start.config["name"]) == ("mine", "mine")


def test_a_rewound_session_is_forked_as_it_is_now_and_as_it_was() -> None:
    entries = log(*said("a"), *said("b"), Rewound(7), *said("c"))  # the rewind is entry 10
    assert [shown(forked(entries, at)) for at in (9, 10, 13, 14)] == [["a", "b"], ["a"], ["a"], ["a", "c"]]
    assert forked(entries, 13).start.origin == Origin("s", 10)


def test_a_compacted_session_is_forked_as_it_is_now_and_as_it_was() -> None:
    summary = (UserMessage((Segment("text", "in short"),), "x", "user"),)
    snapshot = SystemItems((SystemItem("task_snapshot", "t", {}, "tasks"),))
    segment = SegmentStart("s", CONFIG, "be short", (), 1, summary, Origin("s", 5))
    entries = log(*said("a"), SegmentEnd(), segment, snapshot, *said("b"))  # the segment starts at 7
    assert [shown(forked(entries, at)) for at in (6, 7, 11, 12)] == [
        ["a"],
        ["in short"],
        ["in short"],
        ["in short", "b"],
    ]
    assert (len(forked(entries, 8).start.history), forked(entries, 11).start.origin) == (2, Origin("s", 8))


def test_a_fork_of_a_fork_begins_with_what_that_began_with() -> None:
    first = forked(log(*said("a")))
    second = fork_of([replace(first.start, seq=1)], 1, replace(ORDER, source=ORDER.session, session="g" * 36))
    assert second.start.history == first.start.history
    assert second.start.origin == Origin(ORDER.session, 1)


def planned(taskid: int, status: TaskStatus = "pending") -> tuple[LogEntry, ...]:
    """A run that changes the task list; four entries."""
    data = TaskChange((Task(taskid, status, f"task {taskid}"),), taskid + 1).data()
    made = ToolResults((ToolResult(3, 0, "c", "TaskUpdate", "ok", "Done.", None, data),))
    return (
        Invoke(f"r{taskid}", "prompt"),
        AssistantItems("q", (ToolCall("c", "TaskUpdate", {}),)),
        made,
        RunEnd("r", "finished"),
    )


@pytest.mark.parametrize(("at_seq", "ids"), [(5, [1]), (9, [1, 2]), (12, [1, 2]), (13, [1, 2, 3]), (14, [1])])
def test_a_fork_carries_the_task_list_as_of_its_point(at_seq: int, ids: list[int]) -> None:
    entries = log(*planned(1), *planned(2), *planned(3), Rewound(6))
    fork = forked(entries, at_seq)
    (snapshot,) = fork.more
    begun = [replace(e, seq=seq) for seq, e in enumerate((fork.start, snapshot), 1)]
    assert [t.taskid for t in tasks_of(begun).tasks] == ids
    assert tasks_of(begun).next_id == ids[-1] + 1
    again = fork_of(begun, 2, replace(ORDER, source=ORDER.session, session="g" * 36))
    assert tasks_of([replace(e, seq=seq) for seq, e in enumerate((again.start, *again.more), 1)]) == tasks_of(begun)


def test_a_fork_of_a_session_without_tasks_has_none_whatever_its_history_shows() -> None:
    old = SystemItems((snapshot_item(TaskList((Task(1, "pending", "old"),), 2), "tasks", "t"),))
    fork = forked(log(*said("a"), old, Rewound(6)))
    assert fork.more == ()
    assert tasks_of([replace(fork.start, seq=1)]) == TaskList()


def asked(kind: str) -> tuple[LogEntry, ...]:
    question = Question("q1", kind, "Which?", (Choice("a"), Choice("b", "the other")))  # type: ignore[arg-type]
    call = AssistantItems("q", (Text("Hm."), ToolCall("c1", "Shell", {}), ToolCall("c2", "Read", {})))
    done = ToolResults((ToolResult(4, 1, "c2", "Read", "ok", "Read."),))
    calls = (call, done) if kind == "permission" else (AssistantItems("q", (Text("Hm."),)),)
    return (
        Invoke("r", "prompt"),
        UserInput((Segment("text", "go"),), "m", "user"),
        *calls,
        question,
        RunEnd("r", "waiting_on_user"),
    )


def test_an_open_clarify_question_is_asked_again_under_an_id_of_its_own() -> None:
    fork = forked(log(*asked("clarify")))
    begun, question, rest = fork.more
    assert isinstance(question, Question)
    assert question.question_id != "q1"
    assert (question.question, question.choices) == ("Which?", (Choice("a"), Choice("b", "the other")))
    assert (begun.type, rest.type) == ("invoke", "run_end")
    fold = StatusFold()
    for entry in (fork.start, *fork.more):
        fold.apply(entry)
    assert (fold.resting, fold.suspended, fold.waiting) == ("waiting_on_user", False, True)


def test_an_answered_question_is_not_asked_again() -> None:
    entries = log(*asked("clarify"), QuestionClosed("q1", "answered", "user"), *said("a"))
    assert forked(entries).more == ()
    assert forked(entries, 7).more != ()  # the answer came, its run had not ended: the question is still open there


def test_a_permission_that_waits_is_closed_and_its_call_answered_as_not_run() -> None:
    fork = forked(log(*asked("permission")))
    assert fork.more == ()
    group = fork.start.history[-1]
    assert isinstance(group, ToolResultGroup)
    assert [(r.name, r.status) for r in group.results] == [("Shell", "not_run"), ("Read", "ok")]


@pytest.mark.parametrize("outcome", ["paused", "waiting_on_children", "errored", "cancelled"])
def test_every_other_rest_becomes_idle(outcome: Any) -> None:
    entries = log(*said("a")[:3], RunEnd("r-a", outcome))
    fork = forked(entries)
    assert (shown(fork), fork.more) == (["a"], ())


def test_a_withdrawn_prompt_is_not_in_a_fork() -> None:
    entries = log(*said("a"), *said("b")[:2], RunEnd("r-b", "withdrawn"))
    assert shown(forked(entries)) == ["a"]


def test_the_source_is_only_read_and_the_history_is_its_own() -> None:
    entries = log(*said("a"), *said("b"))
    before = list(entries)
    fork = forked(entries)
    assert entries == before
    assert list(fork.start.history) == restore(entries).history.items


def test_the_last_rest_of_a_log_that_never_rested_is_its_beginning() -> None:
    assert last_rest(log(*said("a")[:3])) == 1
    assert last_rest(log()) == 1
