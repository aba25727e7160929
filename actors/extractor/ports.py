"""What the extractor needs of the world. `wiring` binds real parts; tests bind fakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from actors.extractor.trigger import FIRST_PAUSE
from actors.protocol.alerts import Level
from actors.protocol.ids import Clock, Ids
from actors.protocol.model import Model
from session_store.items import Json
from session_store.requests import AsyncStore


class StagingError(Exception):
    """The staging place cannot be read or written; says which and why."""


class Staging(Protocol):
    """Where extractions lie until somebody else consumes them. Ids are staging ids. Raises `StagingError`."""

    async def read(self, staging_id: str) -> bytes | None:
        """What lies there, or None."""

    async def write(self, staging_id: str, data: bytes) -> None:
        """Put it there whole, durable when this returns; what lay there is replaced."""

    async def remove(self, staging_id: str) -> None:
        """Take it away; nothing there is no error."""

    async def ids(self) -> tuple[str, ...]:
        """All that lie there whole, in no order."""


class Alerts(Protocol):
    """Where people are told."""

    async def tell(self, session: str, level: Level, code: str, message: str) -> None:
        """Never fails."""


@dataclass(frozen=True, slots=True)
class ExtractionSettings:
    """`threshold` in activity tokens, None or 0: off. `max_input_tokens` None: see `worker.budget`.

    `language` is what the memory is written in (None: the session's own). `first_pause`: seconds after a failure.
    """

    threshold: int | None = None
    max_input_tokens: int | None = None
    language: str | None = None
    first_pause: float = FIRST_PAUSE


@dataclass(frozen=True, slots=True)
class ExtractorParts:
    """All that one extractor shares among the sessions it meets.

    `model(config)` is the worker's model for a session with that config (raises `ModelError`). `prompt()` gives the
    instructions, read anew each time (raises `StagingError`). `mask` takes out secrets that are known by their value.
    `roots()` are the trees that a sweep may pay for, read anew each time (raises `OSError`); None: all of the store.
    """

    store: AsyncStore
    staging: Staging
    alerts: Alerts
    clock: Clock
    ids: Ids
    model: Callable[[dict[str, Json]], Model]
    prompt: Callable[[], str]
    mask: Callable[[str], str]
    settings: ExtractionSettings
    roots: Callable[[], Iterable[str]] | None = None
