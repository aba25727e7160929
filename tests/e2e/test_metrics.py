"""A real Prometheus scrapes a running tree; its numbers are those of the logs."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.e2e.conftest import LIMIT, Polypod
from tests.support.prometheus import check_metrics, program

CONFIG = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}
scrape_configs:
  - job_name: polypod
    static_configs: [{{targets: ["{target}"]}}]
"""
LINES: tuple[dict[str, Any], ...] = (
    {
        "match": {"pod": "root", "request": 1},
        "tool_calls": [
            {"name": "SpawnPod", "arguments": {"task": "look", "name": "child"}},
            {"name": "Invented", "arguments": {}},
        ],
        "usage": {"input": 1000, "cache_read": 600, "output": 40},
    },
    {"match": {"pod": "root", "request": 2}, "tool_calls": [{"name": "WaitForPods", "arguments": {}}]},
    {"match": {"pod": "child", "request": 1}, "tool_calls": [{"name": "Glob", "arguments": {"pattern": "*"}}]},
    {"match": {"pod": "child", "request": 2}, "text": "nothing here"},
    {"match": {"pod": "root"}, "text": "all done"},
    {"match": {"pod": "broken"}, "error": {"type": "auth", "message": "no"}},
)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as response:
        body: bytes = response.read()
        return body


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """A Prometheus that scrapes `target`; gives its address."""
    config, address = folder / "prometheus.yml", f"127.0.0.1:{free_port()}"
    config.write_text(CONFIG.format(target=target), encoding="utf-8")
    words = (f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address={address}")
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([program("prometheus"), *words], stdout=log, stderr=log)
    try:
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def asked(address: str, query: str) -> dict[str, float]:
    """An instant query: values by the labels' values, in order of the labels' names."""
    told = json.loads(get(f"{address}/api/v1/query?{urlencode({'query': query})}"))
    return {
        ",".join(v for k, v in sorted(one["metric"].items()) if k not in ("__name__", "instance", "job")): float(
            one["value"][1]
        )
        for one in told["data"]["result"]
    }


def from_logs(logs: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, float]]:
    """The same figures, counted by hand from the logs."""
    entries = [entry for log in logs.values() for entry in log]
    used = [entry for entry in entries if entry["type"] == "llm_usage"]
    results = [result for entry in entries if entry["type"] == "tool_results" for result in entry["results"]]
    known = {tool["name"] for log in logs.values() for tool in log[0]["tools"]}
    calls = Counter(f"{r['status']},{r['name'] if r['name'] in known else 'other'}" for r in results)
    told = [i["payload"]["event"]["kind"] for e in entries if e["type"] == "system_items" for i in e["items"]]
    failed = sum(e["type"] == "run_end" and e.get("error", {}).get("type") == "auth" for e in entries)
    return {
        "sum by (type) (polypod_log_entries_total)": dict(Counter(entry["type"] for entry in entries)),
        "sum by (kind) (polypod_tokens_total)": {
            kind: float(n) for kind in ("input", "cache_read", "output") if (n := sum(one[kind] for one in used))
        },
        "polypod_requests_total": {"default,failed": failed, "default,ok": len(used)},
        "polypod_request_seconds_count": {"default": len(used)},
        "polypod_turns_total": dict(Counter(e["outcome"] for e in entries if e["type"] == "run_end")),
        "polypod_tool_calls_total": dict(calls),
        "polypod_pod_events_total": dict(Counter(told)),
        "polypod_pod_event_delivery_seconds_count": {"": len(told)},
        "polypod_spawns_total": {"child": 1, "root": 2},
        "sum by (status) (polypod_pods)": {"errored": 1, "idle": 2},
        "sum(polypod_messages_waiting)": {},
        "polypod_part_up": {"directory": 1, "store": 1},
    }


def test_a_real_prometheus_has_the_numbers_of_the_logs(polypod: Polypod, tmp_path: Path) -> None:
    program("prometheus")
    polypod.script(*LINES)
    server = polypod.start("serve", "--port", "0")
    polypod.until("the server answers", (polypod.home / "server.json").exists)
    gateway = json.loads((polypod.home / "server.json").read_text(encoding="utf-8"))["address"]
    with prometheus(tmp_path, gateway.removeprefix("http://")) as address:
        assert polypod.result("run", "go", "--name", "root")["outcome"] == "finished"
        polypod.result("run", "fail", "--name", "broken", code=1)
        pods = json.loads(get(f"{gateway}/v1/pods"))["pods"]
        logs = {pod["id"]: json.loads(get(f"{gateway}/v1/pods/{pod['id']}/log"))["entries"] for pod in pods}
        expected = from_logs(logs)
        assert expected["polypod_tool_calls_total"]["error,other"] == 1
        assert expected["sum by (kind) (polypod_tokens_total)"]["cache_read"] == 600

        limit = time.monotonic() + 15
        while (found := {query: asked(address, query) for query in expected}) != expected:
            assert time.monotonic() < limit, f"{found}\n{expected}"
            time.sleep(0.2)
        spawned = asked(address, "polypod_spawn_seconds_sum / polypod_spawn_seconds_count")
        assert 0 < spawned[""] < LIMIT
    check_metrics(get(f"{gateway}/metrics").decode())

    looked = polypod.json("top")
    assert (looked["directory"]["given_up"], looked["queue"]["waiting"]) == (0, 0)
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=LIMIT)
    after = polypod.json("top")  # nobody owns the home now: the counters are in its store
    same = ("entries", "turns", "requests", "refusals")
    assert [after["store"][name] for name in same] == [looked["store"][name] for name in same]
    assert after["store"]["entries"] == sum(len(log) for log in logs.values())
