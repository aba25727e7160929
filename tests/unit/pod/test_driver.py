"""The Pod's shell: what it owes the machine is told, whatever comes in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.models.scripted import ScriptedModel
from actors.protocol.live import LiveSink
from actors.protocol.model import ModelReply, ModelRequest
from actors.protocol.tools import ToolContext, ToolOutcome
from actors.tools.guard import GuardPool
from actors.tools.registry import ToolSetup, build_toolbox
from actors.tools.typed import Arguments, typed_tool
from session_store.entries import AssistantItems, Invoke, RunEnd, ToolResults
from session_store.local import LocalStore
from session_store.messages import USER, Message
from session_store.requests import Append, Deliver
from tests.support.local_pods import LocalPods

CALL: dict[str, Any] = {"delay_ms": 50, "tool_calls": [{"name": "Shell", "arguments": {"command": "sleep 30"}}]}


class Defective(LocalStore):
    """A client of the store with a defect of ours: it fails by an error that is none of the store's."""

    async def execute(self, request: Any) -> Any:
        if isinstance(request, Append):
            raise RuntimeError("a bug")
        return await super().execute(request)


class CancelBeside(LocalStore):
    """Tells of a cancel in the very moment in which an entry of this kind is committed."""

    def __init__(self, pods: LocalPods, kind: type[Any]) -> None:
        super().__init__(pods.memory)
        self._pods = pods
        self._kind = kind

    async def execute(self, request: Any) -> Any:
        reply = await super().execute(request)
        if isinstance(request, Append) and any(isinstance(e, self._kind) for e in request.entries):
            await super().execute(Deliver(request.session, Message("stop it", "cancel", USER)))
            self._pods.host.hint([request.session])
        return reply


@pytest.mark.parametrize("moment", [Invoke, AssistantItems])
async def test_T02_a_cancel_told_in_the_moment_of_a_commit_ends_the_run(tmp_path: Path, moment: type[Any]) -> None:
    pods = LocalPods(tmp_path, [CALL, {"text": "Done."}])
    pods.parts.store = CancelBeside(pods, moment)
    pod = await pods.create(None)
    await pods.send(pod, pods.prompt("go", "m1"))
    try:
        await pods.until(pod, "idle", 3.0)
        ends = [e.outcome for e in await pods.log(pod) if isinstance(e, RunEnd)]
        assert ends == (["withdrawn"] if moment is Invoke else ["cancelled"])
    finally:
        await pods.close()


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
