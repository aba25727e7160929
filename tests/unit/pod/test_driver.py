"""The Pod's shell: what it owes the machine is told, whatever comes in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from session_store.entries import AssistantItems, Invoke, RunEnd
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
