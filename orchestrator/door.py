"""The references of prompts at the door: looked at on this machine's disk before anything is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from actors.protocol.references import Completions, Place, Sigil, Unresolved, malformed
from actors.tools.offload import in_thread
from actors.tools.references.completing import complete
from actors.tools.references.resolver import Library
from orchestrator.pods import place_of
from orchestrator.ports import NewPod
from orchestrator.runtime import RuntimeSettings
from orchestrator.sigils import written
from session_store.items import Segment

LOOK_LIMIT = 5.0
"""Seconds that the door looks at the disk for one request; what it has not found out by then, the run does."""
AT_ONCE = 4
"""Looks at a time, so that a slow disk does not keep the gateway's threads from all else."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DiskDoor:
    """Implements `PromptDoor` for a home. `home` is hidden from references like from tools."""

    settings: RuntimeSettings
    home: Path
    _slots: asyncio.Semaphore

    @classmethod
    def of(cls, settings: RuntimeSettings, home: Path) -> DiskDoor:
        return cls(settings, home, asyncio.Semaphore(AT_ONCE))

    def place(self, new: NewPod) -> Place | None:
        return place_of(new, self.settings)

    async def refusal(self, place: Place, segments: Sequence[Segment]) -> Unresolved | None:
        if (wrong := malformed(segments)) is not None:
            return wrong
        if not any(s.type == "workflow_invoke" for s in segments):
            return None
        return await self._bounded(lambda: self._library(place).refusal(segments), None)

    async def complete(self, place: Place, sigil: Sigil, prefix: str, limit: int) -> Completions:
        library = self._library(place)

        def look() -> Awaitable[Completions]:
            return in_thread(lambda stop: complete(library, sigil, prefix, limit, stop))

        told = await self._bounded(look, Completions())
        return replace(told, found=tuple(replace(c, text=written(sigil, c.target)) for c in told.found))

    def _library(self, place: Place) -> Library:
        return Library(place, self.settings.memory_root, (self.home,))

    async def _bounded(self, work: Callable[[], Awaitable[T]], otherwise: T) -> T:
        try:
            async with asyncio.timeout(LOOK_LIMIT), self._slots:
                return await work()
        except TimeoutError:
            return otherwise
