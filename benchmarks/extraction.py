"""What an idle offer costs an extractor: a session below the threshold, whatever the length of its log.

The log is a SQLite file, read in this process: what Ray adds is in `store` and `delivery`. `first` is the look of an
extractor that has not met the session (it reads the whole log once), `next` each later one, after one more run.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from actors.extractor.driver import Extractor
from actors.extractor.ports import ExtractionSettings, ExtractorParts
from actors.extractor.staging import FolderStaging
from actors.protocol.alerts import Level
from benchmarks.report import Cell, Report, Table, Target, high, middle
from orchestrator.system import SystemClock, SystemIds
from session_store.entries import (
    AssistantItems,
    Invoke,
    LlmUsage,
    LogEntry,
    RunEnd,
    SegmentStart,
    ToolResults,
    UserInput,
)
from session_store.items import Segment, Text, ToolCall, ToolResult
from session_store.local import LocalStore
from session_store.messages import USER
from session_store.opening import open_store
from session_store.requests import Append, Create, Open

STEPS, QUICK_STEPS = (1_000, 10_000), (200, 1_000)
LATER = 30
OUTPUT = "a line of what a tool has to say\n" * 60


def run(quick: bool) -> Report:
    rows: list[tuple[Cell, ...]] = []
    worst = 0.0
    for steps in QUICK_STEPS if quick else STEPS:
        with tempfile.TemporaryDirectory() as folder:
            first, later = asyncio.run(_offers(Path(folder), steps))
        rows.append((steps, first, middle(later), high(later)))
        worst = max(worst, middle(later))
    return Report(
        "Extraction: an offer of a session with nothing due",
        (Table("ms", ("steps in the log", "first", "next, p50", "next, p90"), tuple(rows)),),
        (Target("an idle offer, p50, at the longest log", worst, 5.0, "ms"),),
    )


async def _offers(folder: Path, steps: int) -> tuple[float, list[float]]:
    """Milliseconds of the first look, and of later ones."""
    store = LocalStore(open_store(f"sqlite://{folder / 'store.db'}"))
    await store.execute(Create("s", "default", "m", SegmentStart("s", {}, "", (), 1), (), "s"))
    epoch = (await store.execute(Open("s", 0))).epoch
    head = 1
    for batch in range(0, steps, 50):
        entries = [entry for n in range(batch, min(batch + 50, steps)) for entry in _step(n)]
        head = (await store.execute(Append("s", epoch, head, f"b{batch}", tuple(entries)))).head
    extractor = _extractor(store, folder)
    first, times = await _timed(extractor), []
    for n in range(LATER):
        entries = [Invoke(f"run{n}", "prompt"), *_step(steps + n), RunEnd(f"run{n}", "finished")]
        head = (await store.execute(Append("s", epoch, head, f"later{n}", tuple(entries)))).head
        times.append(await _timed(extractor))
    return first, times


async def _timed(extractor: Extractor) -> float:
    started = time.perf_counter()
    await extractor.look("s")
    return (time.perf_counter() - started) * 1000


def _step(number: int) -> list[LogEntry]:
    """A prompt, a call and its result."""
    call = ToolCall(f"c{number}", "Shell", {"command": "make"})
    result = ToolResult(1, 0, f"c{number}", "Shell", "ok", "`make` exited with code 0", OUTPUT)
    return [
        UserInput((Segment("text", "And now the next one."),), f"m{number}", USER),
        AssistantItems(f"r{number}", (Text("I look."), call)),
        LlmUsage(f"r{number}", number, 1_000 + number, 0, 0, 20, 1),
        ToolResults((result,)),
    ]


def _extractor(store: LocalStore, folder: Path) -> Extractor:
    return Extractor(
        ExtractorParts(
            store=store,
            staging=FolderStaging(folder),
            alerts=_Loud(),
            clock=SystemClock(),
            ids=SystemIds(),
            model=_none_wanted,
            prompt=str,
            mask=str,
            settings=ExtractionSettings(threshold=10**9),
        )
    )


class _Loud:
    """Nothing is due, so nothing can fail."""

    async def tell(self, session: str, level: Level, code: str, message: str) -> None:
        raise AssertionError(message)


def _none_wanted(config: dict[str, Any]) -> Any:
    raise AssertionError("nothing is due")
