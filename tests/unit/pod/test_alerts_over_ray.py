"""Alerts on their way to the Directory: in batches, one call at a time, whatever becomes of a call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.pod.actor import RayDirectory
from actors.protocol.alerts import Alert


class Directory:
    """Stands for the actor's handle; its first call fails in a way nobody expects."""

    def __init__(self) -> None:
        self.kept: list[list[str]] = []
        self._broken = True
        self.alert = self

    def remote(self, alerts: list[dict[str, Any]]) -> asyncio.Future[None]:
        if self._broken:
            self._broken = False
            raise RuntimeError("a defect")
        self.kept.append([alert["alert_id"] for alert in alerts])
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answered.set_result(None)
        return answered


async def test_alerts_go_on_after_a_call_that_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = Directory()
    monkeypatch.setattr(RayDirectory, "handle", directory)
    actor = RayDirectory("a1", "directory", 5.0)

    async def tell(*names: str) -> BaseException | None:
        for name in names:
            actor.alert(Alert(name, "info", "code", "message", 0, "p"))
        assert actor._telling is not None
        return (await asyncio.gather(actor._telling, return_exceptions=True))[0]

    assert isinstance(await tell("lost"), RuntimeError)
    assert await tell("a", "b") is None
    assert directory.kept == [["a", "b"]]
