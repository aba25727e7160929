"""A terminal for tests: `attach` over a gateway, without a real screen. What it shows as rows, and as a stable SVG."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from orchestrator.cli.seam import Gateway
from orchestrator.tui.app import AttachApp
from orchestrator.tui.desk import Desk
from orchestrator.tui.prompt_box import PromptBox

UPDATE = "POLYPOD_UPDATE_SVG"
"""Set: the stored SVGs are written anew instead of compared."""

# What differs from run to run, or would be fetched from elsewhere.
_IDENT = re.compile(r"terminal-\d+")
_FONT = re.compile(r"\s*@font-face \{[^}]*\}")


@dataclass
class Terminal:
    app: AttachApp
    desk: Desk
    pilot: Pilot[None]

    @property
    def rows(self) -> list[str]:
        """The whole screen."""
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows)

    @property
    def box(self) -> PromptBox:
        return self.app.screen_stack[0].query_one(PromptBox)

    async def until(self, holds: Callable[[], bool], limit: float = 10.0) -> None:
        """Let the screen work until it holds."""
        try:
            async with asyncio.timeout(limit):
                while not holds():
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"it never held; the screen:\n{self.text}") from None

    async def sees(self, *words: str, limit: float = 10.0) -> None:
        await self.until(lambda: all(word in self.text for word in words), limit)

    async def write(self, text: str) -> None:
        """Type a text, key by key."""
        for char in text:
            await self.pilot.press("space" if char == " " else char)

    def svg(self, title: str) -> str:
        self.app.screen_stack[0].query_one(PromptBox).cursor_blink = False
        return _FONT.sub("", _IDENT.sub("terminal", self.app.export_screenshot(title=title)))


@asynccontextmanager
async def terminal(address: str, pod_id: str | None, size: tuple[int, int] = (90, 30)) -> AsyncIterator[Terminal]:
    desk = Desk(lambda: Gateway(address, timeout=10), "/ws")
    opened = None if pod_id is None else await asyncio.to_thread(desk.open, pod_id)
    app = AttachApp(desk, opened)
    async with app.run_test(size=size) as pilot:
        app.screen.query_one(PromptBox).cursor_blink = False
        yield Terminal(app, desk, pilot)


def check_svg(path: Path, svg: str) -> None:
    """The stored picture is what the screen shows now."""
    if os.environ.get(UPDATE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(svg, encoding="utf-8")
    stored = path.read_text(encoding="utf-8") if path.exists() else ""
    assert svg == stored, f"{path.name} is stale: look at the screen, then set {UPDATE}=1 and run this test again"
