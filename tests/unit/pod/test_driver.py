"""The driver: what it owes the machine and the watchers, whatever comes at the same moment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from actors.models.scripted import ScriptedModel
from actors.protocol.live import LiveSink
from actors.protocol.model import ModelReply, ModelRequest
from actors.protocol.tools import ToolContext, ToolOutcome
from actors.tools.guard import GuardPool
from actors.tools.registry import ToolSetup, build_toolbox
from actors.tools.typed import Arguments, typed_tool
from session_store.entries import AssistantItems, Invoke, ToolResults
from session_store.local import LocalStore
from session_store.messages import USER, Message
from session_store.requests import Append, Deliver
from tests.support.local_pods import LocalPods


class OrderAfterCommit:
    """The store, through which an order comes in right behind the first commit that holds an entry of `kind`."""

    def __init__(self, pods: LocalPods, kind: type, order: str) -> None:
        self._pods, self._kind, self._order = pods, kind, order
        self._store: Any = pods.store
        pods.parts.store = self  # type: ignore[assignment]  # it stands in front of the real one

    async def execute(self, request: Any) -> Any:
        reply = await self._store.execute(request)
        if self._order and isinstance(request, Append) and any(isinstance(e, self._kind) for e in request.entries):
            order, self._order = self._order, ""
            await self._store.execute(Deliver(request.session, Message("order", order, USER, {})))  # type: ignore[arg-type]
            self._pods.host.hint([request.session])
        return reply


async def test_T02_a_cancel_that_comes_as_the_request_is_sent_off_is_honoured(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path, [{"text": "too late", "delay_ms": 60_000}])
    OrderAfterCommit(pods, Invoke, "cancel")
    pod = await pods.create("go")
    row = await pods.until(pod, "idle", 5)
    assert row.outcome == "withdrawn"
    await pods.close()


async def test_T04_a_cancel_that_comes_as_the_calls_are_begun_closes_them(tmp_path: Path) -> None:
    slow = {"name": "Shell", "arguments": {"command": "sleep 60"}}
    pods = LocalPods(tmp_path, [{"tool_calls": [slow, slow]}, {"text": "never"}])
    OrderAfterCommit(pods, AssistantItems, "cancel")
    pod = await pods.create("go")
    row = await pods.until(pod, "idle", 5)
    story = await pods.story(pod)
    assert row.outcome == "cancelled"
    assert [r["status"] for e in story if e["type"] == "tool_results" for r in e["results"]] == ["interrupted"] * 2
    await pods.close()


async def test_text_that_a_pause_cuts_off_is_discarded_for_watchers(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path, [{"text": "half of an answer " * 10, "delay_ms": 30_000}])
    pod = await pods.create("go")
    cursor, seen = 0, []
    while not any(event.type == "delta" for event in seen):
        _, cursor, more = await pods.host.watch(pod, cursor, 5)
        seen += more
    await pods.send(pod, Message("pause", "pause", USER, {}))
    await pods.until(pod, "paused")
    _, _, more = await pods.host.watch(pod, cursor, 1)
    assert [event.type for event in more if event.type != "delta"] == ["discard"]
    _, _, anew = await pods.host.watch(pod, 0, 0)
    assert [event.type for event in anew if event.type == "delta"] == []
    await pods.close()


async def test_G02_write_scope_moves_to_a_child_until_it_has_concluded(tmp_path: Path) -> None:
    spawn = {"name": "SpawnPod", "arguments": {"task": "t", "name": "kid", "scope": ["docs"]}}
    write = {"name": "Write", "arguments": {"path": "docs/a.md", "content": "mine"}}
    wait: dict[str, Any] = {"name": "WaitForPods", "arguments": {}}
    lines = [
        {"match": {"pod": "kid"}, "text": "done", "delay_ms": 300},
        {"tool_calls": [spawn]},
        {"tool_calls": [write, wait]},
        {"tool_calls": [write]},
        {"text": "end"},
    ]
    (tmp_path / "docs").mkdir()
    pods = LocalPods(tmp_path, lines)
    pod = await pods.create("go")
    row = await pods.until(pod, "idle", 10)
    story = await pods.story(pod)
    wrote = [r["status"] for e in story if e["type"] == "tool_results" for r in e["results"] if r["name"] == "Write"]
    assert (row.outcome, wrote) == ("finished", ["denied", "ok"])
    await pods.close()


class Defective(LocalStore):
    """A client of the store with a defect of ours: it fails by an error that is none of the store's."""

    async def execute(self, request: Any) -> Any:
        if isinstance(request, Append):
            raise RuntimeError("a bug")
        return await super().execute(request)


async def test_L07_a_defect_of_an_effect_ends_the_pods_shell_and_is_told(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path, [{"text": "Done."}])
    left: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

    async def tell(session: str, epoch: int, reason: str) -> None:
        left.set_result((session, reason))

    pods.parts.directory.left = tell  # type: ignore[method-assign]
    pods.parts.store = Defective(pods.memory)
    pod = await pods.create("go")
    try:
        assert await asyncio.wait_for(left, 3.0) == (pod, "tainted")
        assert (pods.host.tainted, pods.host.held()) == ("RuntimeError: a bug", [])
    finally:
        await pods.close()


class DefectiveFor(LocalStore):
    """The same defect, for one session's appends only."""

    def __init__(self, pods: LocalPods) -> None:
        super().__init__(pods.memory)
        self.session = ""

    async def execute(self, request: Any) -> Any:
        if isinstance(request, Append) and request.session == self.session:
            raise RuntimeError("a bug")
        return await super().execute(request)


async def test_L07_a_pod_beside_one_whose_shell_failed_is_not_blamed_for_it(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path, [{"text": "Done."}])
    left: dict[str, str] = {}

    async def tell(session: str, epoch: int, reason: str) -> None:
        left[session] = reason

    pods.parts.directory.left = tell  # type: ignore[method-assign]
    pods.parts.store = DefectiveFor(pods)
    good, bad = await pods.create("go", name="good"), await pods.create(None, name="bad")
    await pods.until(good, "idle")
    pods.parts.store.session = bad
    await pods.send(bad, pods.prompt("go", "m1"))
    while bad not in left:
        await asyncio.sleep(0.005)
    assert await pods.host.unbind(good) == (True, "")
    assert left == {bad: "tainted", good: "parked"}
    await pods.close()


class BrokenModel(ScriptedModel):
    """An adapter with a defect: its first request fails by an error that is none of the model's."""

    failed = False

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        if not self.failed:
            self.failed = True
            raise KeyError("choices")
        return await super().reply(request, live)


async def test_L07_a_defect_of_a_model_adapter_ends_the_run_and_the_next_prompt_is_taken(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path, [])
    pods.parts.models["scripted"] = BrokenModel([{"text": "never asked for"}, {"text": "Fine."}])
    pod = await pods.create("go")
    row = await pods.until(pod, "errored")
    assert row.error == {"type": "internal", "message": "KeyError: 'choices'"}
    await pods.send(pod, pods.prompt("again", "m2"))
    assert (await pods.until(pod, "idle")).outcome == "finished"
    await pods.close()


async def test_L07_a_defect_of_a_tool_is_its_calls_error_and_the_run_goes_on(tmp_path: Path) -> None:
    both = [{"name": name, "arguments": {"path": "a.txt"}} for name in ("Broken", "Read")]
    pods = LocalPods(tmp_path, [{"tool_calls": both}, {"text": "Told."}])
    (tmp_path / "a.txt").write_text("hello\n")
    pods.parts.toolbox = with_broken_tool(pods.parts.toolbox)  # type: ignore[method-assign]
    pod = await pods.create("go")
    assert (await pods.until(pod, "idle")).outcome == "finished"
    results = [r for e in await pods.log(pod) if isinstance(e, ToolResults) for r in e.results]
    told = {r.name: (r.status, r.content) for r in results}
    assert told["Broken"] == ("error", "Broken failed: RuntimeError: a bug")
    assert told["Read"][0] == "ok"
    await pods.close()


class Broken(Arguments):
    says = "Has a defect."
    path: str


def with_broken_tool(build: Any) -> Any:
    """The same toolbox, with a tool in it that has a defect."""

    async def broken(arguments: Broken, context: ToolContext) -> ToolOutcome:
        raise RuntimeError("a bug")

    tool = typed_tool(Broken, broken)
    return lambda config, children: build_toolbox(
        (*config.tools, tool.spec.name), children, GuardPool(), ToolSetup(more=(tool,))
    )
