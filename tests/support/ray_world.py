"""A home on a Ray that runs already: store, Directory and Pods as wired for real, and the means to kill any of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray

from actors.pod.actor import NAMESPACE
from actors.protocol.config import ModelSpec
from orchestrator.client import RayControlPlane
from orchestrator.cluster import Cluster, ClusterOptions, start_actors
from orchestrator.directory.settings import DirectorySettings
from orchestrator.ports import NewPod
from orchestrator.runtime import RuntimeSettings
from session_store.codec import decode_entry, entry_json
from session_store.items import Json, Segment
from session_store.messages import USER, Message
from session_store.ray_client import RayStore, named_store
from session_store.requests import Deliver, PodRow, Query, Read

SETTINGS = DirectorySettings(lease=2.0, heartbeat=0.3, stop_timeout=3.0)


class RayWorld:
    """`lines` is the scripted model's script for all Pods; `amend` adds to the settings, such as other models."""

    def __init__(
        self,
        folder: Path,
        lines: Sequence[Mapping[str, Json]],
        settings: DirectorySettings = SETTINGS,
        amend: Callable[[RuntimeSettings], RuntimeSettings] = lambda settings: settings,
    ) -> None:
        self.folder = folder
        self.workspace = folder / "ws"
        self.workspace.mkdir()
        script = folder / "script.jsonl"
        script.write_text("\n".join(json.dumps(line) for line in lines))
        made = RuntimeSettings(
            models={"scripted": ModelSpec("scripted", "scripted", script=str(script))},
            profiles={},
            directory=settings,
            workspace=str(self.workspace),
            memory_root=str(folder / "memory"),
            default_model="scripted",
        )
        base = folder / "base"
        self.settings = amend(made)
        self.options = ClusterOptions(base, f"sqlite://{base / 'store.db'}")
        self.cluster: Cluster = start_actors(self.settings, self.options)
        self._count = 0

    def control(self) -> RayControlPlane:
        """A client for the running loop."""
        return RayControlPlane(RayStore(named_store()))

    async def create(self, control: RayControlPlane, prompt: str, **fields: Any) -> str:
        self._count += 1
        new = NewPod("default", f"m{self._count}", (Segment("text", prompt),))
        return (await control.create(replace(new, **fields))).pod_id

    async def send(self, control: RayControlPlane, session: str, text: str) -> None:
        self._count += 1
        body = {"segments": [{"type": "text", "text": text}]}
        await control.store.execute(Deliver(session, Message(f"m{self._count}", "prompt", USER, body)))
        await control.hint((session,))

    def pid_of(self, name: str) -> int:
        """The process of a named actor."""
        handle = ray.get_actor(name, namespace=NAMESPACE)
        if name == "directory":
            return int(ray.get(handle.__ray_call__.remote(lambda _: os.getpid()), timeout=30))
        return int(ray.get(handle.ping.remote(), timeout=30))

    def kill(self, name: str, how: int = signal.SIGKILL) -> None:
        os.kill(self.pid_of(name), how)

    def pod_actors(self) -> list[str]:
        return sorted(n for n in _named() if n.startswith("pod-"))

    async def actor_of(self, session: str, limit: float = 20.0) -> str:
        directory = ray.get_actor("directory", namespace=NAMESPACE)
        found = await directory.where.remote(session, 0, limit)
        assert found["actor"] is not None, f"{session} has no process"
        return str(found["actor"])

    def close(self) -> None:
        """End all actors, the Directory first, and see them gone."""
        for name in sorted(_named(), key=lambda n: n.startswith("pod-")):
            try:
                ray.kill(ray.get_actor(name, namespace=NAMESPACE), no_restart=True)
            except ValueError:
                continue
        deadline = time.monotonic() + 20
        while _named():
            assert time.monotonic() < deadline, f"still there: {_named()}"
            time.sleep(0.05)


def _named() -> list[str]:
    return [a["name"] for a in ray.util.list_named_actors(all_namespaces=True) if a["namespace"] == NAMESPACE]


async def row(control: RayControlPlane, session: str) -> PodRow:
    return (await control.store.execute(Query(ids=(session,)))).rows[0]


async def children(control: RayControlPlane, session: str) -> list[PodRow]:
    return list((await control.store.execute(Query(parent=session, limit=1000))).rows)


async def story(control: RayControlPlane, session: str) -> list[dict[str, Json]]:
    found = await control.store.execute(Read(session))
    return [entry_json(decode_entry(e.body, e.seq, e.ts)) for e in found.entries]


async def finished(control: RayControlPlane, session: str, limit: float = 60.0) -> PodRow:
    """Wait until the Pod rests with a finished run."""
    deadline = time.monotonic() + limit
    while True:
        found = await row(control, session)
        if found.status in ("idle", "errored", "ended") and found.outcome is not None:
            return found
        if time.monotonic() > deadline:
            tail = "\n".join(str(e)[:300] for e in (await story(control, session))[-8:])
            raise AssertionError(f"{found.name} is {found.status}:\n{tail}\n{await control.status()}")
        await asyncio.sleep(0.02)


def check_log(entries: Sequence[Mapping[str, Json]]) -> None:
    """Laws 6 and 7 on one log: no gap, every call answered once, no request beside a run."""
    assert [e["seq"] for e in entries] == list(range(1, len(entries) + 1))
    asked = [
        (e["seq"], i)
        for e in entries
        if e["type"] == "assistant_items"
        for i, _ in enumerate(x for x in e["items"] if x["type"] == "tool_call")
    ]
    answered = [(r["call_seq"], r["index"]) for e in entries if e["type"] == "tool_results" for r in e["results"]]
    assert sorted(answered) == sorted(asked)
    items = [i["item_id"] for e in entries if e["type"] == "system_items" for i in e["items"]]
    assert len(items) == len(set(items))
    inputs = [e["message_id"] for e in entries if e["type"] == "user_input"]
    assert len(inputs) == len(set(inputs))
