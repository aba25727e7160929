"""The head's Kubernetes Pod without Kubernetes: its containers' commands and variables as the chart renders them, as
another user, without capabilities, on a read-only root file system and one process namespace (bubblewrap)."""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.charts.conftest import ROOT, Object, one, rendered

LIMIT = 120.0
SCRIPT = """
set -u
touch {outside} 2>/dev/null && echo "the root file system can be written"
( export {ray}; exec ray start --head --block --node-ip-address=127.0.0.1 {start} >/tmp/ray.log 2>&1 ) &
head=$!
for _ in $(seq 120); do (echo >/dev/tcp/127.0.0.1/6379) 2>/dev/null && break; sleep 0.25; done
( cd {settings}; export {gateway}; exec {serve} >/tmp/serve.log 2>&1 ) &
serve=$!
( export {test}; exec {tree} )
echo "test: $?; user: $(id -u)"
cat /tmp/serve.log
kill $serve; wait $serve; echo "serve: $?"
kill $head
"""


def bubblewrap() -> str:
    found = shutil.which("bwrap")
    probe = [found or "false", "--ro-bind", "/", "/", "--unshare-user", "--uid", "10001", "--unshare-net", "true"]
    if subprocess.run(probe, capture_output=True).returncode != 0:
        pytest.skip("bubblewrap is not here or may not make namespaces: scripts/debian-parts bubblewrap")
    assert found is not None
    return found


def exports(container: Object, objects: list[Object]) -> str:
    """The container's variables for a shell; Secrets are those that the chart makes."""

    def value(entry: dict[str, Any]) -> str:
        if "value" in entry:
            return str(entry["value"])
        source = entry["valueFrom"]
        if "fieldRef" in source:
            return "127.0.0.1"
        key = source["secretKeyRef"]
        return base64.b64decode(one(objects, "Secret", key["name"])["data"][key["key"]]).decode()

    return " ".join(shlex.quote(f"{entry['name']}={value(entry)}") for entry in container["env"])


def test_the_heads_pod_runs_a_tree_confined(tmp_path: Path) -> None:
    bwrap = bubblewrap()
    objects = rendered()
    group = one(objects, "RayCluster")["spec"]["headGroupSpec"]
    ray, gateway = group["template"]["spec"]["containers"]
    tree = one(objects, "Pod")["spec"]["containers"][0]
    script = SCRIPT.format(
        outside="/outside",
        settings="/etc/polypod",
        ray=exports(ray, objects),
        gateway=exports(gateway, objects),
        test=exports(tree, objects),
        start=shlex.join(f"--{name}={value}" for name, value in group["rayStartParams"].items()),
        serve=shlex.join(gateway["command"]),
        tree=shlex.join(tree["command"]).replace("demo-polypod:", "127.0.0.1:"),
    )
    for folder in ("data", "etc"):
        (tmp_path / folder).mkdir()
    for name, text in one(objects, "ConfigMap", "demo-polypod-settings")["data"].items():
        (tmp_path / "etc" / name).write_text(text)
    # Mount points cannot be made on the root file system of a machine that is no image: they lie in /mnt here.
    (tmp_path / "run").write_text(script.replace("/etc/polypod", "/mnt/etc").replace("/data", "/mnt/data"))
    mounts = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm"]
    mounts += ["--tmpfs", "/mnt", "--bind", str(tmp_path / "data"), "/mnt/data"]
    mounts += ["--ro-bind", str(tmp_path / "etc"), "/mnt/etc", "--ro-bind", str(tmp_path / "run"), "/mnt/run"]
    mounts += ["--ro-bind", str(ROOT), "/mnt/src"]
    for place in (str(ROOT), sys.prefix, sys.base_prefix):  # they may lie in /tmp, which is empty in there
        mounts += ["--ro-bind", place, place]
    walls = [
        "--unshare-user",
        "--unshare-net",
        "--unshare-pid",
        "--uid",
        "10001",
        "--gid",
        "10001",
        "--cap-drop",
        "ALL",
    ]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [bwrap, *mounts, *walls, "--die-with-parent", "bash", "/mnt/run"],
        env={"PATH": path, "PYTHONPATH": "/mnt/src", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    said = done.stdout + done.stderr
    assert "test: 0; user: 10001" in said, said
    assert "('helm-test-one', 'one'), ('helm-test-two', 'two')" in said
    assert "can be written" not in said
    assert "serve: 0" in said
