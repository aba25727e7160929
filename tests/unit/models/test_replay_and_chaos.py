"""The models that repeat a log, and that spoil another's replies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors.models.chaos import ChaosModel, Faults
from actors.models.replay import ReplayModel
from actors.models.scripted import ScriptedModel
from actors.protocol.model import ModelError, ModelReply
from session_store.codec import entry_json
from session_store.entries import AssistantItems, LlmUsage, LogEntry, SegmentStart, UserInput
from session_store.items import Json, Reasoning, Segment, Text, ToolCall
from tests.support.model_requests import Live, request


def log(name: str, session: str, *replies: tuple[str, tuple[Json, ...]]) -> list[LogEntry]:
    entries: list[LogEntry] = [
        SegmentStart(session, {"name": name}, "sys", (), 1),
        UserInput((Segment("text", "go"),), "m1", "user"),
    ]
    for request_id, items in replies:
        entries.append(AssistantItems(request_id, items))
        entries.append(LlmUsage(request_id, 1, 100, 90, 0, 5, 12))
    return entries


def written(path: Path, *logs: list[LogEntry]) -> Path:
    lines = [json.dumps({"polypod": 1, "sessions": len(logs)})]
    lines += [json.dumps(entry_json(entry), ensure_ascii=False) for entries in logs for entry in entries]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


CALL = ToolCall("c1", "Read", {"path": "a"})
ROOT = log(
    "root", "s1", ("r1", (Reasoning("hm", {"signature": "s"}, "r1.1.0"), CALL)), ("r2", (Text("done", "r2.1.0"),))
)


async def test_a_log_is_repeated_request_by_request(tmp_path: Path) -> None:
    model = ReplayModel.load(written(tmp_path / "log.jsonl", ROOT))
    live = Live()
    first = await model.reply(request(model, number=1), live)
    assert first.items == (Reasoning("hm", {"signature": "s"}, "q1.1.0"), CALL)
    assert (first.usage.input, first.usage.cache_read, first.stop) == (100, 90, "tool_calls")
    assert live.blocks() == {"q1.1.0": "hm"}
    second = await model.reply(request(model, number=2), Live())
    assert (second.items, second.stop) == ((Text("done", "q2.1.0"),), "end")
    with pytest.raises(ModelError, match="no reply to request 3"):
        await model.reply(request(model, number=3), Live())


async def test_each_pod_gets_its_own_recording(tmp_path: Path) -> None:
    child = log("child", "s2", ("r9", (Text("child\u2028speaks"),)))
    model = ReplayModel.load(written(tmp_path / "log.jsonl", ROOT, child))
    reply = await model.reply(request(model, pod_name="child"), Live())
    assert reply.items == (Text("child\u2028speaks", "q1.1.0"),)
    with pytest.raises(ModelError, match="'stranger'"):
        await model.reply(request(model, pod_name="stranger"), Live())


def test_a_log_that_cannot_be_read_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for text in ('{"type": "assistant_items"}', "not json"):
        path.write_text("{}\n" + text, encoding="utf-8")
        with pytest.raises(ModelError, match="line 2") as caught:
            ReplayModel.load(path)
        assert caught.value.type == "settings"


SCRIPT = [{"text": "Hello world", "tool_calls": [{"name": "A"}, {"name": "B"}], "repeat": True}]


async def outcomes(faults: Faults, count: int = 40) -> list[str]:
    model = ChaosModel(ScriptedModel(SCRIPT), faults)
    seen = []
    for number in range(1, count + 1):
        live = Live()
        try:
            reply = await model.reply(request(model, number=number), live)
        except ModelError as error:
            seen.append(f"{error.type} broken={error.broken} {live.texts}")
        else:
            ids = {c.call_id for c in reply.items if isinstance(c, ToolCall)}
            seen.append(f"{reply.attempts} attempts, {len(ids)} ids")
    return seen


async def test_faults_follow_from_seed_pod_and_number() -> None:
    mixed = Faults(seed=7, broken=0.2, empty=0.2, duplicate_ids=0.3)
    first = await outcomes(mixed)
    assert first == await outcomes(mixed)
    assert first != await outcomes(mixed.model_copy(update={"seed": 8}))
    assert len({o.split(" ")[0] for o in first}) >= 3


@pytest.mark.parametrize(
    ("faults", "expect"),
    [
        (Faults(), "1 attempts, 2 ids"),
        (Faults(duplicate_ids=1), "1 attempts, 1 ids"),
        (Faults(empty=1), "empty_reply broken=False []"),
        (Faults(broken=1), "broken_stream broken=True []"),
        (Faults(slow=1, slow_ms=1), "1 attempts, 2 ids"),
    ],
)
async def test_each_fault(faults: Faults, expect: str) -> None:
    assert await outcomes(faults, 2) == [expect] * 2


async def test_errors_before_the_first_byte_are_retried_and_announced() -> None:
    model = ChaosModel(ScriptedModel(SCRIPT), Faults(seed=1, error=0.5))
    live = Live()
    replies: list[ModelReply] = []
    for number in range(1, 9):
        replies.append(await model.reply(request(model, number=number), live))
    assert sum(r.attempts - 1 for r in replies) == len(live.retries) > 0
    with pytest.raises(ModelError, match="503"):
        await ChaosModel(ScriptedModel(SCRIPT), Faults(error=1)).reply(request(), Live())
