"""The command line as users meet it: real processes, a real cluster, the scripted model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import LIMIT, Polypod


def slow(name: str, seconds: float = 60, **more: Any) -> list[dict[str, Any]]:
    """A Pod that runs a long command, then says `done`."""
    call = {"name": "Shell", "arguments": {"command": f"sleep {seconds}"}}
    return [
        {"match": {"pod": name, "request": 1}, "tool_calls": [call], **more},
        {"match": {"pod": name, "request": 2}, "text": f"{name} is done"},
    ]


def processes_of(home: Path) -> list[str]:
    """Command lines of living processes that name this home."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(home) in line:
                found.append(line)
    return found


@pytest.mark.parametrize("kind", ["empty", "mixed", "read-only"])
def test_the_demo_reports_true_figures_of_any_folder(polypod: Polypod, kind: str) -> None:
    folder = polypod.workspace
    if kind != "empty":
        (folder / "日本 語").mkdir()
        (folder / "日本 語" / "一 二.py").write_text("x\n" * 7, encoding="utf-8")
    if kind == "read-only":
        for place in (folder / "日本 語", folder):
            place.chmod(0o500)
    started = time.monotonic()
    out = polypod.run("demo", str(folder))
    print(f"demo ({kind}): {time.monotonic() - started:.1f} s")
    assert "finished · 7 Pods" in out or "finished · 8 Pods" in out
    assert f"Census of {folder.name}" in out
    expected = ["all", "0", "files"] if kind == "empty" else ["all", "1", "files", "7", "lines", "0.0", "KB"]
    assert any(line.split()[: len(expected)] == expected for line in out.splitlines())
    assert not (folder / "memory").exists()
    polypod.until("all processes are gone", lambda: not processes_of(polypod.home))


def test_a_run_prints_its_result_and_leaves_a_log(polypod: Polypod) -> None:
    (polypod.workspace / "a.txt").write_text("いろは\n", encoding="utf-8")
    polypod.script(
        {"match": {"request": 1}, "tool_calls": [{"name": "Read", "arguments": {"path": "a.txt"}}]},
        {"match": {"request": 2}, "text": "読みました", "text_from": "tool_results"},
    )
    result = polypod.result("run", "read it", "--name", "reader")
    assert (result["status"], result["outcome"]) == ("idle", "finished")
    assert "いろは" in result["text"]
    assert result["usage"]["requests"] == 2

    (pod,) = polypod.json("ps")
    assert (pod["name"], pod["owner"], pod["last_outcome"]) == ("reader", None, "finished")
    kinds = [json.loads(line)["type"] for line in polypod.run("logs", "reader", "--json").splitlines()]
    assert kinds[0] == "segment_start"
    assert kinds[-1] == "run_end"
    assert polypod.json("check")["damage"] == []

    polypod.run("export", "reader", "-o", str(polypod.home / "out.jsonl"))
    other = Polypod(polypod.home.with_name("other"), polypod.workspace)
    assert other.json("import", str(polypod.home / "out.jsonl"))["imported"] == [pod["id"]]
    assert other.run("logs", pod["id"], "--raw") == polypod.run("logs", "reader", "--raw")
    assert "exists" in other.start("import", str(polypod.home / "out.jsonl")).communicate(timeout=LIMIT)[1]


def test_a_failed_run_says_why_and_exits_1(polypod: Polypod) -> None:
    polypod.script({"error": {"type": "auth", "message": "no such key"}})
    out = polypod.run("run", "x", code=1)
    assert "no such key (auth)" in out


def test_without_a_key_the_way_out_is_named(polypod: Polypod) -> None:
    process = polypod.start("run", "x")
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 2
    assert "OPENAI_API_KEY" in err
    assert "polypod demo" in err
    assert not (polypod.home / "store.db").exists()


def test_L03_ctrl_c_cancels_the_tree_and_keeps_the_log(polypod: Polypod) -> None:
    spawn = {"name": "SpawnPod", "arguments": {"task": "sleep", "name": "child"}}
    wait = {"name": "WaitForPods", "arguments": {}}
    polypod.script(
        {"match": {"pod": "root", "request": 1}, "tool_calls": [spawn]},
        {"match": {"pod": "root", "request": 2}, "tool_calls": [wait]},
        *slow("child"),
    )
    run = polypod.start("run", "x", "--name", "root")
    polypod.until("the child works", lambda: polypod.status("child") == "running")
    time.sleep(1)
    started = time.monotonic()
    os.killpg(run.pid, signal.SIGINT)
    out, err = run.communicate(timeout=LIMIT)
    assert run.returncode == 130, err
    assert "cancelled · 2 Pods" in out
    print(f"from Ctrl-C to the end: {time.monotonic() - started:.1f} s")
    outcomes = {p["name"]: p["last_outcome"] for p in polypod.json("ps", "--all")}
    assert outcomes == {"root": "cancelled", "child": "cancelled"}


def test_S14_a_run_whose_owner_was_killed_is_shown_and_resumed(polypod: Polypod) -> None:
    polypod.script(*slow("root", 3))
    run = polypod.start("run", "x", "--name", "root")
    polypod.until("the run works", lambda: polypod.status("root") == "running" and _entries(polypod, "root") >= 4)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    (pod,) = polypod.json("ps")
    assert (pod["status"], pod["owner"]) == ("running", None)
    assert "running (no owner)" in polypod.run("ps")
    out = polypod.run("resume", "root")
    assert "root is done" in out
    assert [p["last_outcome"] for p in polypod.json("ps")] == ["finished"]
    results = [json.loads(x) for x in polypod.run("logs", "root", "--json").splitlines() if '"tool_results"' in x]
    assert len(results) == 1, "the call that was cut off is answered once"


def test_a_run_joins_the_home_and_its_owner_stays_for_it(polypod: Polypod) -> None:
    polypod.script(*slow("first", 4), *slow("second", 12))
    first = polypod.start("run", "x", "--name", "first")
    polypod.until("there is an owner", (polypod.home / "server.json").exists)
    second = polypod.start("run", "x", "--name", "second")
    out, err = first.communicate(timeout=LIMIT)
    assert first.returncode == 0, err
    assert "stays for 1 joined run" in out
    out, err = second.communicate(timeout=LIMIT)
    assert second.returncode == 0, err
    assert "second is done" in out


def test_a_joined_run_takes_the_home_when_its_owner_is_killed(polypod: Polypod) -> None:
    polypod.script(*slow("first", 60), *slow("second", 4))
    first = polypod.start("run", "x", "--name", "first")
    polypod.until("there is an owner", (polypod.home / "server.json").exists)
    second = polypod.start("run", "x", "--name", "second")
    polypod.until("it has joined", lambda: polypod.status("second") == "running" and _entries(polypod, "second") >= 4)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    out, err = second.communicate(timeout=LIMIT)
    assert second.returncode == 0, out + err
    assert "goes on with its tree" in out
    assert "second is done" in out
    assert polypod.status("first") == "running", "the tree of the killed owner is not this run's"


def test_serve_is_found_by_commands_and_ends_in_bounded_time(polypod: Polypod) -> None:
    polypod.script({"text": "hello", "repeat": True})
    server = polypod.start("serve", "--port", "0")
    assert server.stdout is not None
    line = server.stdout.readline()
    assert "http://127.0.0.1:" in line
    assert polypod.result("run", "x", "--name", "a")["outcome"] == "finished"
    assert "accepted" in polypod.run("send", "a", "again")
    polypod.until("the second run is over", lambda: polypod.json("ps")[0]["usage"]["requests"] == 2)
    assert polypod.run("stop", "a") == "a: idle -> ended\n"
    assert polypod.start("serve").communicate(timeout=LIMIT)[1].startswith("polypod: the home")
    started = time.monotonic()
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=LIMIT)
    assert server.returncode == 0
    print(f"from SIGTERM to the end: {time.monotonic() - started:.1f} s")
    assert not (polypod.home / "server.json").exists()


def test_a_pause_from_elsewhere_ends_the_run_with_3(polypod: Polypod) -> None:
    polypod.script(*slow("root", 6), {"text": "never"})
    run = polypod.start("run", "x", "--name", "root")
    polypod.until("the run works", lambda: polypod.status("root") == "running" and _entries(polypod, "root") >= 4)
    polypod.run("pause", "root")
    out, err = run.communicate(timeout=LIMIT)
    assert run.returncode == 3, err
    assert "root is paused" in out
    assert "polypod resume" in out


def _entries(polypod: Polypod, name: str) -> int:
    pods = [p for p in polypod.json("ps", "--all") if p["name"] == name]
    return pods[0]["head_seq"] if pods else 0


def test_a_closed_pipe_is_no_error(polypod: Polypod) -> None:
    polypod.home.mkdir()
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    process = polypod.start("--help")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.wait(LIMIT)


def test_a_pod_is_rewound_and_forked_and_both_go_on(polypod: Polypod) -> None:
    polypod.script(*({"match": {"request": n}, "text": f"answer {n}"} for n in range(1, 9)))
    polypod.start("serve", "--port", "0")
    polypod.until("it serves", (polypod.home / "server.json").exists)
    polypod.run("run", "one", "--name", "scout")
    polypod.run("send", "scout", "two", "--wait")
    prompts = polypod.json("rewind", "scout", "--list")
    assert [p["text"] for p in prompts] == ["one", "two"]
    assert "taken back: two" in polypod.run("rewind", "scout", str(prompts[1]["seq"]))
    fork = polypod.json("fork", "scout", "--name", "twin")
    assert (fork["status"], fork["parent_id"]) == ("idle", None)
    polypod.run("send", "twin", "three", "--wait")
    assert "answer 3" in polypod.run("send", "scout", "four", "--wait")
    assert [p["text"] for p in polypod.json("rewind", "scout", "--list")] == ["one", "four"]
    assert [p["text"] for p in polypod.json("rewind", "twin", "--list")] == ["three"]
    assert "2 items kept" in polypod.run("logs", "twin")
    assert polypod.json("check")["damage"] == []


def test_C06_a_pod_is_compacted_and_exported_and_goes_on(polypod: Polypod) -> None:
    summary = {"match": {"pod": "compact"}, "text": "<summary>They counted.</summary>", "repeat": True}
    answers = ({"match": {"pod": "scout", "request": n}, "text": f"answer {n}"} for n in range(1, 5))
    polypod.script(summary, *answers)
    polypod.start("serve", "--port", "0")
    polypod.until("it serves", (polypod.home / "server.json").exists)
    polypod.run("run", f"one {'word ' * 3_000}", "--name", "scout")
    polypod.run("send", "scout", "two", "--wait")
    assert "scout: compacted from about" in polypod.run("compact", "scout")
    assert "answer 3" in polypod.run("send", "scout", "three", "--wait")
    told = polypod.run("logs", "scout")
    assert told.count("compacted from about") == 1
    assert "word word" in told  # people still see all of it
    assert {row["worker"] for row in polypod.json("usage", "--by", "worker")["rows"]} == {"pod", "compact"}
    kinds = [json.loads(line).get("type") for line in polypod.run("export", "scout").splitlines()]
    assert kinds.count("segment_start") == 2
    assert polypod.json("check")["damage"] == []
