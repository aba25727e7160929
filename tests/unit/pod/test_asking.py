"""Questions through the real driver and the real tools: what a person allows is what happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actors.protocol.permissions import PermissionRules
from session_store.messages import USER, Message
from tests.support.local_pods import LocalPods


def writes(path: str, content: str = "x") -> dict[str, Any]:
    return {"name": "Write", "arguments": {"path": path, "content": content}}


def asking(folder: Path, *lines: dict[str, Any], **rules: Any) -> LocalPods:
    pods = LocalPods(folder, lines)
    pods.permissions = (PermissionRules("p", str(folder.resolve()), **rules),)
    return pods


async def decide(pods: LocalPods, pod: str, choice: str) -> None:
    question = (await pods.row(pod)).question
    assert question is not None
    body = {"question_id": question["question_id"], "choice": choice}
    await pods.send(pod, Message(f"answer-{question['question_id']}", "answer", USER, body))


async def results(pods: LocalPods, pod: str) -> list[tuple[str, str]]:
    story = await pods.story(pod)
    return [(r["name"], r["status"]) for e in story if e["type"] == "tool_results" for r in e["results"]]


async def test_G04_what_is_allowed_is_the_file_that_was_shown(tmp_path: Path) -> None:
    """The link is turned while the person thinks: the call does not follow it."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("a")
    pods = asking(tmp_path, {"tool_calls": [writes("link/f")]}, {"text": "done"}, ask=("Write",))
    pod = await pods.create("go")
    row = await pods.until(pod, "waiting_on_user")
    assert row.question is not None
    assert row.question["subject"] == f"Write {pods.permissions[0].root}/a/f"
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("b")
    await decide(pods, pod, "allow_once")
    await pods.until(pod, "idle")
    assert await results(pods, pod) == [("Write", "denied")]
    assert not any((tmp_path / name / "f").exists() for name in ("a", "b"))
    await pods.close()


async def test_a_grant_for_the_session_holds_in_the_next_incarnation_and_for_that_file_only(tmp_path: Path) -> None:
    one, again, other = (
        {"match": {"request": n}, "tool_calls": [writes(path, content)]}
        for n, path, content in ((1, "a", "1"), (3, "./a", "2"), (5, "b", "3"))
    )
    said = [{"match": {"request": n}, "text": "done"} for n in (2, 4, 6)]
    pods = asking(tmp_path, one, again, other, *said, ask=("Write",))
    pod = await pods.create("go")
    await pods.until(pod, "waiting_on_user")
    assert await pods.host.unbind(pod) == (True, "")  # parked: the log is enough
    await decide(pods, pod, "allow_session")
    await pods.until(pod, "idle")
    assert (tmp_path / "a").read_text() == "1"
    await pods.host.unbind(pod)
    await pods.send(pod, pods.prompt("more", "m2"))
    await pods.until(pod, "idle")
    assert (tmp_path / "a").read_text() == "2"
    await pods.send(pod, pods.prompt("and b", "m3"))
    await pods.until(pod, "waiting_on_user")
    assert not (tmp_path / "b").exists()
    await pods.close()


async def test_when_nobody_is_there_an_ask_is_a_denial_that_says_so(tmp_path: Path) -> None:
    pods = asking(tmp_path, {"tool_calls": [writes("a")]}, {"text": "done"}, ask=("Write",), away=True)
    pod = await pods.create("go")
    await pods.until(pod, "idle")
    story = await pods.story(pod)
    (result,) = (r for e in story if e["type"] == "tool_results" for r in e["results"])
    assert result["status"] == "denied"
    assert "nobody is there to be asked" in result["content"]
    assert "question" not in [e["type"] for e in story]
    await pods.close()


async def test_Q02_a_reply_with_writes_around_a_question_writes_what_stands_before_it(tmp_path: Path) -> None:
    ask = {"name": "clarify", "arguments": {"question": " Which? ", "choices": ["left", "right"]}}
    pods = LocalPods(tmp_path, [{"tool_calls": [writes("a"), ask, writes("b"), ask]}, {"text": "done"}])
    pod = await pods.create("go")
    row = await pods.until(pod, "waiting_on_user")
    assert await results(pods, pod) == [
        ("Write", "ok"),
        ("clarify", "ok"),
        ("Write", "not_run"),
        ("clarify", "not_run"),
    ]
    assert ((tmp_path / "a").exists(), (tmp_path / "b").exists()) == (True, False)
    assert (row.question or {}).get("question") == "Which?"
    assert row.requests == 1
    await pods.close()
