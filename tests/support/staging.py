"""A staging place in memory: the fake of the port, and what the extractor's tests look into."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from actors.extractor.ports import StagingError
from session_store.items import Json


@dataclass
class MemoryStaging:
    """Implements `Staging`. `fails`: the message with which every call is refused."""

    files: dict[str, bytes] = field(default_factory=dict)
    fails: str | None = None
    writes: int = 0

    async def read(self, staging_id: str) -> bytes | None:
        self._check()
        return self.files.get(staging_id)

    async def write(self, staging_id: str, data: bytes) -> None:
        self._check()
        self.writes += 1
        self.files[staging_id] = data

    async def remove(self, staging_id: str) -> None:
        self._check()
        self.files.pop(staging_id, None)

    async def ids(self) -> tuple[str, ...]:
        self._check()
        return tuple(self.files)

    def plain(self) -> list[dict[str, Json]]:
        """All files, by range."""
        return sorted((json.loads(data) for data in self.files.values()), key=lambda p: p["source"]["range"])

    def ranges(self) -> list[tuple[int, int]]:
        return [tuple(plain["source"]["range"]) for plain in self.plain()]

    def _check(self) -> None:
        if self.fails is not None:
            raise StagingError(self.fails)
