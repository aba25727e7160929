"""The reminder: before which requests it comes, asserted exactly (K01–K05)."""

from dataclasses import dataclass

import pytest

from actors.protocol.config import ReminderRule
from actors.protocol.tasks import Face
from orchestrator.events import SystemItemEvent
from orchestrator.gateway.views import entry_events
from session_store.entries import SystemItems
from session_store.messages import Message
from session_store.restore import restore
from tests.unit.pod.planner import Planner

DEFAULT = ReminderRule(8, 8)


@dataclass(frozen=True)
class Case:
    """`script`: a letter for each request's reply (see `planner.CALLS`); `reminded`: request numbers from 1."""

    script: str
    reminded: tuple[int, ...]
    rule: ReminderRule = DEFAULT
    face: Face = "tasks"


def check(case: Case) -> None:
    assert tuple(Planner(case.face, case.rule).play(case.script).reminded) == case.reminded


@pytest.mark.parametrize(
    "case",
    [
        Case("c" + "." * 24, (10, 18)),
        Case("..." + "c" + "." * 24, (13, 21)),
        Case("C" + "." * 24, (10, 18)),
        Case("c" + "t" * 24, (10, 18)),
        Case("ct.t..t" + "." * 18, (10, 18)),
        # a request whose stream breaks is made again and counts once; one that fails for good does not count
        Case("c...b....bb" + "." * 12, (10, 18)),
        Case("c..e...." + "." * 6 + "e" + "." * 8, (10, 18)),
        # one that broke off with text in the log is a request like others
        Case("c.B.B" + "." * 20, (10, 18)),
        Case("w" + "." * 24, (10, 18), face="todo"),
    ],
    ids=lambda c: c.script,
)
def test_K01_it_comes_before_request_k_plus_9_then_k_plus_17(case: Case) -> None:
    check(case)


def test_K01_a_request_that_fails_after_its_reminder_gets_no_second_one() -> None:
    planner = Planner().play("c" + "." * 8 + "ebeb" + "." * 12)
    assert planner.reminded == [10, 18]
    assert len(planner.reminders) == 2


@pytest.mark.parametrize(
    "case",
    [
        Case("c..l..g.." + "." * 10, (10, 18)),
        Case("c..x....x" + "." * 10, (10, 18)),
        Case("c..d....d" + "." * 10, (10, 18)),
        Case("c...u" + "." * 18, (14, 22)),
        Case("c...i" + "." * 18, (14, 22)),
        Case("c...c" + "." * 18, (14, 22)),
        Case("c" + "." * 7 + "u" + "." * 10, (18,)),
        Case("w..r..X.." + "." * 10, (10, 18), face="todo"),
        Case("w...w" + "." * 18, (14, 22), face="todo"),
    ],
    ids=lambda c: c.script,
)
def test_K02_only_a_successful_create_or_update_starts_the_count_anew(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "case",
    [
        Case("." * 30, ()),
        Case("ck" + "." * 30, ()),
        Case("cD" + "." * 30, ()),
        Case("wm" + "." * 30, (), face="todo"),
        Case("ck" + "." * 10 + "c" + "." * 12, (22,)),
        Case("c" + "." * 30, (), ReminderRule(0, 8)),
        Case("c" + "." * 30, (), ReminderRule(0, 0)),
        # the first reminder's cooldown is over, the new task still has its full eight
        Case("c" + "." * 8 + "k" + "." * 12 + "c" + "." * 12, (10, 32)),
    ],
    ids=lambda c: f"{c.script} {c.rule.requests}",
)
def test_K03_without_an_active_task_or_turned_off_there_is_none(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "case",
    [
        Case("c" + "." * 9, (5, 6, 7, 8, 9, 10), ReminderRule(3, 0)),
        Case("c" + "." * 9, (5, 6, 7, 8, 9, 10), ReminderRule(3, 1)),
        Case("c" + "." * 15, (5, 10, 15), ReminderRule(3, 5)),
        Case("c" + "." * 5, (3, 4, 5, 6), ReminderRule(1, 1)),
        # both must be over: eleven is six after the first, ten only two after the update
        Case("c....." + "u" + "." * 8, (4, 10), ReminderRule(2, 6)),
        Case("c......." + "u" + "." * 8, (4, 12), ReminderRule(2, 6)),
    ],
    ids=lambda c: f"{c.script} {c.rule}",
)
def test_both_thresholds_are_settings_of_the_session(case: Case) -> None:
    check(case)


def test_K04_notices_first_the_reminder_last_and_the_same_bytes_after_a_restore() -> None:
    planner = Planner(checked=True).play("c" + "." * 7)
    planner.deliver(Message("n1", "notify", "user", {"message": "one"}))
    planner.deliver(Message("n2", "notify", "user", {"message": "two"}))
    planner.event("child", 3)
    planner.hint()
    before = len(planner.entries)
    planner.play("..")
    assert planner.reminded == [10]
    committed = [e for e in planner.entries[before:] if isinstance(e, SystemItems)]
    assert [e.items[0].kind for e in committed] == ["notification", "notification", "pod_event", "reminder"]
    seqs = [e.seq for e in committed]
    assert seqs == list(range(seqs[0], seqs[0] + 4))
    events = [event for e in committed for event in entry_events(e)]
    assert [(e.kind, e.body) for e in events if isinstance(e, SystemItemEvent)] == [
        (e.items[0].kind, e.items[0].body) for e in committed
    ]
    held = planner.machine.state.history.items
    assert restore(planner.entries).history.items == held
    planner.reopen()
    assert planner.machine.state.history.items == held


def test_K04_in_the_first_gap_of_a_run_too() -> None:
    """The notice starts the run; the reminder that is due comes in the same commit, after it."""
    planner = Planner().play("c" + "." * 7)
    planner.reply("Done for now.")
    planner.notify("news")
    assert planner.story[-3:] == ["invoke notify", "notification news", f"reminder {planner.reminders[0].item_id}"]


@pytest.mark.parametrize("number", [2, 9, 10, 11, 17, 18, 19])
@pytest.mark.parametrize("script", ["c" + "." * 20, "c" + "t" * 20])
def test_K05_a_restart_before_any_request_changes_nothing(script: str, number: int) -> None:
    planner = Planner().play(script, restart_before=number)
    assert planner.reminded == [10, 18]
    assert len(planner.reminders) == 2


@pytest.mark.parametrize("committed", [False, True])
def test_K05_killed_with_the_reminder_on_its_way(committed: bool) -> None:
    """Committed or not, nobody has heard of it: the next incarnation has it exactly once."""
    planner = Planner(checked=True).play("c" + "." * 7)
    planner.reply("Said.")
    planner.number += 1
    planner.hold = True
    planner.say("another prompt")
    assert planner.flight is not None
    assert planner.flight.entries[-1].type == "system_items"
    if committed:
        planner.commit_unheard()
    planner.hold = False
    planner.reopen()
    assert len(planner.reminders) == 1
    assert planner.play("." * 9).reminded == [10, 18]


def test_it_names_the_active_tasks_in_the_words_of_the_task_tools() -> None:
    planner = Planner().play("Ci" + "." * 10)
    (item,) = planner.reminders
    assert item.payload == {
        "tasks": [
            {"taskid": 1, "status": "inprogress", "subject": "work"},
            {"taskid": 2, "status": "pending", "subject": "more"},
        ]
    }
    assert item.body.startswith("<system-reminder>\n")
    assert item.body.endswith("\n- 1 [inprogress] work\n- 2 [pending] more\n</system-reminder>")
    assert "TaskUpdate" in item.body
    assert "todo" not in item.body


def test_it_names_the_open_items_in_the_words_of_todo() -> None:
    planner = Planner("todo").play("w" + "." * 10)
    (item,) = planner.reminders
    assert item.payload == {"tasks": [{"taskid": "a", "status": "in_progress", "subject": "work"}]}
    assert item.body.endswith("\n- a [in_progress] work\n</system-reminder>")
    assert "Task" not in item.body
