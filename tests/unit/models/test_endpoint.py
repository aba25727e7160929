"""A model behind an address, against a faulty server: retries, time limits, cancelling, what is told."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence

import pytest

from actors.models.registry import build_model
from actors.protocol.config import ModelSpec
from actors.protocol.model import Model, ModelError, ModelReply
from session_store.items import Json, Text, ToolCall
from tests.support.model_requests import Live, assistant, request, results, user
from tests.support.model_server import Answer, ModelServer, serve, text_events

KEY = "sk-test-0123456789abcdef"
FAST = {"retry": {"base": 0.01}, "timeouts": {"connect": 1, "first_byte": 0.3, "idle": 0.3, "total": 5}}


def model_for(server: ModelServer, **options: Json) -> Model:
    spec = ModelSpec("m", "openai", "served", base_url=server.url, api_key_env="THE_KEY", options={**FAST, **options})
    return build_model(spec, {"THE_KEY": KEY})


async def ask(server: ModelServer, live: Live | None = None, **options: Json) -> ModelReply:
    model = model_for(server, **options)
    try:
        return await model.reply(request(model), live or Live())
    finally:
        await model.close()


async def fails(answers: Sequence[Answer], live: Live | None = None, **options: Json) -> tuple[ModelError, ModelServer]:
    async with serve(answers) as server:
        with pytest.raises(ModelError) as caught:
            await ask(server, live, **options)
    return caught.value, server


GOOD = Answer(events=text_events("Hello, 世界!"))


async def test_a_reply_and_what_was_sent() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 90}}
    call = ToolCall("call_0", "Read", {"path": "/ä"})
    async with serve([Answer(events=text_events("Hello", [("Read", {"path": "/ä"})], usage))]) as server:
        model = model_for(server, body={"temperature": 0}, headers={"X-Team": "a"})
        live = Live()
        history = [user("go"), assistant(2, call), results(2, call)]
        reply = await model.reply(request(model, history), live)
        await model.close()
    assert reply.items == (Text("Hello", "q1.1.0"), call)
    assert (reply.usage.input, reply.usage.cache_read, reply.stop, reply.model) == (100, 90, "tool_calls", "served")
    assert 0 <= reply.latency < 2000
    assert live.blocks() == {"q1.1.0": "Hello"}
    assert [m["role"] for m in server.bodies[0]["messages"]] == ["system", "user", "assistant", "tool"]
    assert server.bodies[0]["temperature"] == 0
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert server.headers[0]["x-team"] == "a"


async def test_one_connection_serves_many_requests() -> None:
    async with serve([GOOD]) as server:
        model = model_for(server)
        for number in range(5):
            await model.reply(request(model, number=number + 1), Live())
        await model.close()
        assert len(server.connections) == 1


async def test_a_large_request_is_sent_whole() -> None:
    async with serve([GOOD]) as server:
        model = model_for(server)
        text = "あ" * 1_000_000
        await model.reply(request(model, [user(text)]), Live())
        await model.close()
        assert server.bodies[0]["messages"][1]["content"] == text


async def test_M08_429_then_503_then_success() -> None:
    answers = [
        Answer(429, {"Retry-After": "0.3"}, {"error": {"message": f"slow down, {KEY}"}}),
        Answer(503, {}, {"error": {"message": "busy"}}),
        GOOD,
    ]
    live = Live()
    async with serve(answers) as server:
        reply = await ask(server, live)
    assert (reply.attempts, reply.items) == (3, (Text("Hello, 世界!", "q1.3.0"),))
    assert server.times[1] - server.times[0] >= 0.3
    assert [attempt for attempt, _, _ in live.retries] == [2, 3]
    assert live.retries[0][1] >= 0.3
    assert "slow down" in live.retries[0][2]
    assert KEY not in repr(live)
    assert live.discards == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_M08_what_cannot_get_better_is_not_retried(status: int) -> None:
    error, server = await fails([Answer(status, {}, {"error": {"message": f"no, {KEY}"}})])
    assert len(server.bodies) == 1
    assert (error.status, error.broken) == (status, False)
    assert KEY not in f"{error} {error!r} {error.args} {error.detail} {error.__cause__} {error.__context__}"


async def test_M08_retries_are_bounded() -> None:
    live = Live()
    error, server = await fails([Answer(500)], live)
    assert (len(server.bodies), len(live.retries)) == (5, 4)
    assert (error.type, error.detail["attempts"]) == ("server", "5")
    error, server = await fails([Answer(500)], retry={"attempts": 2, "base": 0.01})
    assert len(server.bodies) == 2


async def test_M08_a_wait_beyond_the_budget_ends_the_request_at_once() -> None:
    started = time.monotonic()
    error, server = await fails([Answer(429, {"Retry-After": "3600"})])
    assert time.monotonic() - started < 2
    assert (error.type, error.detail["retry_after"], len(server.bodies)) == ("rate_limited", "3600", 1)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(before=30), "no reply within 0.3 s"),
        (Answer(first=30, events=text_events()), "no reply within 0.3 s"),
        (Answer(events=text_events(), hang_after=1), "stood still for 0.3 s"),
    ],
)
async def test_M09_each_phase_has_a_limit_and_is_retried_within_bounds(answer: Answer, says: str) -> None:
    live = Live()
    error, server = await fails([answer], live, retry={"attempts": 2, "base": 0.01})
    assert (error.type, error.broken, len(server.bodies)) == ("timeout", False, 2)
    assert says in error.message
    assert len(live.retries) == 1


async def test_M09_a_stream_that_stands_still_after_text_is_broken() -> None:
    live = Live()
    error, server = await fails([Answer(events=text_events("Hello"), hang_after=2)], live)
    assert (error.type, error.broken, len(server.bodies)) == ("timeout", True, 1)
    assert live.discards == 1


async def test_M09_an_attempt_has_a_limit_as_a_whole() -> None:
    timeouts = {"idle": 5, "total": 0.3}
    error, _ = await fails(
        [Answer(events=text_events("Hello"), hang_after=2)], timeouts=timeouts, retry={"attempts": 1}
    )
    assert "took more than 0.3 s" in error.message


async def test_M09_connecting_has_a_limit() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        filling = [socket.socket() for _ in range(4)]  # nobody accepts: further connections get no answer
        for one in filling:
            one.setblocking(False)
            one.connect_ex(address)
        options = {"timeouts": {"connect": 0.3}, "retry": {"attempts": 1}}
        spec = ModelSpec("m", "openai", "x", base_url=f"http://127.0.0.1:{address[1]}", options=options)
        model = build_model(spec, {})
        with pytest.raises(ModelError, match=r"no connection within 0\.3 s") as caught:
            await model.reply(request(model), Live())
        await model.close()
        for one in filling:
            one.close()
    assert caught.value.type == "timeout"


async def test_no_connection_is_retried_and_says_where_it_went() -> None:
    spec = ModelSpec("m", "openai", "x", base_url="http://127.0.0.1:9/v1", options=FAST)
    model = build_model(spec, {})
    live = Live()
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:9") as caught:
        await model.reply(request(model), live)
    await model.close()
    assert (caught.value.type, len(live.retries)) == ("connection", 4)


async def test_M01_a_cut_in_a_call_keeps_the_finished_text_and_no_call() -> None:
    events = text_events("Let me see.", [("Read", {"path": "/a"}), ("Read", {"path": "/b"})])
    error, server = await fails([Answer(events=events, cut_after=4)])
    assert (error.type, error.broken, len(server.bodies)) == ("broken_stream", True, 1)
    assert error.kept == (Text("Let me see.", "q1.1.0"),)


async def test_M10_an_end_without_a_finish_reason_is_no_reply() -> None:
    error, server = await fails([Answer(events=text_events("Hello")[:2], end=False)])
    assert (error.type, error.broken, len(server.bodies)) == ("broken_stream", True, 1)
    error, server = await fails([Answer(events=[])], retry={"attempts": 2, "base": 0.01})
    assert (error.type, error.broken, len(server.bodies)) == ("broken_stream", False, 2)


async def test_a_cut_after_the_finish_reason_loses_nothing() -> None:
    events = text_events("Hello")
    async with serve([Answer(events=events, cut_after=len(events) - 1)]) as server:
        reply = await ask(server)
    assert reply.items == (Text("Hello", "q1.1.0"),)
    assert reply.usage.estimated


async def test_T09_empty_replies_are_retried_within_bounds() -> None:
    error, server = await fails([Answer(events=text_events(""))])
    assert (error.type, len(server.bodies)) == ("empty_reply", 3)
    async with serve([Answer(events=text_events("")), GOOD]) as server:
        assert (await ask(server)).attempts == 2


@pytest.mark.parametrize(
    "stream",
    [
        b'data: {"error": {"message": "boom"}}\n\n',
        b"data: {not json\n\n",
        b"<html>a proxy's page</html>",
        b"data: " + b"x" * (5 << 20),
    ],
)
async def test_what_is_no_reply_is_an_error_of_its_type(stream: bytes) -> None:
    error, _ = await fails([Answer(stream=stream)], retry={"attempts": 1})
    assert error.type in ("server", "broken_stream")


async def test_a_json_body_instead_of_a_stream() -> None:
    error = b'{"error": {"message": "overloaded", "type": "overloaded_error"}}'
    json_type = {"Content-Type": "application/json"}
    caught, _ = await fails([Answer(stream=error, headers=json_type)], retry={"attempts": 1})
    assert caught.type == "overloaded"
    whole = b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}'
    async with serve([Answer(stream=whole, headers=json_type)]) as server:
        assert (await ask(server)).items == (Text("hi", "q1.1.0"),)


async def test_a_redirect_is_not_followed_with_the_key() -> None:
    error, server = await fails([Answer(307, {"Location": "http://127.0.0.1:1/"})])
    assert "base_url" in error.message
    assert len(server.bodies) == 1


async def cancelled(server: ModelServer, live: Live, after: float = 0.2) -> float:
    """Cancel a request after a while; gives the seconds until it is gone."""
    model = model_for(server, timeouts={"first_byte": 60, "idle": 60}, retry={"base": 30})
    task = asyncio.create_task(model.reply(request(model), live))
    await asyncio.sleep(after)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gone = time.monotonic() - started
    if server.open:
        server.closed.clear()
        await asyncio.wait_for(server.closed.wait(), 1)
    await model.close()
    return gone


@pytest.mark.parametrize(
    "answer",
    [
        Answer(before=60),
        Answer(first=60, events=text_events()),
        Answer(events=text_events("Hello"), hang_after=2),
    ],
)
async def test_T05_cancel_closes_the_connection_at_once(answer: Answer) -> None:
    async with serve([answer]) as server:
        assert await cancelled(server, Live()) < 0.5
        assert server.open == 0


async def test_T05_cancel_while_waiting_for_a_retry() -> None:
    live = Live()
    async with serve([Answer(503)]) as server:
        assert await cancelled(server, live) < 0.5
        await asyncio.sleep(0.2)
        assert len(server.bodies) == 1
    assert len(live.retries) == 1


async def test_T05_cancel_while_a_server_accepts_and_says_nothing() -> None:
    gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            pass
        gone.set()
        writer.close()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    spec = ModelSpec("m", "openai", "x", base_url=f"http://127.0.0.1:{port}/v1")
    model = build_model(spec, {})
    task = asyncio.create_task(model.reply(request(model), Live()))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 1)
    await asyncio.wait_for(gone.wait(), 1)
    await model.close()
    listener.close()
