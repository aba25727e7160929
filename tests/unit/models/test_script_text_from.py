"""`text_from`: a scripted reply that tells what the tools found."""

from __future__ import annotations

import pytest

from actors.models.script import script_line
from actors.models.scripted import ScriptedModel
from actors.protocol.model import ModelError
from session_store.items import (
    AssistantMessage,
    SystemItem,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResultGroup,
)
from tests.support.model_requests import Live, request, user


def turn(seq: int, *contents: str) -> tuple[AssistantMessage, ToolResultGroup]:
    calls = tuple(ToolCall(f"c{i}", "Shell", {"command": "x"}) for i in range(len(contents)))
    results = tuple(ToolResult(seq, i, f"c{i}", "Shell", "ok", "done", c) for i, c in enumerate(contents))
    return AssistantMessage(seq, f"q{seq}", calls), ToolResultGroup(results)


async def test_the_reply_holds_the_latest_results_in_call_order_below_its_text() -> None:
    model = ScriptedModel([{"text": "Found:", "text_from": "tool_results"}])
    notice = SystemMessage(SystemItem("notification", "n", {"message": "x"}, "not a result"))
    history = [user("go"), *turn(2, "old"), *turn(4, "  一 1\n", "two"), notice]
    reply = await model.reply(request(model, history), Live())
    assert [i.text for i in reply.items if isinstance(i, Text)] == ["Found:\n  一 1\n\ntwo"]


async def test_without_results_only_the_text_is_said() -> None:
    model = ScriptedModel([{"text": "Nothing.", "text_from": "tool_results"}])
    reply = await model.reply(request(model, [user("go")]), Live())
    assert [i.text for i in reply.items if isinstance(i, Text)] == ["Nothing."]


def test_another_source_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match="text_from"):
        script_line({"text_from": "elsewhere"}, "here")
