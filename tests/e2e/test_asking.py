"""Questions as people meet them: real processes, a real cluster, the scripted model."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import LIMIT, Polypod


def calls(pod: str, request: int, *tools: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "match": {"pod": pod, "request": request},
        "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in tools],
    }


def says(pod: str, request: int, text: str) -> dict[str, Any]:
    return {"match": {"pod": pod, "request": request}, "text": text}


def below(pid: int) -> list[int]:
    """The process and all below it."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with suppress(OSError):
                fields = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(place.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def kill_all(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


CHOICES = [{"label": "left", "description": "the short way"}, "do nothing: the way stays as it is"]


def test_Q04_Q07_a_question_at_depth_three_survives_a_kill_of_every_process(polypod: Polypod) -> None:
    polypod.script(
        calls("root", 1, ("SpawnPod", {"task": "ask for me", "name": "middle"})),
        calls("root", 2, ("WaitForPods", {})),
        says("root", 3, "root is done"),
        calls("middle", 1, ("SpawnPod", {"task": "ask the person", "name": "leaf"})),
        calls("middle", 2, ("WaitForPods", {})),
        calls("middle", 3, ("WaitForPods", {})),  # its wait ended with the news that leaf asks
        says("middle", 4, "middle is done"),
        calls("leaf", 1, ("clarify", {"question": " Which way? ", "choices": CHOICES})),
        says("leaf", 2, "leaf goes left"),
    )
    serve = polypod.start("serve", "--port", "0")
    polypod.until("it serves", (polypod.home / "server.json").exists)
    ended = polypod.result("run", "go", "--name", "root", code=3)
    assert [q["question"] for q in ended["questions"]] == ["Which way?"]

    pids = below(serve.pid)
    assert len(pids) > 5  # Ray, the store, the Directory, warm Pods
    kill_all(pids)
    serve.communicate(timeout=30)
    (asked,) = polypod.json("inbox")
    assert (asked["pod_name"], asked["kind"], asked["question"]) == ("leaf", "clarify", "Which way?")
    assert [c["label"] for c in asked["choices"]] == ["left", "do nothing: the way stays as it is"]
    waiting = polypod.run("ps", "--waiting")
    assert "a person: an answer" in waiting
    assert "polypod answer" in waiting
    moved = {p["name"]: p["head_seq"] for p in polypod.json("ps")}

    result = json.loads(polypod.run("answer", asked["question_id"], "--choice", "left", "--json").splitlines()[-1])
    assert (result["outcome"], result["text"]) == ("finished", "root is done")
    log = [json.loads(line) for line in polypod.run("logs", "leaf", "--json").splitlines()]
    kinds = [e["type"] for e in log]
    assert kinds.count("question") == kinds.count("question_closed") == 1
    closed = next(e for e in log if e["type"] == "question_closed")
    assert (closed["how"], closed["choice"], closed["by"]) == ("answered", "left", "user")
    assert all(e["seq"] > moved["leaf"] for e in log[kinds.index("question_closed") :])
    assert polypod.json("inbox") == []
    late = polypod.start("answer", asked["question_id"], "--text", "right, after all")
    assert "is answered already" in late.communicate(timeout=LIMIT)[1]
    assert late.returncode == 1


@pytest.mark.parametrize(("choice", "text"), [("allow_once", "OK"), ("deny", "denied")])
def test_a_call_that_a_person_must_allow_waits_for_the_decision(polypod: Polypod, choice: str, text: str) -> None:
    polypod.script(
        calls("root", 1, ("Shell", {"command": "echo OK > made.txt && cat made.txt"}), ("Glob", {"pattern": "*"})),
        {"match": {"pod": "root", "request": 2}, "text_from": "tool_results"},
    )
    with (polypod.home / "polypod.toml").open("a", encoding="utf-8") as file:
        file.write('[profiles.default.permissions]\nallow = ["Glob", "Shell(ls *)"]\n')
    out = polypod.run("run", "go", "--name", "root", code=3)
    assert "May root use Shell: echo OK > made.txt && cat made.txt" in out
    assert "--choice allow_once|allow_session|deny" in out
    assert not (polypod.workspace / "made.txt").exists()

    result = json.loads(polypod.run("answer", "root", choice, "--json").splitlines()[-1])
    assert result["outcome"] == "finished"
    assert text in result["text"]
    assert (polypod.workspace / "made.txt").exists() is (choice == "allow_once")
    log = [json.loads(line) for line in polypod.run("logs", "root", "--json").splitlines()]
    kinds = [e["type"] for e in log]
    assert kinds.count("invoke") == 1
    assert ("tool_started" in kinds) is (choice == "allow_once")
