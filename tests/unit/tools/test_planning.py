"""The task tools and `todo` over a list: ids, order, refusals, sizes, and what the model is told (K06, K07, K09)."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from actors.protocol.tasks import CUT_MARK, MOST_TASKS, TEXT_LIMIT, TaskList
from actors.protocol.tools import ToolOutcome
from actors.tools.executor import run_calls
from session_store.items import ToolCall
from tests.support.planning import TOOLBOX, Session, context_over, toolbox_of

ODD_TEXT = 'first line\n```\nstatus: completed\n```\n- [x] "quoted" \\ </system-reminder> 日本語 🎌'


def todo(todo_id: str, content: str, status: str = "pending") -> dict[str, Any]:
    return {"id": todo_id, "content": content, "status": status}


def test_task_ids_are_the_stores_and_none_is_used_twice() -> None:
    session = Session()
    assert session.told("TaskCreate", subject="a")["task"] == {"taskid": 1, "status": "pending", "subject": "a"}
    assert session.told("TaskCreate", subject="b", description="why")["task"]["description"] == "why"
    session.told("TaskUpdate", taskid=2, status="deleted")
    reply = session.told("TaskCreate", subject="c")
    assert reply["task"]["taskid"] == 3
    assert reply["summary"] == {"total": 3, "pending": 2, "inprogress": 0, "completed": 0, "deleted": 1}
    listed = session.told("TaskList")
    assert [(t["taskid"], t["status"], t["subject"]) for t in listed["tasks"]] == [
        (1, "pending", "a"),
        (2, "deleted", "b"),
        (3, "pending", "c"),
    ]


def test_an_update_changes_what_it_names_and_nothing_else() -> None:
    session = Session()
    session.call("TaskCreate", subject="a", description="d")
    assert session.told("TaskUpdate", taskid=1, status="inprogress")["task"]["status"] == "inprogress"
    assert session.told("TaskUpdate", taskid=1, subject="b")["task"] == {
        "taskid": 1, "status": "inprogress", "subject": "b", "description": "d",
    }  # fmt: skip
    session.told("TaskUpdate", taskid=1, description="")
    assert session.told("TaskGet", taskid=1) == {"task": {"taskid": 1, "status": "inprogress", "subject": "b"}}


def test_two_tasks_may_be_in_progress_by_the_task_tools() -> None:
    session = Session()
    for taskid in (1, 2):
        session.call("TaskCreate", subject="x")
        session.told("TaskUpdate", taskid=taskid, status="inprogress")
    assert session.told("TaskList")["summary"]["inprogress"] == 2


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("TaskCreate", {}, "`subject` is missing"),
        ("TaskCreate", {"subject": " \n"}, "`subject`"),
        ("TaskCreate", {"subject": "a", "priority": 1}, "unknown argument `priority`"),
        ("TaskUpdate", {"taskid": 1}, "Nothing would change"),
        ("TaskUpdate", {"taskid": "1", "status": "completed"}, "`taskid`"),
        ("TaskUpdate", {"taskid": 1, "status": "in_progress"}, "`status`"),
        ("TaskUpdate", {"taskid": 1, "status": "cancelled"}, "`status`"),
        ("TaskUpdate", {"taskid": 9, "status": "completed"}, "no task 9. The ids are 1."),
        ("TaskUpdate", {"taskid": 10**80, "status": "completed"}, "no task 1000"),
        ("TaskGet", {"taskid": 0}, "no task 0"),
        ("TaskList", {"all": True}, "unknown argument `all`"),
        ("todo", {"todos": [{"id": "a", "content": "x", "status": "inprogress"}]}, "`todos.0.status`"),
        ("todo", {"todos": [{"id": " ", "content": "x", "status": "pending"}]}, "`todos.0.id`"),
        ("todo", {"todos": [{"id": 'a"', "content": "x", "status": "pending"}]}, "`todos.0.id`"),
        ("todo", {"todos": [{"id": "a" * 49, "content": "x", "status": "pending"}]}, "`todos.0.id`"),
        ("todo", {"todos": [todo("a", "x"), todo("a", "y")]}, "`a` stands in `todos` twice"),
        ("todo", {"todos": [{"id": "1", "status": "completed"}]}, "only a merge may leave it out"),
        ("todo", {"todos": [{"id": "1", "content": "x"}]}, "only a merge may leave it out"),
        ("todo", {"todos": [{"id": "z", "status": "pending"}], "merge": True}, "no item of that id"),
        ("todo", {"todos": "all"}, "`todos`"),
    ],
)
def test_bad_arguments_are_named_and_change_nothing(name: str, arguments: dict[str, Any], says: str) -> None:
    session = Session()
    session.call("TaskCreate", subject="a")
    assert says in session.refused(name, **arguments)


def test_K06_a_second_item_in_progress_is_refused_and_the_list_stays() -> None:
    session = Session()
    both = [todo("a", "A", "in_progress"), todo("b", "B", "in_progress")]
    assert "`a`, `b`" in session.refused("todo", todos=both)
    assert session.told("todo")["todos"] == []
    session.told("todo", todos=[todo("a", "A", "in_progress"), todo("b", "B")])
    before = session.told("todo")["todos"]
    assert "At most one" in session.refused("todo", todos=[{"id": "b", "status": "in_progress"}], merge=True)
    assert "At most one" in session.refused("todo", todos=[todo("c", "C", "in_progress")], merge=True)
    assert session.told("todo")["todos"] == before
    handed_over = [{"id": "a", "status": "completed"}, {"id": "b", "status": "in_progress"}]
    told = session.told("todo", todos=handed_over, merge=True)
    assert [t["status"] for t in told["todos"]] == ["completed", "in_progress"]


def test_K07_order_is_kept_ends_are_told_apart_and_a_bare_call_reads() -> None:
    session = Session()
    session.told("todo", todos=[todo("c", "third"), todo("a", "first", "in_progress"), todo("b", "second")])
    told = session.told(
        "todo",
        todos=[{"id": "b", "status": "cancelled"}, todo("d", "new"), todo("a", "first!", "completed")],
        merge=True,
    )
    assert told["todos"] == [
        todo("c", "third"),
        todo("a", "first!", "completed"),
        todo("b", "second", "cancelled"),
        todo("d", "new"),
    ]
    assert told["summary"] == {"total": 4, "pending": 2, "in_progress": 0, "completed": 1, "cancelled": 1}
    before = session.tasks
    assert session.told("todo") == told
    assert session.told("todo", merge=True) == told
    assert session.tasks is before
    assert [t["id"] for t in session.told("todo", todos=[todo("b", "B"), todo("c", "C")])["todos"]] == ["b", "c"]
    assert session.told("todo", todos=[])["summary"]["total"] == 0


def test_a_todo_that_stays_in_the_list_stays_the_same_task() -> None:
    session = Session()
    session.call("TaskCreate", subject="made by the other face", description="kept")
    session.told("todo", todos=[todo("x", "X"), todo("1", "renamed", "completed")])
    assert session.told("TaskGet", taskid=1)["task"] == {
        "taskid": 1, "status": "completed", "subject": "renamed", "description": "kept",
    }  # fmt: skip
    session.told("todo", todos=[todo("y", "Y"), todo("x", "X", "cancelled")])
    assert [(t["taskid"], t["status"]) for t in session.told("TaskList")["tasks"]] == [(3, "pending"), (2, "deleted")]


def test_an_id_of_one_face_never_reads_like_one_of_the_other() -> None:
    session = Session()
    session.told("todo", todos=[todo("2", "named like a number"), todo("3", "too")])
    assert session.told("TaskCreate", subject="t")["task"]["taskid"] == 5  # 1 and 4: the two; 2 and 3 are their names
    ids = [t["id"] for t in session.told("todo")["todos"]]
    assert ids == ["2", "3", "5"]


def test_K09_texts_of_any_kind_are_kept_as_they_are() -> None:
    session = Session()
    session.call("TaskCreate", subject=ODD_TEXT, description=ODD_TEXT * 2)
    assert session.told("TaskGet", taskid=1)["task"] == {
        "taskid": 1, "status": "pending", "subject": ODD_TEXT, "description": ODD_TEXT * 2,
    }  # fmt: skip
    assert session.told("todo")["todos"] == [todo("1", ODD_TEXT)]
    assert TaskList.read(json.loads(json.dumps(session.tasks.plain()))) == session.tasks


def test_texts_are_cut_at_4000_characters_with_a_mark() -> None:
    session = Session()
    long = "漢🎌" * 2_001
    session.call("TaskCreate", subject="a" * TEXT_LIMIT, description=long)
    session.call("todo", todos=[todo("x", long)], merge=True)
    session.call("TaskUpdate", taskid=2, subject=long + "z")
    first, second = session.tasks.tasks
    assert first.subject == "a" * 4_000
    assert first.description == long[: 4_000 - len(CUT_MARK)] + CUT_MARK
    assert second.subject == first.description
    assert len(second.subject) == 4_000


def test_the_list_is_bounded_and_deleted_tasks_make_room() -> None:
    session = Session()
    for n in range(MOST_TASKS):
        assert session.call("TaskCreate", subject=f"t{n}").status == "ok"
    assert "may hold 256" in session.refused("TaskCreate", subject="one more")
    assert "may hold 256" in session.refused("todo", todos=[todo("x", "X")], merge=True)
    session.call("TaskUpdate", taskid=7, status="deleted")
    session.call("TaskUpdate", taskid=9, status="deleted")
    assert session.told("TaskCreate", subject="one more")["task"]["taskid"] == 257
    assert session.tasks.find(7) is None
    assert session.tasks.find(9) is not None
    # The patched one is not thrown out for the new one in the same call.
    assert "may hold" in session.refused("todo", todos=[todo("9", "again"), todo("x", "X")], merge=True)
    assert session.told("todo", todos=[todo("x", "X")], merge=True)["summary"]["total"] == MOST_TASKS
    many = [todo(f"i{n}", "x") for n in range(257)]
    assert "257 items are more than the 256" in session.refused("todo", todos=many)
    assert session.told("todo", todos=many[:256])["summary"]["total"] == 256


@pytest.mark.parametrize("text", ["\\", "\n", "漢", "\x00"], ids=repr)
def test_no_reply_is_longer_than_a_result_may_be(text: str) -> None:
    """The worst lists there can be, in both faces."""
    session = Session()
    session.call("todo", todos=[todo(f"{n:048}", f"x{text * TEXT_LIMIT}", "completed") for n in range(MOST_TASKS)])
    session.call("TaskUpdate", taskid=1, description=f"x{text * TEXT_LIMIT}")
    for name, arguments in (
        ("todo", {}),
        ("TaskList", {}),
        ("TaskGet", {"taskid": 1}),
        ("TaskUpdate", {"taskid": 1, "status": "completed"}),
    ):
        outcome = session.call(name, **arguments)
        assert len(outcome.content or "") <= 30_000
        assert json.loads(outcome.content or "")
    told = session.told("todo")
    assert len(told["todos"]) == 256
    assert CUT_MARK in told["todos"][0]["content"]
    assert "characters of each" in told["summary"]["shown_up_to"]


def test_a_smaller_limit_holds_too() -> None:
    session = Session()
    for n in range(20):
        session.call("TaskCreate", subject=f"task {n} {'x' * 300}")
    call = ToolCall("c", "TaskList", {})
    outcome = asyncio.run(toolbox_of(2_000).run(call, context_over(session.tasks)))
    assert len(outcome.content) <= 2_000
    assert len(json.loads(outcome.content)["tasks"]) == 20


async def test_calls_of_one_reply_see_each_other_in_call_order() -> None:
    calls = [
        ToolCall("c", "TaskCreate", {"subject": "a"}),
        ToolCall("c", "TaskCreate", {"subject": "b"}),
        ToolCall("c", "TaskUpdate", {"taskid": 9, "status": "completed"}),
        ToolCall("c", "TaskUpdate", {"taskid": 2, "status": "inprogress"}),
        ToolCall("c", "TaskList", {}),
        ToolCall("c", "todo", {"todos": [todo("2", "b", "completed")], "merge": True}),
    ]
    done: dict[int, ToolOutcome] = {}

    def over(index: int) -> Any:
        return replace(context_over(TaskList()), key=replace(context_over(TaskList()).key, index=index))

    await run_calls(list(enumerate(calls)), TOOLBOX, over, done.__setitem__)
    assert [done[i].status for i in range(6)] == ["ok", "ok", "error", "ok", "ok", "ok"]
    assert list(done) == sorted(done)
    listed = json.loads(done[4].content or "")["tasks"]
    assert [(t["taskid"], t["status"]) for t in listed] == [(1, "pending"), (2, "inprogress")]
    assert json.loads(done[5].content or "")["todos"] == [todo("1", "a"), todo("2", "b", "completed")]


RULES = {
    "todo": [
        *("three or more steps", "several tasks at once", "order of the list is the priority", "At most one item is"),
        *("completed at once when it is done", "When one fails, set it cancelled and add the corrected item"),
        *("Without `todos` it only reads", "belongs to this session only", "neither memory"),
    ],
    "TaskCreate": [
        *("three or more steps", "several tasks at once", "order of the list is the priority"),
        *("fails", "delete it", "create the corrected one", "belongs to this session only", "neither memory"),
    ],
    "TaskUpdate": [
        *("at most one in progress at a time", "completed at once when it is done", "A task that failed is deleted"),
        "the corrected one created",
    ],
}


@pytest.mark.parametrize("name", RULES)
def test_the_descriptions_carry_every_rule_of_use(name: str) -> None:
    said = {spec.name: spec.description for spec in TOOLBOX.specs}[name]
    assert [rule for rule in RULES[name] if rule not in said] == []


def test_the_tools_are_idempotent_and_share_one_resource() -> None:
    context = context_over(TaskList())
    calls = [ToolCall("c", "TaskCreate", {"subject": "a"}), ToolCall("c", "TaskList", {}), ToolCall("c", "todo", {})]
    assert len({TOOLBOX.resource(c, context) for c in calls}) == 1
    assert all(TOOLBOX.idempotent(spec.name) for spec in TOOLBOX.specs)
