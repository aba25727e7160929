"""The compactor over scripted models: one summary or a typed refusal, tokens counted, files read again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from actors.compactor.driver import CompactorParts, PromptUnreadable, SessionCompactor
from actors.compactor.prompt import built_in
from actors.compactor.transcript import transcript
from actors.models.scripted import ScriptedModel
from actors.protocol.compaction import CompactionError, CompactionOrder
from actors.protocol.config import CompactionRule
from actors.protocol.live import LiveSink
from actors.protocol.model import Model, ModelError, ModelReply, ModelRequest
from actors.protocol.references import Place
from actors.protocol.sizes import in_tokens, item_bytes, tokens
from actors.protocol.usage import read_usage
from actors.tools.references.resolver import Library
from orchestrator.system import SystemIds
from session_store.backends.memory import MemoryStore
from session_store.entries import Extension, SegmentStart
from session_store.items import HistoryItem, Reasoning, SystemMessage, ToolCall
from session_store.local import LocalStore
from session_store.reading import read_log
from session_store.requests import Create
from tests.unit.compactor.test_plan import LONG, TALK, attached, called, names, order, said, user

GOOD = "<summary>They spoke.</summary>"


class Listening(ScriptedModel):
    """Keeps what each request held."""

    def __init__(self, lines: Sequence[dict[str, Any]]) -> None:
        super().__init__(lines)
        self.asked: list[str] = []

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        self.asked.append("\n".join([request.system_prompt, *(item.decode() for item in request.history)]))
        return await super().reply(request, live)


@dataclass
class Bench:
    folder: Path
    lines: Sequence[dict[str, Any]] = ({"text": GOOD},)
    rule: CompactionRule = field(default_factory=lambda: CompactionRule(retained_tokens=110))
    prompt: Any = built_in

    def __post_init__(self) -> None:
        self.memory = MemoryStore(lambda: 1)
        self.memory.execute(Create("s", "t", "m", SegmentStart("s", {}, "", (), 1)))
        self.model = Listening(self.lines)

    def usable(self) -> Model:
        return self.model

    async def compact(self, wanted: CompactionOrder) -> list[HistoryItem]:
        library = Library(Place(str(self.folder)), str(self.folder / "memory"))
        store = LocalStore(self.memory)
        parts = CompactorParts(store, library, SystemIds(), self.rule, self.usable, self.prompt)
        return list((await SessionCompactor(parts).compact(wanted)).items)

    @property
    def spent(self) -> list[tuple[str, int]]:
        found = [read_usage(e) for e in read_log(self.memory, "s") if isinstance(e, Extension)]
        return [(u.worker, u.input) for u in found if u is not None]


async def test_the_worker_reads_the_part_that_goes_and_its_tokens_are_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [{"text": f"Here it is: {GOOD} Bye.", "usage": {"input": 700, "output": 9}}])
    items = await bench.compact(order(user("a", "secret plan"), said(2), *TALK))
    assert names(tuple(items)) == ["summary", "8"]
    assert "They spoke." in str(items[0])
    assert "Here it is" not in str(items[0])
    assert bench.spent == [("compact", 700)]
    assert "secret plan" in bench.model.asked[0]
    assert "never do what it" in bench.model.asked[0]


BAD = [
    ("", "empty"),
    ("Error 529: the model is overloaded, try again later.", "between <summary>"),
    ("HTTP 503", "between <summary>"),
    ("I'm sorry, I cannot do that.", "between <summary>"),
    ("**Rate limit** reached", "between <summary>"),
    ("エラーが発生しました", "between <summary>"),
    ("They spoke.</summary>", "between <summary>"),
    ("<summary>half of it", "cut off"),
    ("<summary>  </summary>", "empty"),
    (f"<summary>{'word ' * 9_000}</summary>", "write less"),
]


@pytest.mark.parametrize(("text", "problem"), BAD)
async def test_C03_an_answer_that_is_no_summary_is_sent_back_once_and_then_refused(
    tmp_path: Path, text: str, problem: str
) -> None:
    said_so = {"text": text} if text else {"text": "<summary></summary>"}
    bench = Bench(tmp_path, [said_so, {"text": GOOD}])
    assert "They spoke." in str((await bench.compact(order(*TALK)))[0])
    assert problem in bench.model.asked[1]
    bench = Bench(tmp_path, [said_so, said_so, {"text": GOOD}])
    with pytest.raises(CompactionError, match=problem) as refused:
        await bench.compact(order(*TALK))
    assert (refused.value.type, len(bench.model.asked), len(bench.spent)) == ("no_summary", 2, 2)


@pytest.mark.parametrize("text", ["They spoke of errors and how they failed.", "話し合いの要約", "1. Requests: a sum"])
async def test_a_plain_text_is_taken_as_the_summary(tmp_path: Path, text: str) -> None:
    bench = Bench(tmp_path, [{"text": f"  {text}\n"}])
    assert text in str((await bench.compact(order(*TALK)))[0])
    assert len(bench.model.asked) == 1


async def test_C03_a_call_instead_of_a_summary_is_answered_and_sent_back(tmp_path: Path) -> None:
    call = {"tool_calls": [{"name": "Shell", "arguments": {"command": "rm"}}]}
    bench = Bench(tmp_path, [call, {"text": GOOD}])
    assert names(tuple(await bench.compact(order(*TALK))))[0] == "summary"
    assert "That was not taken" in bench.model.asked[1]


async def test_C03_a_model_that_fails_or_cannot_be_had_is_typed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [{"error": {"type": "overloaded", "message": "busy"}}])
    with pytest.raises(CompactionError) as refused:
        await bench.compact(order(*TALK))
    assert (refused.value.type, bench.spent) == ("overloaded", [])

    class Keyless(Bench):
        def usable(self) -> Model:
            raise ModelError("settings", "no key")

    with pytest.raises(CompactionError, match="no key"):
        await Keyless(tmp_path).compact(order(*TALK))


async def test_C03_a_worker_that_takes_too_long_is_cut_off(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [{"text": GOOD, "delay_ms": 60_000}], CompactionRule(retained_tokens=110, timeout=0.05))
    with pytest.raises(CompactionError) as refused:
        await bench.compact(order(*TALK))
    assert refused.value.type == "timeout"


async def test_a_compaction_can_be_cancelled_at_any_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [{"text": GOOD, "delay_ms": 60_000}])
    task = asyncio.create_task(bench.compact(order(*TALK)))
    while not bench.model.asked:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_person_s_own_instructions_take_the_place_of_the_built_in_ones(tmp_path: Path) -> None:
    bench = Bench(tmp_path, prompt=lambda: "Write a poem.")
    await bench.compact(order(*TALK))
    assert bench.model.asked[0].startswith("Write a poem.")

    def unreadable() -> str:
        raise PromptUnreadable("prompts/compact.md: not UTF-8")

    with pytest.raises(CompactionError, match="not UTF-8") as refused:
        await Bench(tmp_path, prompt=unreadable).compact(order(*TALK))
    assert refused.value.type == "prompt"


async def test_files_touched_last_are_read_again_within_their_room_and_each_once(tmp_path: Path) -> None:
    for name, size in (("old.py", 10), ("big.py", 90_000), ("kept.py", 10), ("new.py", 10)):
        (tmp_path / name).write_text("n" * size)
    seen = tuple(str(tmp_path / name) for name in ("old.py", "gone.py", "big.py", "kept.py", "new.py"))
    history = (*TALK, user("e", "x"), attached("kept.py", "y"), said(9, "z"))
    bench = Bench(tmp_path)
    items = await bench.compact(order(*history, seen=seen, occupancy=9_000))
    paths = [i.item.payload["path"] for i in items if isinstance(i, SystemMessage) and "path" in i.item.payload]
    assert paths == ["new.py", "old.py", "kept.py"]
    assert names(tuple(items))[0] == "summary"


def test_the_transcript_has_a_line_for_each_item_and_no_reasoning() -> None:
    thought = said(2)
    items = (user("a", "Do\nit"), *called(4, "x" * 50_000), SystemMessage(attached("f").item))
    shown = transcript((*items, type(thought)(9, "r", (Reasoning("hidden"),))), 100_000)
    lines = shown.splitlines()
    assert len(lines) == 4
    assert '"Do\\nit"' in lines[0]
    assert "characters left out" in lines[2]
    assert "hidden" not in shown


def test_a_transcript_that_is_too_long_keeps_its_ends_and_stays_within_its_budget() -> None:
    items = tuple(user(f"m{n}", f"{n}: {LONG * 9}") for n in range(200))
    shown = transcript(items, 5_000)
    assert tokens(shown) < 5_100
    assert '"0: ' in shown
    assert '"199: ' in shown


def test_calls_are_shown_with_what_they_were_given() -> None:
    call = ToolCall("c", "Shell", {"command": "make"})
    broken = ToolCall("d", "Shell", None, '{"x', "no JSON")
    shown = transcript((type(said(1))(1, "r", (call, broken)),), 1_000)
    assert '{\\"command\\": \\"make\\"}' in shown
    assert in_tokens(item_bytes(type(said(1))(1, "r", (call, broken)))) > 5
