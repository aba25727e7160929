"""How fast the store is: through its actor, beside bare SQLite commits of the same rows and beside bare actor calls.

Every figure is taken in this one run; read the ratios, not the absolutes. A row is an assistant entry of about 700
bytes. "single" is one entry in one commit, "batched" 64 entries in one commit. With POLYPOD_BENCH_POSTGRES set to the
URL of an empty database the PostgreSQL store in this process is measured beside the SQLite one.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import ray

from benchmarks.report import Report, Table
from session_store.actor import StoreOptions, start_store
from session_store.backends.postgres import PostgresStore
from session_store.backends.sqlite import SqliteStore
from session_store.codec import encode_entry
from session_store.entries import AssistantItems, Invoke, LogEntry, SegmentStart
from session_store.items import Text, ToolCall
from session_store.ray_client import RayStore
from session_store.requests import Append, AsyncStore, Create, Open, Read, ReplyT, Request

BATCH = 64
WARM_UP = 50
SECONDS, QUICK_SECONDS = 2.0, 0.3
"""How long each figure is taken."""


@dataclass(frozen=True, slots=True)
class Figure:
    """`per_second` counts entries (or calls); times are in milliseconds."""

    name: str
    per_second: float
    p50: float
    p99: float


@dataclass
class Writer:
    """An owner of one session that appends and does nothing else."""

    store: AsyncStore
    session: str
    epoch: int = 0
    head: int = 0
    number: int = 0

    async def start(self) -> Writer:
        first = SegmentStart(self.session, {}, "", (), 1)
        await self.store.execute(Create(self.session, "default", self.session, first))
        lease = await self.store.execute(Open(self.session, 0))
        self.epoch, self.head = lease.epoch, lease.head
        await self.append((Invoke("r", "prompt"),))
        return self

    async def append(self, entries: tuple[LogEntry, ...]) -> None:
        self.number += 1
        request = Append(self.session, self.epoch, self.head, f"b{self.number}", entries)
        self.head = (await self.store.execute(request)).head


class Here:
    """The store in this process: what the actor costs is the difference."""

    def __init__(self, store: SqliteStore | PostgresStore) -> None:
        self._store = store

    async def execute(self, request: Request[ReplyT]) -> ReplyT:
        return self._store.execute(request)


def entry() -> AssistantItems:
    call = ToolCall("call_1", "Read", {"path": "src/main.py", "offset": 1, "limit": 200})
    return AssistantItems("request-1", (Text("word " * 110), call))


async def measured(name: str, seconds: float, each: int, step: Callable[[], Awaitable[None]]) -> Figure:
    """Repeat `step`, which does `each` entries, for about `seconds`."""
    for _ in range(WARM_UP):
        await step()
    times = []
    started = time.perf_counter()
    while (now := time.perf_counter()) - started < seconds:
        await step()
        times.append(time.perf_counter() - now)
    times.sort()
    spent = sum(times)
    p99 = times[min(len(times) - 1, len(times) * 99 // 100)]
    return Figure(name, each * len(times) / spent, statistics.median(times) * 1e3, p99 * 1e3)


async def bare_sqlite(folder: Path, seconds: float) -> list[Figure]:
    """The same bodies, one table, WAL, FULL."""
    db = sqlite3.connect(folder / "bare.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE rows (place INTEGER PRIMARY KEY, body BLOB)")
    body = encode_entry(entry())

    async def commit(count: int) -> None:
        db.execute("BEGIN IMMEDIATE")
        for _ in range(count):
            db.execute("INSERT INTO rows (body) VALUES (?)", (body,))
        db.execute("COMMIT")

    figures = [
        await measured("bare SQLite, single", seconds, 1, lambda: commit(1)),
        await measured("bare SQLite, batched", seconds, BATCH, lambda: commit(BATCH)),
    ]
    db.close()
    return figures


async def bare_actor(seconds: float) -> list[Figure]:
    """A sync actor that gives back the bytes it got."""

    class Echo:
        def say(self, data: bytes) -> bytes:
            return data

    echo = ray.remote(num_cpus=0)(Echo).remote()
    body = encode_entry(entry())

    async def call() -> None:
        await echo.say.remote(body)

    async def calls() -> None:
        await asyncio.gather(*(call() for _ in range(BATCH)))

    figures = [
        await measured("bare actor call, single", seconds, 1, call),
        await measured("bare actor calls, 64 at once", seconds, BATCH, calls),
    ]
    ray.kill(echo)
    return figures


async def of_store(label: str, store: AsyncStore, seconds: float) -> list[Figure]:
    writer = await Writer(store, _session(label)).start()
    one, many = (entry(),), (entry(),) * BATCH
    figures = [
        await measured(f"{label}, single", seconds, 1, lambda: writer.append(one)),
        await measured(f"{label}, batched (one session)", seconds, BATCH, lambda: writer.append(many)),
    ]
    started = time.perf_counter()
    read = await store.execute(Read(writer.session))
    spent = time.perf_counter() - started
    return [*figures, Figure(f"{label}, read of a whole log", len(read.entries) / spent, spent * 1e3, spent * 1e3)]


async def of_many_sessions(label: str, store: AsyncStore, seconds: float) -> Figure:
    """64 owners who append one entry each at the same moment."""
    writers = [await Writer(store, _session(f"{label} {n}")).start() for n in range(BATCH)]
    one = (entry(),)

    async def all_at_once() -> None:
        await asyncio.gather(*(w.append(one) for w in writers))

    return await measured(f"{label}, batched (64 sessions)", seconds, BATCH, all_at_once)


async def of_one_batch(label: str, store: SqliteStore | PostgresStore, seconds: float) -> Figure:
    """The same as group commit makes it: 64 appends in one transaction."""
    writers = [await Writer(Here(store), _session(f"{label} in batch {n}")).start() for n in range(BATCH)]
    one = (entry(),)

    async def batch() -> None:
        for writer in writers:
            writer.number += 1
        requests = [Append(w.session, w.epoch, w.head, f"b{w.number}", one) for w in writers]
        for writer, reply in zip(writers, store.execute_batch(requests), strict=True):
            writer.head = reply.head

    return await measured(f"{label}, batched (64 sessions)", seconds, BATCH, batch)


async def figures_of(folder: Path, seconds: float) -> list[Figure]:
    here = SqliteStore(folder / "here.db")
    actor = start_store(f"sqlite://{folder}/actor.db", StoreOptions(name="bench", detached=False))
    found = await bare_sqlite(folder, seconds)
    found += await bare_actor(seconds)
    found += await of_store("store in process", Here(here), seconds)
    client = RayStore(lambda: actor)
    found += await of_store("store actor", client, seconds)
    found.append(await of_many_sessions("store actor", client, seconds))
    if url := os.environ.get("POLYPOD_BENCH_POSTGRES"):
        with closing(PostgresStore(url)) as postgres:
            found += await of_store("PostgreSQL in process", Here(postgres), seconds)
            found.append(await of_one_batch("PostgreSQL in process", postgres, seconds))
            found.append(await of_one_batch("store in process", here, seconds))
    through_ray = RayStore(lambda: actor, local=False)
    found += (await of_store("store actor, through Ray", through_ray, seconds))[:2]
    here.close()
    ray.kill(actor)
    return found


def _session(label: str) -> str:
    return label.replace(" ", "-").replace(",", "")


def ratios(figures: list[Figure]) -> dict[str, float]:
    rate = {f.name: f.per_second for f in figures}
    p50 = {f.name: f.p50 for f in figures}
    return {
        "actor append p50 / bare actor call p50": p50["store actor, single"] / p50["bare actor call, single"],
        "actor single / bare SQLite single": rate["store actor, single"] / rate["bare SQLite, single"],
        "actor batched (one session) / bare SQLite batched": rate["store actor, batched (one session)"]
        / rate["bare SQLite, batched"],
        "actor batched (64 sessions) / bare SQLite batched": rate["store actor, batched (64 sessions)"]
        / rate["bare SQLite, batched"],
        "actor batched (64 sessions) / bare actor calls, 64 at once": rate["store actor, batched (64 sessions)"]
        / rate["bare actor calls, 64 at once"],
        "in process batched (one session) / bare SQLite batched": rate["store in process, batched (one session)"]
        / rate["bare SQLite, batched"],
    }


def run(quick: bool) -> Report:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # as polypod starts its workers
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(figures_of(Path(folder), QUICK_SECONDS if quick else SECONDS))
    ray.shutdown()
    return Report(
        "Store: entries per second through its actor",
        (
            Table(
                "a row is an assistant entry of about 700 bytes",
                ("", "per second", "p50 ms", "p99 ms"),
                tuple((f.name, f.per_second, f.p50, f.p99) for f in figures),
            ),
            Table("ratios", ("", ""), tuple(ratios(figures).items())),
        ),
    )
