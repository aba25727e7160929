"""Extraction as wired for real: a Pod's run ends, an extractor actor stages a file, the pointer moves (X11, X13)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray

from actors.extractor.actor import PREFIX, place
from actors.extractor.ranges import POINTER, RANGE, staging_id
from actors.pod.actor import NAMESPACE
from actors.protocol.config import ModelSpec
from actors.protocol.usage import DOMAIN
from orchestrator.runtime import MemorySpec, RuntimeSettings
from tests.support.extraction import GOOD, line
from tests.support.ray_world import RayWorld, finished, story

POD_LINE = {"match": {"pod": "root"}, "text": "Done.", "usage": {"input": 12_000, "output": 5}, "repeat": True}


def memory(folder: Path, delay_ms: int) -> Callable[[RuntimeSettings], RuntimeSettings]:
    """Extraction from 10,000 tokens on, by a scripted worker that takes `delay_ms`."""
    script = folder / "worker.jsonl"
    script.write_text(json.dumps(line(delay_ms=delay_ms)))

    def amend(settings: RuntimeSettings) -> RuntimeSettings:
        models = {**settings.models, "worker": ModelSpec("worker", "scripted", script=str(script))}
        spec = MemorySpec(extract_model="worker", extract_threshold=10_000)
        return replace(settings, models=models, memory=spec)

    return amend


async def until(found: Callable[[], Any], limit: float = 40.0) -> Any:
    deadline = time.monotonic() + limit
    while not (value := await found()):
        assert time.monotonic() < deadline, "it did not come to that"
        await asyncio.sleep(0.05)
    return value


def payloads(entries: list[dict[str, Any]], domain: str) -> list[dict[str, Any]]:
    return [e["payload"] for e in entries if e["type"] == "extension" and e["domain"] == domain]


async def test_X11_a_run_is_extracted_also_when_the_extractor_is_killed_in_between(
    tmp_path: Path, ray_cluster: None
) -> None:
    world = RayWorld(tmp_path, [POD_LINE], amend=memory(tmp_path, 4_000))
    try:
        control = world.control()
        session = await world.create(control, "remember this", name="root")
        began = time.monotonic()
        await finished(control, session)
        assert time.monotonic() - began < 20, "X13: the run waits for no extraction"

        async def fixed() -> list[dict[str, Any]]:
            return payloads(await story(control, session), RANGE)

        [this] = await until(fixed)
        actor = ray.get_actor(f"{PREFIX}{place(session, 2)}", namespace=NAMESPACE)
        os.kill((await actor.busy.remote())["pid"], signal.SIGKILL)

        async def pointed() -> list[dict[str, Any]]:
            return payloads(await story(control, session), POINTER)

        [pointer] = await until(pointed)
        name = staging_id(session, this["start"], this["end"])
        assert pointer == {"processed_through_entry": this["end"], "staging_id": name}
        [file] = (tmp_path / "memory" / "_staging").iterdir()
        assert file.name == f"{name}.json"
        source = {"session_id": session, "range": [1, this["end"]]}
        assert json.loads(file.read_text()) == {"source": source, **GOOD}
        entries = await story(control, session)
        assert len(payloads(entries, RANGE)) == 1
        assert [u["worker"] for u in payloads(entries, DOMAIN)] == ["extract"]
        assert [e["input"] for e in entries if e["type"] == "llm_usage"] == [12_000]
    finally:
        world.close()


async def test_without_a_threshold_there_is_no_extractor(tmp_path: Path, ray_cluster: None) -> None:
    world = RayWorld(tmp_path, [POD_LINE])
    try:
        control = world.control()
        await finished(control, await world.create(control, "forget this", name="root"))
        named = [a["name"] for a in ray.util.list_named_actors(all_namespaces=True)]
        assert not [name for name in named if name.startswith(PREFIX)]
        assert not (tmp_path / "memory").exists()
    finally:
        world.close()
