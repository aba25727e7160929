"""The script of docs/guides/watch-from-python.md does what the guide says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator.pod_events import Server
from tests.support.control_plane import RunningPlane
from tests.support.gateway import served

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "watch-from-python.md"
LINES = [
    {
        "match": {"request": 1},
        "text": "I look first.",
        "tool_calls": [{"name": "Glob", "arguments": {"pattern": "*"}}],
        "delay_ms": 100,
    },
    {
        "match": {"request": 2},
        "error": {"status": 503, "times": 1, "retry_after": 0.01},
        "text": "Two files: 設定 and a script 🙂.",
        "delay_ms": 100,
    },
]


async def test_the_guides_script_prints_what_the_guide_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, shown = re.findall(r"```(?:python|console)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    words: dict[str, Any] = {"__name__": "watch"}
    exec(compile(script, "watch.py", "exec"), words)
    plane = RunningPlane(tmp_path, LINES)
    async with served(plane) as on, asyncio.timeout(20):
        pod = (await on.http.post("/v1/pods", json={"name": "watched"})).json()["id"]
        watching = asyncio.create_task(words["watch"](Server(on.server.address), pod))
        while "[idle" not in (seen := capsys.readouterr().out):
            await asyncio.sleep(0.01)
        await on.http.post(f"/v1/pods/{pod}/messages", json={"content": "what is here?"})
        await watching
    printed = (seen + capsys.readouterr().out).splitlines()
    assert _entries(printed) == _entries(shown.splitlines())
    assert any(line.startswith("    attempt 2: overloaded") for line in printed)
    await plane.pods.close()


def _entries(lines: list[str]) -> list[str]:
    return [line for line in lines if re.match(r" *\d+ \w+$", line)]
