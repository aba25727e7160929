"""The command line over a PostgreSQL store."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.e2e.conftest import Polypod
from tests.support.postgres import PASSWORD, PostgresServer


def everything_in(*folders: Path) -> str:
    """The text of all small files below."""
    files = [p for folder in folders for p in folder.rglob("*") if p.is_file() and p.stat().st_size < 1 << 20]
    return "\n".join(p.read_text(encoding="utf-8", errors="replace") for p in files)


def test_G06_a_tree_runs_over_postgres_and_its_password_is_nowhere(polypod: Polypod, postgres: PostgresServer) -> None:
    url = postgres.database("e2e")
    polypod.script(
        {"match": {"pod": "lead", "request": 1},
         "tool_calls": [{"name": "SpawnPod", "arguments": {"task": "look", "name": "scout"}},
                        {"name": "WaitForPods", "arguments": {}}]},
        {"match": {"pod": "scout"}, "text": "seen"},
        {"match": {"pod": "lead"}, "text": "done"},
    )  # fmt: skip
    settings = polypod.home / "polypod.toml"
    plain = settings.read_text(encoding="utf-8")
    settings.write_text(f'{plain}[store]\nurl = "{url}"\n', encoding="utf-8")
    shown = f"postgresql://polypod@127.0.0.1:{postgres.port}/e2e"
    assert polypod.json("check") == {"store": shown, "damage": []}

    result = polypod.result("run", "do it", "--name", "lead")
    assert (result["status"], result["outcome"], result["text"]) == ("idle", "finished", "done")
    assert not (polypod.home / "store.db").exists()
    assert not (polypod.home / "store.lock").exists()

    pods = {pod["name"]: pod for pod in polypod.json("ps", "--all")}
    assert {name: pod["last_outcome"] for name, pod in pods.items()} == {"lead": "finished", "scout": "finished"}
    kinds = [json.loads(line)["type"] for line in polypod.run("logs", "scout", "--json").splitlines()]
    assert (kinds[0], kinds[-1]) == ("segment_start", "run_end")
    assert polypod.json("check") == {"store": shown, "damage": []}
    assert shown in polypod.run("doctor")

    out = polypod.home / "out.jsonl"
    polypod.run("export", "lead", "--tree", "-o", str(out))
    settings.write_text(f'{plain}[store]\nurl = "{postgres.database("e2e_copy")}"\n', encoding="utf-8")
    assert len(polypod.json("import", str(out))["imported"]) == 2
    assert {pod["name"] for pod in polypod.json("ps", "--all")} == {"lead", "scout"}

    settings.write_text(plain, encoding="utf-8")  # now only what polypod itself wrote is left
    assert PASSWORD not in everything_in(polypod.home, polypod.workspace)


def test_a_serve_outlives_its_database_and_keeps_others_out(polypod: Polypod, postgres: PostgresServer) -> None:
    polypod.script({"match": {}, "text": "hello"})
    settings = polypod.home / "polypod.toml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(f'{text}[store]\nurl = "{postgres.database("served")}"\n', encoding="utf-8")
    serve = polypod.start("serve", "--port", "0")
    polypod.until("it serves", (polypod.home / "server.json").exists)
    assert polypod.result("run", "say it")["text"] == "hello"

    other = Polypod(polypod.home.with_name("other"), polypod.workspace)
    other.script({"match": {}, "text": "hello"})
    (other.home / "polypod.toml").write_text(settings.read_text(encoding="utf-8"), encoding="utf-8")
    refused = other.start("run", "no")
    _, said = refused.communicate(timeout=60)
    assert refused.returncode not in (0, None)
    assert f"is owned by polypod owner {serve.pid} on" in said
    assert PASSWORD not in said

    postgres.stop(signal.SIGQUIT)
    postgres.start()
    assert polypod.result("run", "again")["text"] == "hello"
    assert len(polypod.json("ps")) == 2
    os.kill(serve.pid, signal.SIGINT)
    _, said = serve.communicate(timeout=60)
    assert PASSWORD not in said
