"""`serve` attached to a Ray cluster of several nodes that others started, as the chart runs it."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import PostgresServer

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-a-test"
LIMIT = 60.0
NODES = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
for _ in range(2):
    cluster.add_node(num_cpus=1)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
LOOK = """
import json, sys, ray
ray.init(address=sys.argv[1], namespace="polypod", log_to_driver=False, logging_level="ERROR")
places = {}
for actor in ray.util.list_named_actors(all_namespaces=True):
    if actor["name"].startswith("pod-"):
        handle = ray.get_actor(actor["name"], namespace=actor["namespace"])
        places[actor["name"]] = ray.get(handle.place.remote(), timeout=20)
print(json.dumps(places))
"""


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("POLYPOD_", "RAY_", "OPENAI_", "ANTHROPIC_"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    auth = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    return {**kept, **auth, "PYTHONPATH": str(ROOT), "POLYPOD__GATEWAY__TOKEN": TOKEN}


@pytest.fixture(scope="module")
def address(environment: dict[str, str]) -> Iterator[str]:
    """A head without CPUs and two workers."""
    command = [sys.executable, "-c", NODES]
    with subprocess.Popen(command, env=environment, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, text=True) as nodes:
        assert nodes.stdin is not None
        assert nodes.stdout is not None
        yield nodes.stdout.readline().strip()
        nodes.stdin.close()
        nodes.wait(30)


@contextmanager
def serving(folder: Path, address: str, environment: dict[str, str]) -> Iterator[str]:
    """The address at which the gateway answers."""
    workspace = folder / "ws"
    workspace.mkdir(exist_ok=True)
    words = ["serve", "--ray-address", address, "--port", "0"]
    command = [sys.executable, "-m", "orchestrator.cli", "--home", str(folder), *words]
    with subprocess.Popen(command, cwd=workspace, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "Pods work on" in said, said
        try:
            yield said.split(" at ")[1].split()[0]
        finally:
            process.terminate()
            assert process.wait(30) == 0


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=LIMIT) as answer:
        return json.load(answer)


def script(folder: Path, *lines: dict[str, Any], settings: str = "") -> None:
    (folder / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = '[models.default]\nprovider = "scripted"\nscript = "script.jsonl"\n'
    (folder / "polypod.toml").write_text(f"{model}[directory]\nwarm_pool = 2\n{settings}")


def places(address: str, environment: dict[str, str]) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-c", LOOK, address]
    found: dict[str, dict[str, Any]] = json.loads(subprocess.check_output(command, env=environment, text=True))
    return found


def test_R_serve_attaches_and_departs_while_a_tree_works_on_over_postgresql(
    tmp_path: Path, address: str, environment: dict[str, str], postgres: PostgresServer
) -> None:
    environment = {**environment, "POLYPOD__STORE__URL": postgres.url()}
    spawn = [{"name": "SpawnPod", "arguments": {"name": f"c{n}", "task": "work"}} for n in range(2)]
    work = {"tool_calls": [{"name": "Shell", "arguments": {"command": "sleep 3; echo worked"}}]}
    script(
        tmp_path,
        {"match": {"pod": "root", "request": 1}, "tool_calls": spawn},
        {"match": {"pod": "root"}, "text": "both have worked", "repeat": True},
        {"match": {"request": 1, "pod": "c0"}, **work},
        {"match": {"request": 1, "pod": "c1"}, **work},
        {"text": "done", "repeat": True},
    )
    with serving(tmp_path, address, environment) as gateway:
        root = ask(f"{gateway}/v1/pods", {"prompt": "go", "name": "root"})["id"]
        until = time.monotonic() + LIMIT
        while len(ask(f"{gateway}/v1/pods")["pods"]) < 3:
            assert time.monotonic() < until
            time.sleep(0.05)
        while any(not pod["head_seq"] for pod in ask(f"{gateway}/v1/pods")["pods"]):
            time.sleep(0.05)
    before = places(address, environment)
    assert len({place["node"] for place in before.values()}) > 1  # spread over the nodes
    with serving(tmp_path, address, environment) as gateway:
        told = ask(f"{gateway}/v1/pods/{root}/result?wait=45")
        assert (told["outcome"], told["text"]) == ("finished", "both have worked")
        pods = ask(f"{gateway}/v1/pods")["pods"]
        assert {pod["generation"] for pod in pods} == {1}  # nobody was started anew
        after = places(address, environment)
    assert {name: before[name]["pid"] for name in before if name in after} == {
        name: place["pid"] for name, place in after.items() if name in before
    }


def test_changed_settings_replace_the_actors_that_run(
    tmp_path: Path, address: str, environment: dict[str, str]
) -> None:
    script(tmp_path, {"text": "before", "repeat": True})
    with serving(tmp_path, address, environment) as gateway:
        pod = ask(f"{gateway}/v1/pods", {"prompt": "go"})["id"]
        assert ask(f"{gateway}/v1/pods/{pod}/result?wait=45")["text"] == "before"
    before = places(address, environment)
    script(tmp_path, {"text": "before", "repeat": True}, settings="max_depth = 1\n")
    with serving(tmp_path, address, environment) as gateway:
        after = places(address, environment)
        assert not {p["pid"] for p in before.values()} & {p["pid"] for p in after.values()}
        ask(f"{gateway}/v1/pods/{pod}/messages", {"content": "again", "message_id": "m2"})
        told = ask(f"{gateway}/v1/pods/{pod}/result?wait=45&message_id=m2")
        assert (told["outcome"], told["text"]) == ("finished", "before")


def test_no_cluster_at_the_address_is_told(tmp_path: Path, environment: dict[str, str]) -> None:
    words = ["serve", "--ray-address", "127.0.0.1:1"]
    command = [sys.executable, "-m", "orchestrator.cli", "--home", str(tmp_path), *words]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert ended.returncode == 1
    assert "no Ray cluster to attach to at 127.0.0.1:1" in ended.stderr
