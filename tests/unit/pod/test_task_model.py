"""Both faces of the task list with random calls, kills, rewinds, compactions and forks, against a plain model."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.protocol.task_log import TaskFold, snapshot_item, tasks_of
from actors.protocol.tasks import TaskList, read_change
from actors.protocol.tools import ToolOutcome
from session_store.codec import decode_entry, encode_entry
from session_store.entries import AssistantItems, LogEntry, Rewound, SegmentStart, SystemItems, ToolResults
from session_store.items import ToolCall, ToolResult, ToolResultGroup
from tests.support.planning import answer

texts = st.sampled_from(["write", "test", "a\nb", "```", "status: completed", "日本語 🎌"])
taskids = st.integers(1, 6)
todo_ids = st.sampled_from(["a", "b", "1", "2", "3"])
maybe = st.none


def given_only(**values: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments, those left out that are None."""
    return st.fixed_dictionaries(values).map(lambda d: {k: v for k, v in d.items() if v is not None})


creates = given_only(subject=texts, description=maybe() | texts).map(lambda a: ("TaskCreate", a))
updates = given_only(
    taskid=taskids,
    status=maybe() | st.sampled_from(["pending", "inprogress", "completed", "deleted"]),
    subject=maybe() | texts,
    description=maybe() | texts,
).map(lambda a: ("TaskUpdate", a))
todo_statuses = st.sampled_from(["in_progress", "in_progress", "pending", "completed", "cancelled"])
items = given_only(id=todo_ids, content=maybe() | texts, status=maybe() | todo_statuses)
whole_items = given_only(id=todo_ids, content=texts, status=todo_statuses)
some_todos = st.lists(whole_items, min_size=1, max_size=4, unique_by=lambda i: i["id"]) | st.lists(items, max_size=3)
todos = given_only(todos=some_todos, merge=maybe() | st.booleans()).map(lambda a: ("todo", a))
reads = st.sampled_from([("TaskList", {}), ("todo", {})]) | taskids.map(lambda i: ("TaskGet", {"taskid": i}))
calls = st.one_of(creates, updates, todos, todos, reads)


@dataclass
class Plain:
    """What the list should be, in the most ordinary way."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    next_id: int = 1

    def call(self, name: str, given: dict[str, Any]) -> bool:
        """Whether it succeeds; a call that does not changes nothing."""
        before = deepcopy((self.rows, self.next_id))
        done = {"TaskCreate": self.create, "TaskUpdate": self.update, "todo": self.todo}.get(name, self.read)(given)
        if not done:
            self.rows, self.next_id = before
        return done

    def create(self, given: dict[str, Any]) -> bool:
        self._add(given["subject"], None)
        self.rows[-1]["description"] = given.get("description", "")
        return True

    def update(self, given: dict[str, Any]) -> bool:
        row = next((r for r in self.rows if r["taskid"] == given["taskid"]), None)
        if row is None or len(given) == 1:
            return False
        row.update({k: v for k, v in given.items() if k != "taskid"})
        return True

    def read(self, given: dict[str, Any]) -> bool:
        return "taskid" not in given or any(r["taskid"] == given["taskid"] for r in self.rows)

    def todo(self, given: dict[str, Any]) -> bool:
        sent, merge = given.get("todos"), given.get("merge", False)
        if sent is None:
            return True
        if len({i["id"] for i in sent}) < len(sent):
            return False
        listed, reserved = [], [i["id"] for i in sent]
        for item in sent:
            row = next((r for r in self.rows if self.todo_id(r) == item["id"]), None)
            if (row is None or not merge) and not {"content", "status"} <= set(item):
                return False
            if row is None:
                row = self._add(item["content"], item["id"], reserved)
            row["subject"] = item.get("content", row["subject"])
            row["status"] = {"in_progress": "inprogress"}.get(item.get("status"), item.get("status", row["status"]))
            listed.append(row)
        if not merge:
            self.rows = listed
        return sum(r["status"] == "inprogress" for r in self.rows) <= 1

    def todo_id(self, row: dict[str, Any]) -> str:
        return row["key"] or str(row["taskid"])

    def _add(self, subject: str, key: str | None, reserved: list[str] | None = None) -> dict[str, Any]:
        names = {r["key"] for r in self.rows} | set(reserved or ())
        while str(self.next_id) in names:
            self.next_id += 1
        row = {"taskid": self.next_id, "status": "pending", "subject": subject, "description": "", "key": key}
        self.next_id += 1
        self.rows.append(row)
        return row

    def as_tasks(self) -> list[dict[str, Any]]:
        words = {"cancelled": "deleted"}
        return [
            {"taskid": r["taskid"], "status": words.get(r["status"], r["status"]), "subject": r["subject"]}
            for r in self.rows
        ]

    def as_todos(self) -> list[dict[str, Any]]:
        words = {"deleted": "cancelled", "inprogress": "in_progress"}
        return [
            {"id": self.todo_id(r), "content": r["subject"], "status": words.get(r["status"], r["status"])}
            for r in self.rows
        ]


class TaskModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[LogEntry] = []
        self.fold = TaskFold()
        self.plain = Plain()
        self.before: dict[int, Plain] = {}
        """For each seq that no rewind took away: the model before that entry."""
        self.base = 0
        self.append(SegmentStart("s", {}, "", (), 1))

    @property
    def targets(self) -> list[int]:
        return [seq for seq in self.before if seq > self.base + 1]

    def append(self, entry: LogEntry) -> None:
        seq = len(self.log) + 1
        self.before[seq] = deepcopy(self.plain)
        stored = decode_entry(encode_entry(entry), seq, seq)
        self.log.append(stored)
        self.fold.apply(stored)

    def run(self, made: list[tuple[str, dict[str, Any]]]) -> list[ToolOutcome]:
        """The calls of one reply in call order, each over the list as the one before left it."""
        tasks, outcomes = self.fold.now.tasks, []
        for index, (name, given) in enumerate(made):
            outcome = answer(tasks, ToolCall("c", name, given), index)
            change = read_change((outcome.data or {}).get("tasks"))
            tasks = tasks if change is None else tasks.after(change)
            outcomes.append(outcome)
        return outcomes

    @rule(made=st.lists(calls, min_size=1, max_size=3), killed=st.booleans(), apart=st.booleans())
    def reply(self, made: list[tuple[str, dict[str, Any]]], killed: bool, apart: bool) -> None:
        """Calls that run and are committed, in one entry or each in its own; perhaps killed before, and run again."""
        self.append(AssistantItems(f"request-{len(self.log)}", ()))
        seq, outcomes = len(self.log), self.run(made)
        if killed:
            self.restart()
            assert self.run(made) == outcomes
        results = [
            ToolResult(seq, i, "c", made[i][0], o.status, o.summary, o.content, o.data) for i, o in enumerate(outcomes)
        ]
        for group in [[r] for r in results] if apart else [results]:
            self.append(ToolResults(tuple(group)))
            for r in group:
                assert self.plain.call(*made[r.index]) == (r.status == "ok"), (made[r.index], r)

    @rule(made=calls, status=st.sampled_from(["denied", "error", "interrupted", "not_run"]))
    def fail(self, made: tuple[str, dict[str, Any]], status: Any) -> None:
        """A call that came to nothing, whatever its result carries."""
        (outcome,) = self.run([made])
        self.append(ToolResults((ToolResult(1, 0, "c", made[0], status, "no", None, outcome.data),)))

    @rule()
    def restart(self) -> None:
        fold = TaskFold()
        for entry in self.log:
            fold.apply(entry)
        assert fold == self.fold
        self.fold = fold

    @precondition(lambda self: self.targets)
    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        to = data.draw(st.sampled_from(self.targets))
        self.plain = deepcopy(self.before[to])
        self.before = {seq: plain for seq, plain in self.before.items() if seq < to}
        self.append(Rewound(to))

    @rule(tail=calls)
    def compact(self, tail: tuple[str, dict[str, Any]]) -> None:
        """A new segment: calls of the retained tail, which are not done again, and the snapshot."""
        (outcome,) = self.run([tail])
        kept = ToolResultGroup((ToolResult(1, 0, "c", tail[0], "ok", "", None, outcome.data),))
        item = snapshot_item(self.fold.now.tasks, "tasks", f"snapshot-{len(self.log)}")
        self.append(SegmentStart("s", {}, "", (), 1, history=(kept,)))
        self.append(SystemItems((item,)))

    @rule()
    def fork(self) -> None:
        """Go on in a fork."""
        item = snapshot_item(self.fold.now.tasks, "todo", f"snapshot-{len(self.log)}")
        self.log, self.fold, self.before = [], TaskFold(), {}
        self.append(SegmentStart("f", {}, "", (), 1))
        self.append(SystemItems((item,)))
        self.base = len(self.log)

    @invariant()
    def both_faces_show_what_the_model_says(self) -> None:
        tasks: TaskList = self.fold.now.tasks
        shown = json.loads(answer(tasks, ToolCall("c", "TaskList", {})).content or "")
        assert shown["tasks"] == self.plain.as_tasks()
        assert json.loads(answer(tasks, ToolCall("c", "todo", {})).content or "")["todos"] == self.plain.as_todos()
        assert [t.description for t in tasks.tasks] == [r["description"] for r in self.plain.rows]
        assert tasks_of(self.log) == tasks
        assert len({t.taskid for t in tasks.tasks}) == len(tasks.tasks)


TestTaskModel = TaskModel.TestCase
TestTaskModel.settings = settings(max_examples=60, stateful_step_count=25)
