"""A home's owner as a process of its own: `python -m tests.support.owner FOLDER [PROMPT]`.

Says `up <session dir> <pids>` once the cluster runs and (with a prompt) `pod <id>`; then `done <outcome> <epoch>` when
every root of the home rests; ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from actors.protocol.config import ModelSpec
from orchestrator.cluster import Cluster, ClusterOptions, start_cluster
from orchestrator.directory.settings import DirectorySettings
from orchestrator.ports import NewPod
from orchestrator.runtime import RuntimeSettings
from session_store.items import Segment
from session_store.requests import Query

LINES = [
    {"tool_calls": [{"name": "Shell", "arguments": {"command": "echo on > started; sleep 3"}}]},
    {"text": "done", "repeat": True},
]


def main() -> None:
    folder, prompt = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    script = folder / "script.jsonl"
    script.write_text("\n".join(json.dumps(line) for line in LINES))
    settings = RuntimeSettings(
        models={"scripted": ModelSpec("scripted", "scripted", script=str(script))},
        profiles={},
        directory=DirectorySettings(warm_pool=1, lease=60.0),
        workspace=str(folder),
        memory_root=str(folder / "memory"),
        default_model="scripted",
    )
    base = folder / "base"
    cluster = start_cluster(settings, ClusterOptions(base, f"sqlite://{base / 'store.db'}"))
    say("up", str(cluster.session_dir), *(str(pid) for pid in processes()))
    asyncio.run(work(cluster, prompt))
    sys.stdin.read()
    cluster.close()
    say("closed")


async def work(cluster: Cluster, prompt: str | None) -> None:
    control = cluster.control_plane()
    if prompt is not None:
        made = await control.create(NewPod("default", "m1", (Segment("text", prompt),)))
        say("pod", made.pod_id)
    while True:
        rows = (await control.store.execute(Query())).rows
        if rows and all(r.status not in ("running",) and r.outcome for r in rows):
            say("done", str(rows[0].outcome), str(rows[0].epoch))
            return
        await asyncio.sleep(0.02)


def processes() -> list[int]:
    """Everything below this process."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    below: dict[int, list[int]] = {}
    for line in listed.splitlines():
        pid, parent = map(int, line.split())
        below.setdefault(parent, []).append(pid)
    found, todo = [], [os.getpid()]
    while todo:
        more = below.get(todo.pop(), [])
        found += more
        todo += more
    return found


def say(*words: str) -> None:
    print(*words, flush=True)


if __name__ == "__main__":
    main()
