"""A gateway over a dictionary: speaks the HTTP seam, and moves to its next stage at each look at a tree."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from orchestrator.home import Home, Owner

SECRET = "the-secret"
STAMP = "2026-11-30T12:00:00.000Z"
ROOT = "01990000-0000-7000-8000-000000000001"
CHILD = "01990000-0000-7000-8000-000000000002"


def pod(pod_id: str = ROOT, **more: Any) -> dict[str, Any]:
    return {
        "id": pod_id,
        "name": "census",
        "parent_id": None,
        "root_id": ROOT,
        "status": "running",
        "owner": f"{pod_id}#1",
        "generation": 1,
        "head_seq": 0,
        "usage": {"requests": 2, "input": 1200, "cache_read": 0, "cache_write": 0, "output": 34},
        "children": [],
        "queue": 0,
        "created_at": STAMP,
        "updated_at": STAMP,
        **more,
    }


@dataclass
class FakeGateway:
    """`stages` are called one after the other, each at a look at a tree (`GET /v1/pods?root=`)."""

    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    logs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    live: dict[str, list[tuple[str, dict[str, Any]]]] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=lambda: {"status": "idle", "outcome": "finished", "text": "done"})
    tasks: dict[str, Any] = field(default_factory=dict)
    stages: list[Callable[[FakeGateway], None]] = field(default_factory=list)
    posts: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What a POST is answered, by the last part of its path."""
    problem: dict[str, Any] | None = None
    unavailable: int = 0
    """So many reads are answered that the store cannot be reached."""
    on_post: Callable[[FakeGateway, str], None] | None = None
    address: str = ""

    def add(self, pod_id: str = ROOT, **more: Any) -> None:
        self.pods[pod_id] = pod(pod_id, **more)

    def set(self, pod_id: str = ROOT, **more: Any) -> None:
        self.pods[pod_id].update(more)

    def write(self, pod_id: str, type_: str, **fields: Any) -> None:
        log = self.logs.setdefault(pod_id, [])
        log.append({"seq": len(log) + 1, "ts": STAMP, "type": type_, **fields})
        self.pods[pod_id]["head_seq"] = len(log)

    def get(self, path: str, query: dict[str, str]) -> Any:
        parts = path.strip("/").split("/")
        if path == "/healthz":
            return {"ok": True}
        if path == "/v1/pods":
            return self.listing(query)
        if path == "/v1/inbox":
            return {"questions": [p["question"] for p in self.pods.values() if "question" in p]}
        found = self.pods.get(parts[2])
        if found is None:
            return None
        match parts[3:]:
            case []:
                return found
            case ["log"]:
                after, limit = int(query.get("after", 0)), int(query.get("limit", 100))
                entries = [e for e in self.logs.get(parts[2], []) if e["seq"] > after][:limit]
                return {"entries": entries, "head_seq": found["head_seq"]}
            case ["tasks"]:
                return self.tasks
            case ["result"]:
                return self.result
            case _:
                return None

    def listing(self, query: dict[str, str]) -> Any:
        if "root" in query and self.stages:
            self.stages.pop(0)(self)
        wanted = {"status": "status", "name": "name", "root": "root_id", "parent": "parent_id"}
        rows = list(self.pods.values())
        for key, name in wanted.items():
            rows = [p for p in rows if key not in query or p[name] == query[key]]
        return {"pods": rows, "next": None}

    def post(self, path: str, body: dict[str, Any]) -> Any:
        self.posts.append((path, body))
        if self.on_post is not None:
            self.on_post(self, path)
        if path == "/v1/pods":
            if ROOT not in self.pods:
                self.add(name=body.get("name") or "task")
            return self.pods[ROOT]
        return self.answers.get(path.rpartition("/")[2], {"accepted": True})


@contextmanager
def served(fake: FakeGateway, home_path: Path, memory_root: str = "") -> Iterator[Home]:
    """The fake as the owner of a home."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    fake.address = f"http://127.0.0.1:{server.server_address[1]}"
    home = Home(home_path)
    ownership = home.own()
    assert ownership is not None
    ownership.announce(Owner(fake.address, SECRET, 1, memory_root=memory_root))
    try:
        yield home
    finally:
        ownership.close()
        server.shutdown()
        server.server_close()


def _handler(fake: FakeGateway) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = {k: v[0] for k, v in parse_qs(url.query).items()}
            if url.path.endswith("/events"):
                self.stream(url.path.split("/")[3], int(query.get("after", 0)))
                return
            if fake.unavailable and url.path != "/healthz":
                fake.unavailable -= 1
                self.reply(503, {"type": "about:blank", "detail": "The store cannot be reached now."})
                return
            self.answer(fake.get(url.path, query))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if fake.problem is not None:
                self.reply(fake.problem["status"], fake.problem)
                return
            self.answer(fake.post(self.path, body))

        def stream(self, pod_id: str, after: int) -> None:
            """What there is, then the end: the client reads the rest from the log."""
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b": hello\n\n")
            for name, data in fake.live.get(pod_id, []):
                self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
            for entry in fake.logs.get(pod_id, []):
                if entry["seq"] > after:
                    self.wfile.write(f"id: {entry['seq']}\nevent: entry\ndata: {json.dumps(entry)}\n\n".encode())
            self.close_connection = True

        def answer(self, value: Any) -> None:
            if self.headers.get("Authorization") != f"Bearer {SECRET}":
                self.reply(401, {"type": "urn:polypod:forbidden", "detail": "No token."})
            elif value is None:
                self.reply(404, {"type": "urn:polypod:not-found", "detail": "There is no such Pod."})
            else:
                self.reply(200, value)

        def reply(self, status: int, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
