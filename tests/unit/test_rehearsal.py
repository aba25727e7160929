"""The rehearsal of a run: it comes to its end over each wire, uses the real tools, and leaves nothing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from actors.protocol.config import PodConfig, Provider
from actors.protocol.tools import Children, Toolbox, ToolContext, ToolOutcome
from orchestrator import rehearsal
from orchestrator.rehearsal import STEPS, RehearsalFailed, rehearse
from orchestrator.wiring import tool_specs
from session_store.items import ToolCall
from tests.support.local_pods import LocalParts, LocalPods

TOOLS = tool_specs(("Read", "Shell"))


class Watched:
    """The toolbox, and what each call came to."""

    def __init__(self, inner: Toolbox, outcomes: list[ToolOutcome]) -> None:
        self._inner = inner
        self._outcomes = outcomes

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutcome:
        self._outcomes.append(await self._inner.run(call, context))
        return self._outcomes[-1]

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalParts:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return LocalPods(tmp_path, []).parts


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_each_step_reads_a_real_file_and_nothing_is_left(
    provider: Provider, parts: LocalParts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[ToolOutcome] = []
    real = parts.toolbox

    def watched(config: PodConfig, children: Children) -> Watched:
        return Watched(real(config, children), outcomes)

    monkeypatch.setattr(parts, "toolbox", watched)
    await rehearse(parts, provider, TOOLS)
    assert [(o.status, "a small note" in (o.content or "")) for o in outcomes] == [("ok", True)] * STEPS
    assert not [name for name in os.listdir(tmp_path) if name.startswith("polypod-rehearsal-")]


async def test_a_defect_in_it_is_told_and_no_more(parts: LocalParts, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(config: PodConfig, children: Children) -> Toolbox:
        raise KeyError("a defect")

    monkeypatch.setattr(parts, "toolbox", broken)
    with pytest.raises(RehearsalFailed, match="KeyError: 'a defect'"):
        await rehearse(parts, "openai", TOOLS)


async def test_one_that_does_not_end_is_broken_off_and_says_so(
    parts: LocalParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "LIMIT", 0.0)
    with pytest.raises(RehearsalFailed, match="TimeoutError"):
        await rehearse(parts, "openai", TOOLS)
