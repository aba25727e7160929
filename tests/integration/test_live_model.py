"""The wires against a real model server. What the model says is not judged: it must come to typed outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from actors.models.registry import build_model
from actors.protocol.config import ModelSpec
from actors.protocol.model import ModelError, ModelReply
from session_store.entries import ToolSpec
from session_store.items import HistoryItem, Json, Text, ToolCall
from tests.support.llama_server import llama_server, parts
from tests.support.model_requests import READ, Live, assistant, request, results, system, user

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(parts() is None, reason="the local model server is not installed (requirements-live.lock)"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("llama") / "server.log") as url:
        yield url


def spec(server: str, provider: str = "openai", **more: Json) -> ModelSpec:
    url = f"{server}/v1" if provider == "openai" else server
    given = {"max_output_tokens": 60, "options": {"body": {"seed": 1, "temperature": 0.7}}, **more}
    return ModelSpec("live", provider, "smollm2", base_url=url, **given)  # type: ignore[arg-type]


async def ask(
    of: ModelSpec, history: Sequence[HistoryItem], tools: tuple[ToolSpec, ...] = (READ,)
) -> tuple[ModelReply, Live]:
    model, live = build_model(of, {}), Live()
    try:
        return await model.reply(request(model, history, tools=tools), live), live
    finally:
        await model.close()


CALLS = (ToolCall("same", "Read", {"path": "a.txt"}), ToolCall("same", "Read", None, "[", "bad"))
HISTORY = [
    user("Read the file a.txt and say what is in it. 日本語も 🎈"),
    assistant(2, Text("I look."), *CALLS),
    results(2, *CALLS, content="It says: hello."),
    system("<notification>The build is green.</notification>"),
]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_both_wires_with_tools_in_the_history(server: str, provider: str) -> None:
    reply, live = await ask(spec(server, provider), HISTORY)
    assert reply.items
    assert reply.stop in ("end", "tool_calls", "length")
    assert not reply.usage.estimated
    assert reply.usage.input > 50
    assert 0 < reply.usage.output <= 60
    assert live.blocks() == {i.block: i.text for i in reply.items if not isinstance(i, ToolCall)}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_X01_a_prompt_asked_again_is_cached_and_counts_the_same(server: str, provider: str) -> None:
    of = spec(server, provider)
    first, _ = await ask(of, HISTORY)
    again, _ = await ask(of, HISTORY)
    assert again.usage.input == first.usage.input
    assert again.usage.cache_read > 0


async def test_both_wires_count_one_prompt_alike(server: str) -> None:
    replies = [await ask(spec(server, provider), [user("Say hello.")], ()) for provider in ("openai", "anthropic")]
    counts = [reply.usage.input for reply, _ in replies]
    assert abs(counts[0] - counts[1]) <= 5


async def test_schema_mode_yields_valid_calls_or_answers(server: str) -> None:
    of = spec(server, tool_mode="schema", max_output_tokens=200)
    model = build_model(of, {})
    seen = []
    for number in range(1, 5):
        history = [user(f"Use the tool Read on the file number{number}.txt.")]
        try:
            reply = await model.reply(request(model, history, number=number), Live())
        except ModelError as error:
            seen.append(error.type)
            continue
        (item,) = reply.items
        seen.append(type(item).__name__)
        if isinstance(item, ToolCall) and reply.stop != "length":
            assert item.name == "Read"
            assert item.problem is None
            assert isinstance((item.arguments or {})["path"], str)
    await model.close()
    assert len(seen) == 4
    assert set(seen) <= {"ToolCall", "Text", "empty_reply"}


async def test_schema_mode_goes_on_after_a_result(server: str) -> None:
    reply, _ = await ask(spec(server, tool_mode="schema", max_output_tokens=200), HISTORY)
    assert len(reply.items) == 1


async def test_a_prompt_beyond_the_context_is_told_as_such(server: str) -> None:
    for provider in ("openai", "anthropic"):
        with pytest.raises(ModelError) as caught:
            await ask(spec(server, provider), [user("word " * 9000)])
        assert caught.value.type == "context_overflow"


async def test_T05_cancel_frees_the_server_at_once(server: str) -> None:
    model = build_model(spec(server, max_output_tokens=1500), {})
    tasks = [
        asyncio.create_task(model.reply(request(model, [user(f"Count to {n}000.")], tools=(), number=n), Live()))
        for n in range(1, 5)
    ]
    await asyncio.sleep(0.5)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=1)
    assert all(task.done() for task in tasks)
    await model.close()
    reply, _ = await asyncio.wait_for(ask(spec(server, max_output_tokens=5), [user("Hi")], ()), 10)
    assert reply.usage.output <= 5
