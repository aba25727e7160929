"""What is kept and what is summarised: examples, and any history at all."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from actors.compactor.driver import shorter
from actors.compactor.plan import FILE_TOKENS, SUMMARY_TOKENS, Plan, plan, retained
from actors.protocol.compaction import NO_PROGRESS, CompactionError, CompactionOrder
from actors.protocol.sizes import in_tokens, item_bytes
from actors.protocol.system_items.file_attachment import FILE_ATTACHMENT, FileAttachment
from actors.protocol.system_items.notification import NOTIFICATION, Notification
from actors.protocol.system_items.summary import SUMMARY, Summary
from actors.protocol.task_log import snapshot_item
from actors.protocol.tasks import Task, TaskList
from session_store.items import (
    AssistantMessage,
    HistoryItem,
    Segment,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResultGroup,
    UserMessage,
)

LONG = "x" * 330
"""About 100 tokens."""


def user(name: str, text: str = LONG) -> UserMessage:
    return UserMessage((Segment("text", text),), name, "user")


def said(seq: int, text: str = LONG) -> AssistantMessage:
    return AssistantMessage(seq, f"r{seq}", (Text(text),))


def called(seq: int, *texts: str) -> tuple[AssistantMessage, ToolResultGroup]:
    """A reply with calls side by side, and their results."""
    calls = tuple(ToolCall(f"c{n}", "Look", {}) for n in range(len(texts)))
    results = (ToolResult(seq, n, f"c{n}", "Look", "ok", "Looked.", text) for n, text in enumerate(texts))
    return AssistantMessage(seq, f"r{seq}", calls), ToolResultGroup(tuple(results))


def attached(path: str, text: str = LONG) -> SystemMessage:
    return SystemMessage(FILE_ATTACHMENT.item(path, FileAttachment(path, text)))


def noticed(text: str = LONG) -> SystemMessage:
    return SystemMessage(NOTIFICATION.item(f"n-{text[:5]}", Notification(text)))


def order(*history: HistoryItem, **more: Any) -> CompactionOrder:
    size = in_tokens(sum(map(item_bytes, history)))
    return CompactionOrder("c", "s", "rest", history, 0, more.pop("occupancy", size), **more)


TALK = (user("a"), said(2), user("b"), said(4), user("c"), said(6), user("d"), said(8))


def names(items: tuple[HistoryItem, ...]) -> list[str]:
    return [_name(item) for item in items]


def _name(item: HistoryItem) -> str:
    match item:
        case UserMessage():
            return item.message_id
        case AssistantMessage():
            return str(item.seq)
        case ToolResultGroup():
            return "results"
        case SystemMessage():
            return item.item.kind


@pytest.mark.parametrize(
    ("retained_tokens", "kept"), [(0, []), (110, ["8"]), (220, ["d", "8"]), (330, ["6", "d", "8"])]
)
def test_the_tail_is_as_long_as_its_size_allows(retained_tokens: int, kept: list[str]) -> None:
    planned = plan(order(*TALK), retained_tokens)
    assert names(planned.kept) == kept
    assert names(planned.summarised + planned.kept) == names(TALK)


def test_without_a_setting_the_tail_is_a_quarter_of_the_limit_and_at_most_20k() -> None:
    assert retained(order(*TALK, limit=600), None) == 150
    assert retained(order(*TALK, occupancy=1_000_000), None) == 20_000
    assert retained(order(*TALK), 7) == 7


@pytest.mark.parametrize("retained_tokens", range(0, 700, 30))
def test_C01_the_cut_moves_off_calls_and_parallel_results(retained_tokens: int) -> None:
    history = (user("a"), *called(2, LONG, LONG), *called(4, LONG), *called(6, "", "", LONG), said(8, "Done."))
    planned = plan(order(*history), retained_tokens)
    check_pairs(planned.kept)
    check_pairs(planned.summarised)


def test_C02_what_must_be_kept_is_over_the_limit() -> None:
    history = (user("a"), said(2), user("big", LONG * 20))
    with pytest.raises(CompactionError, match=r"what must be kept has about 2\d{3} tokens, of 500") as refused:
        plan(order(*history, limit=500, pinned=frozenset({"big"})), 100)
    assert refused.value.type == NO_PROGRESS


def test_C02_nothing_but_what_is_kept() -> None:
    with pytest.raises(CompactionError, match="nothing to summarise"):
        plan(order(*TALK, occupancy=50_000), 10_000)


def test_C02_a_summary_alone_is_not_summarised_again() -> None:
    head = SystemMessage(SUMMARY.item("s", Summary(LONG * 5, 3)))
    with pytest.raises(CompactionError, match="nothing to summarise"):
        plan(order(head, attached("a.py"), user("d"), said(8)), 220)
    planned = plan(order(head, attached("a.py"), *TALK), 220)
    assert names(planned.summarised)[:3] == ["summary", "file_attachment", "a"]


def test_what_an_earlier_compaction_put_first_is_never_kept_as_it_is() -> None:
    tasks = SystemMessage(snapshot_item(TaskList((Task(1, "pending", "x"),), 2), "tasks", "t"))
    summary = SystemMessage(SUMMARY.item("s", Summary("short", 3)))
    planned = plan(order(tasks, summary, user("a", LONG * 10), said(2)), 300)
    assert names(planned.kept) == ["2"]


def test_C06_a_kept_prompt_keeps_what_it_brought_along_and_a_summarised_one_is_referred_to() -> None:
    history = (user("a"), attached("one.py"), said(2), said(4), said(6), user("b"), attached("two.py"), said(8))
    planned = plan(order(*history), 350)
    assert names(planned.kept) == ["b", "file_attachment", "8"]
    assert planned.attached == ("one.py",)


def test_prompts_of_the_run_at_work_stay_with_their_attachments_each_once() -> None:
    history = (user("old"), said(2), user("now"), attached("one.py"), *called(4, LONG * 4), *called(6, LONG))
    planned = plan(order(*history, pinned=frozenset({"now"})), 380)
    assert names(planned.kept) == ["now", "file_attachment", "6", "results"]
    assert names(planned.summarised) == ["old", "2", "4", "results"]


def test_Q05_everything_from_the_open_question_on_stays_word_for_word() -> None:
    asked = (AssistantMessage(14, "r", (ToolCall("c", "clarify", {"question": LONG}),)), *called(14, LONG)[1:])
    planned = plan(order(*TALK, *asked, noticed(), question=14), 0)
    assert planned.kept == (*asked, noticed())


def test_the_new_history_holds_everything_once_and_in_order() -> None:
    tasks = snapshot_item(TaskList((Task(1, "pending", "x"),), 2), "tasks", "t")
    wanted = order(*TALK, tasks=tasks, children=("c1 (id): at work",), through=9)
    made = shorter(wanted, plan(wanted, 110), "All of it.", (attached("a.py", "text"),))
    assert names(made.items) == ["task_snapshot", "summary", "file_attachment", "8"]
    assert (made.summarised, made.retained) == (7, 1)
    summary = made.items[1]
    assert isinstance(summary, SystemMessage)
    for words in ("All of it.", "up to entry 9", "c1 (id): at work"):
        assert words in summary.item.body


def test_C02_a_summary_that_makes_nothing_shorter_is_refused() -> None:
    wanted = order(*TALK, limit=700)
    with pytest.raises(CompactionError, match="would have about") as refused:
        shorter(wanted, plan(wanted, 110), LONG * 8, ())
    assert refused.value.type == NO_PROGRESS


# --- any history ---

TEXTS = some.integers(0, 600).map(lambda size: "x" * size)


@some.composite
def histories(draw: Any) -> tuple[HistoryItem, ...]:
    items: list[HistoryItem] = []
    if draw(some.booleans()):
        items.append(SystemMessage(SUMMARY.item("s", Summary(draw(TEXTS), 1))))
    for n in range(draw(some.integers(0, 14))):
        match draw(some.sampled_from(("user", "said", "called", "noticed"))):
            case "user":
                items.append(user(f"m{n}", draw(TEXTS)))
                items += [attached(f"f{n}.{k}", draw(TEXTS)) for k in range(draw(some.integers(0, 2)))]
            case "said":
                items.append(said(n, draw(TEXTS)))
            case "called":
                items += called(n, *draw(some.lists(TEXTS, min_size=1, max_size=4)))
            case _:
                items.append(noticed(draw(TEXTS)))
    return tuple(items)


@given(
    histories(),
    some.data(),
    some.one_of(some.none(), some.integers(0, 2_000)),
    some.integers(0, 2_000),
    some.integers(0, 300),
)
def test_any_history_is_cut_between_whole_units_within_its_sizes_or_refused(
    history: tuple[HistoryItem, ...], data: Any, retained_tokens: int | None, limit: int, frame: int
) -> None:
    prompts = [i.message_id for i in history if isinstance(i, UserMessage)]
    asked = [i.seq for i in history if isinstance(i, AssistantMessage) and i.calls]
    pinned = frozenset(data.draw(some.lists(some.sampled_from(prompts), max_size=2)) if prompts else ())
    question = data.draw(some.sampled_from([None, *asked]))
    wanted = replace(order(*history, pinned=pinned, question=question, limit=limit), frame=frame)
    wanted = replace(wanted, occupancy=wanted.occupancy + frame)
    with suppress(CompactionError):  # typed, and nothing else; what follows is not reached
        planned = plan(wanted, retained_tokens)
        check_plan(wanted, planned, retained_tokens)


def check_plan(wanted: CompactionOrder, planned: Plan, retained_tokens: int | None) -> None:
    check_pairs(planned.kept)
    assert sorted(map(id, planned.kept + planned.summarised)) == sorted(map(id, wanted.history))  # each once
    assert list(planned.kept) == [i for i in wanted.history if any(i is k for k in planned.kept)]  # in order
    kept_prompts = {i.message_id for i in planned.kept if isinstance(i, UserMessage)}
    assert wanted.pinned <= kept_prompts
    if wanted.question is not None:
        places = [n for n, i in enumerate(wanted.history) if getattr(i, "seq", None) == wanted.question]
        assert planned.kept[-len(wanted.history) + places[0] :] == wanted.history[places[0] :]
    free = not wanted.pinned and wanted.question is None
    if free:
        assert in_tokens(sum(map(item_bytes, planned.kept))) <= retained(wanted, retained_tokens)
    assert planned.kept_size < planned.goal <= wanted.occupancy
    assert planned.summary_size <= SUMMARY_TOKENS
    assert planned.file_size <= FILE_TOKENS
    assert planned.kept_size + planned.summary_size + planned.file_size <= planned.goal


def check_pairs(items: tuple[HistoryItem, ...]) -> None:
    """No call without its results right behind it, no results without their calls, no attachment alone."""
    for before, item in zip((None, *items), (*items, None), strict=True):
        wants = isinstance(before, AssistantMessage) and bool(before.calls)
        assert wants == isinstance(item, ToolResultGroup)
        if isinstance(item, ToolResultGroup):
            assert isinstance(before, AssistantMessage)
            assert [(r.call_seq, r.index) for r in item.results] == [(before.seq, n) for n in range(len(before.calls))]
