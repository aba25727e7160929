"""polypod as it starts for real, on a Ray of its own over a home in a temporary folder: what the benchmarks measure."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ray

from actors.pod.actor import NAMESPACE
from actors.protocol.config import ModelSpec
from orchestrator.client import RayControlPlane
from orchestrator.cluster import Cluster, ClusterOptions, start_cluster
from orchestrator.directory.settings import DirectorySettings
from orchestrator.ports import NewPod
from orchestrator.runtime import RuntimeSettings
from session_store.codec import decode_entry
from session_store.entries import LogEntry
from session_store.items import Json, Segment
from session_store.messages import USER, Message
from session_store.requests import Deliver, PodRow, Query, Read

NOTE = "a small note\n"
POLL = 0.02


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """`models` by name; the first is the default. `script`: lines of a scripted model, which is added as `scripted`."""

    models: tuple[ModelSpec, ...] = ()
    script: Sequence[Mapping[str, Json]] = ()
    directory: DirectorySettings = field(default_factory=DirectorySettings)


class World:
    """`with World(options) as world`: Ray, store and Directory are up inside, and gone after."""

    def __init__(self, options: WorldOptions) -> None:
        self._options = options
        self._count = 0

    def __enter__(self) -> World:
        self.folder = Path(tempfile.mkdtemp(prefix="polypod-bench-"))
        self.workspace = self.folder / "ws"
        self.workspace.mkdir()
        (self.workspace / "note.txt").write_text(NOTE)
        models = list(self._options.models)
        if self._options.script:
            script = self.folder / "script.jsonl"
            script.write_text("\n".join(json.dumps(line) for line in self._options.script))
            models.append(ModelSpec("scripted", "scripted", script=str(script)))
        settings = RuntimeSettings(
            models={m.name: m for m in models},
            profiles={},
            directory=self._options.directory,
            workspace=str(self.workspace),
            memory_root=str(self.folder / "memory"),
            default_model=models[0].name,
        )
        self.database = self.folder / "home" / "store.db"
        self.cluster: Cluster = start_cluster(
            settings, ClusterOptions(self.folder / "home", f"sqlite://{self.database}")
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def control(self) -> RayControlPlane:
        """A client for the running loop."""
        return self.cluster.control_plane()

    async def create(self, control: RayControlPlane, prompt: str, **fields: Any) -> str:
        """A root Pod; an empty prompt makes an idle one."""
        self._count += 1
        segments = (Segment("text", prompt),) if prompt else ()
        new = NewPod("default", f"m{self._count}", segments)
        return (await control.create(replace(new, **fields))).pod_id

    async def send(self, control: RayControlPlane, session: str, text: str) -> None:
        self._count += 1
        body = {"segments": [{"type": "text", "text": text}]}
        await control.store.execute(Deliver(session, Message(f"m{self._count}", "prompt", USER, body)))
        await control.hint((session,))

    async def pool(self, ready: int, limit: float = 300.0) -> None:
        """Wait until so many actors stand ready without a Pod, and none is being started."""
        directory = ray.get_actor("directory", namespace=NAMESPACE)
        deadline = time.monotonic() + limit
        while True:
            top = await directory.top.remote()
            if top["pool"] >= ready and not top["actors"]["starting"]:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {ready} ready actors after {limit:g} s: {top}")
            await asyncio.sleep(POLL)

    async def pid_of(self, session: str, limit: float = 30.0) -> int:
        """The process that runs a session."""
        found = await ray.get_actor("directory", namespace=NAMESPACE).where.remote(session, 0, limit)
        if found["actor"] is None:
            raise TimeoutError(f"{session} has no process")
        return int(await ray.get_actor(found["actor"], namespace=NAMESPACE).ping.remote())


async def row(control: RayControlPlane, session: str) -> PodRow:
    return (await control.store.execute(Query(ids=(session,)))).rows[0]


async def at_rest(control: RayControlPlane, sessions: Sequence[str], limit: float = 300.0) -> list[PodRow]:
    """Wait until each has ended a run and rests. Raises `RuntimeError` for a run that went wrong."""
    deadline = time.monotonic() + limit
    while True:
        rows: list[PodRow] = []
        for first in range(0, len(sessions), 100):
            some = tuple(sessions[first : first + 100])
            rows += (await control.store.execute(Query(ids=some, limit=100))).rows
        if any(r.outcome not in (None, "finished", "waiting_on_children") for r in rows):
            bad = next(r for r in rows if r.outcome not in (None, "finished", "waiting_on_children"))
            raise RuntimeError(f"{bad.name} ended {bad.outcome}: {bad.error}")
        if all(r.status in ("idle", "ended") and r.outcome is not None for r in rows):
            return rows
        if time.monotonic() > deadline:
            late = [f"{r.name}: {r.status}" for r in rows if r.status not in ("idle", "ended")]
            raise TimeoutError(f"not at rest after {limit:g} s: {late[:5]}")
        await asyncio.sleep(POLL + len(sessions) / 500)  # to look costs too: a row each


async def children(control: RayControlPlane, session: str) -> list[PodRow]:
    return list((await control.store.execute(Query(parent=session, limit=1000))).rows)


async def log_of(control: RayControlPlane, session: str) -> list[LogEntry]:
    found = await control.store.execute(Read(session))
    return [decode_entry(e.body, e.seq, e.ts) for e in found.entries]
