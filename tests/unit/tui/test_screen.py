"""The whole screen against a real gateway whose Pods the test plays."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from textual.events import Paste

from orchestrator.cli.failure import OwnerLost
from orchestrator.events import Resync
from orchestrator.gateway.context import Gateway
from orchestrator.gateway.server import serve
from orchestrator.tui.desk import PAGE
from orchestrator.tui.view import TranscriptView
from session_store.entries import (
    AssistantItems,
    Choice,
    LlmUsage,
    LogEntry,
    Question,
    QuestionClosed,
    RunEnd,
    SystemItems,
    ToolResults,
    Unknown,
)
from session_store.items import Reasoning, SystemItem, Text, ToolCall, ToolResult
from session_store.messages import USER
from tests.support.gateway import QUICK
from tests.support.stage import Stage, playing
from tests.support.terminal import Terminal, terminal

FAMILY = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with playing("数えて", "census") as played:
        yield played


def times(screen: Terminal, words: str) -> int:
    """How often the transcript says it, rows put together."""
    return "".join(screen.app.screen_stack[0].query_one(TranscriptView).text_rows).count(words)


async def test_V03_live_text_becomes_the_committed_item(stage: Stage) -> None:
    stage.take_prompts()
    stage.live.text("r", "r.1.0", "日本🙂")
    async with terminal(stage.address, stage.pod_id) as screen:
        await screen.sees("> 数えて", "日本🙂", "running")
        stage.live.text("r", "r.1.0", " and more")
        await screen.sees("日本🙂 and more")
        stage.say("r", Reasoning("hm"), Text("日本🙂 and more", "r.1.0"), ToolCall("c", "Shell", {"command": "ls"}))
        await screen.sees("thinks: hm", "Shell ls  runs")
        assert times(screen, "日本🙂 and more") == 1
        stage.live.text("x", f"tool:{stage.owner.head}.0", "one\ntwo\n")
        await screen.sees("two")
        stage.owner.append(ToolResults((ToolResult(stage.owner.head, 0, "c", "Shell", "ok", "2 lines", "one\ntwo"),)))
        await screen.sees("Shell ls  2 lines")
        assert times(screen, "two") == 0
        await screen.pilot.press("ctrl+o")
        await screen.sees('"command": "ls"', "two")


async def test_V03_a_prompt_sent_at_once_is_shown_once(stage: Stage) -> None:
    async with terminal(stage.address, stage.pod_id) as screen:
        await screen.write("and 犬")
        await screen.pilot.press("enter")
        await screen.sees("waits its turn: and 犬")
        await screen.until(lambda: len(stage.messages()) == 2)
        stage.take_prompts()
        await screen.sees("> 数えて", "> and 犬")
        assert times(screen, "and 犬") == 1
        assert screen.box.text == ""


async def test_a_live_notification_appears_once(stage: Stage) -> None:
    item = SystemItem("notification", "n1", {"message": "deploy done"}, "deploy done 済")
    async with terminal(stage.address, stage.pod_id) as screen:
        stage.take_prompts()
        stage.owner.append(SystemItems((item,)))
        await screen.sees("* notification deploy done 済")
        stage.owner.end()
        await screen.sees("-- finished")
        assert times(screen, "deploy done") == 1
        assert screen.text.count("deploy done") == 1


async def test_V09_unknown_kinds_wide_characters_and_very_long_lines(stage: Stage) -> None:
    stage.take_prompts()
    line = f"とても長い行 {FAMILY}🇯🇵" * 300 + "x" * 3000
    async with terminal(stage.address, stage.pod_id, (61, 24)) as screen:
        stage.owner.append(Unknown("from_the_future", {"x": "日本"}))
        await screen.sees("from_the_future", "日本")
        stage.owner.append(SystemItems((SystemItem("hologram", "h", {}, "新しい"),)))
        await screen.sees("* hologram 新しい")
        stage.say("r", Text(line))
        await screen.until(lambda: times(screen, FAMILY) == 300)
        assert times(screen, "とても長い行") + times(screen, "x" * 50) > 0
        for strip in screen.app.screen._compositor.render_strips():
            assert strip.cell_length == 61
        for key in ("pageup", "pageup", "ctrl+home", "ctrl+end"):
            await screen.pilot.press(key)
        await screen.pilot.resize_terminal(33, 12)
        await screen.until(lambda: all(s.cell_length == 33 for s in screen.app.screen._compositor.render_strips()))
        assert times(screen, FAMILY) == 300


async def test_V09_no_key_is_lost_while_a_stream_is_fast(stage: Stage) -> None:
    stage.take_prompts()
    typed = "the quick 犬 0123456789"
    async with terminal(stage.address, stage.pod_id) as screen:
        sent = ""
        for number, char in enumerate(typed):
            piece = f"{number} 速い text " * 20
            stage.live.text("r", "r.1.0", piece)
            sent += piece
            await screen.pilot.press("space" if char == " " else char)
        assert screen.box.text == typed
        await screen.pilot.press("x", "backspace", "ctrl+j", "y", "left", "z")
        assert screen.box.text == f"{typed}\nzy"
        stage.say("r", Text(sent, "r.1.0"))
        rows = screen.app.screen.query_one(TranscriptView)
        await screen.until(lambda: sent.replace(" ", "") in "".join(rows.text_rows).replace(" ", ""))


async def test_a_question_is_a_form(stage: Stage) -> None:
    stage.take_prompts()
    stage.owner.append(
        Question("q1", "clarify", "Which 色?", (Choice("red"), Choice("青", "like the sky"))),
        RunEnd(stage.owner.run_id, "waiting_on_user"),
        concluded=False,
    )
    async with terminal(stage.address, stage.pod_id) as screen:
        await screen.sees("Which 色?", "1. red", "2. 青: like the sky")
        await screen.pilot.press("enter")
        await screen.sees("choose by number")
        await screen.pilot.press("down", "down")
        await screen.sees("> 2. 青")
        await screen.pilot.press("1")
        await screen.sees("> 1. red")
        await screen.pilot.press("enter")
        await screen.until(lambda: len(stage.messages()) == 1)
        assert stage.messages()[0].body == {"question_id": "q1", "choice": "red"}
        await screen.until(lambda: "1. red" not in screen.text)
        stage.owner.append(QuestionClosed("q1", "answered", USER, choice="red"), consumes=())
        await screen.sees("answered by user: red")


async def test_Q08_another_client_has_answered(stage: Stage) -> None:
    stage.take_prompts()
    stage.owner.ask("q1", "red", "blue")
    async with terminal(stage.address, stage.pod_id) as screen:
        await screen.sees("1. red")
        answer = {"question_id": "q1", "choice": "red"}
        (await stage.served.http.post(f"/v1/pods/{stage.pod_id}/answer", json=answer)).raise_for_status()
        await screen.write("blue please")
        await screen.pilot.press("enter")
        await screen.until(lambda: screen.box.text == "blue please")
        assert len(stage.messages()) == 1


async def test_a_permission_question_needs_a_choice(stage: Stage) -> None:
    stage.take_prompts()
    stage.owner.ask("q1", "allow_once", "allow_session", "deny", kind="permission")
    async with terminal(stage.address, stage.pod_id) as screen:
        await screen.sees("3. deny", "goes along as the reason")
        await screen.write("too risky")
        await screen.pilot.press("enter")
        await screen.sees("choose by number")
        assert screen.box.text == "too risky"
        await screen.pilot.press("up")
        await screen.sees("> 3. deny")
        await screen.pilot.press("enter")
        await screen.until(lambda: len(stage.messages()) == 1)
        assert stage.messages()[0].body == {"question_id": "q1", "choice": "deny", "text": "too risky"}


async def test_alerts_stand_in_the_bar_and_not_in_the_transcript(stage: Stage) -> None:
    async with terminal(stage.address, stage.pod_id) as screen:
        stage.plane.alert("a1", stage.pod_id, "no such file: 無.txt")
        await screen.sees("warning: no such file: 無.txt")
        assert times(screen, "no such file") == 0
        await screen.pilot.press("f2")
        await screen.sees("Alerts")
        await screen.pilot.press("escape")


async def test_pause_resume_and_a_cancel_that_takes_two_keys(stage: Stage) -> None:
    stage.take_prompts()
    async with terminal(stage.address, stage.pod_id) as screen:
        await screen.sees("running")
        await screen.pilot.press("ctrl+p")
        await screen.until(lambda: [m.kind for m in stage.messages()] == ["pause"])
        await screen.pilot.press("escape")
        await screen.sees("esc again cancels")
        await screen.pilot.press("x", "escape")
        await screen.pilot.pause(0.1)
        assert [m.kind for m in stage.messages()] == ["pause"]
        await screen.pilot.press("escape")
        await screen.until(lambda: [m.kind for m in stage.messages()] == ["pause", "cancel"])


async def test_steer_and_cut_in(stage: Stage) -> None:
    stage.take_prompts()
    async with terminal(stage.address, stage.pod_id) as screen:
        await screen.sees("running")
        await screen.write("left")
        await screen.pilot.press("ctrl+s")
        await screen.sees("goes in at the next step: left")
        await screen.write("stop")
        await screen.pilot.press("ctrl+g")
        await screen.until(lambda: len(stage.messages()) == 2)
        assert [m.body["when_busy"] for m in stage.messages()] == ["steer", "interrupt"]


async def test_a_pod_of_10000_entries_opens_with_its_end_and_pages_upwards(stage: Stage) -> None:
    stage.take_prompts()
    entries: list[LogEntry] = [AssistantItems(f"r{n}", (Text(f"reply number {n}."),)) for n in range(10_000)]
    for start in range(0, len(entries), 500):
        stage.owner.append(*entries[start : start + 500])
    async with terminal(stage.address, stage.pod_id) as screen:
        await screen.sees("reply number 9999.")
        reads = stage.plane.waiting.calls["Read"]
        assert reads < 20
        first = screen.app.attachment.history.first if screen.app.attachment else 0
        assert first > 10_000 - PAGE
        await screen.pilot.press("ctrl+home")
        await screen.until(lambda: bool(screen.app.attachment and screen.app.attachment.history.first < first))
        seen = screen.text
        await screen.pilot.press("pageup")
        await screen.until(lambda: screen.text != seen)
        await screen.pilot.press("ctrl+end")
        await screen.sees("reply number 9999.")


async def test_the_first_prompt_of_an_empty_home_makes_a_pod(stage: Stage) -> None:
    async with terminal(stage.address, None) as screen:
        await screen.sees("new Pod", "the task of a new Pod")
        await screen.pilot.press("ctrl+q")
    assert screen.app.return_code == 0


async def test_the_tree_at_the_side_changes_the_pod(stage: Stage) -> None:
    stage.take_prompts()
    child = stage.owner.spawn("00000000-0000-7000-8000-00000000c41d", name="子ども").session
    async with terminal(stage.address, stage.pod_id, (110, 24)) as screen:
        await screen.sees("└─ * 子ども", "> * census")
        await screen.pilot.press("ctrl+down")
        await screen.until(lambda: screen.app.attachment is not None and screen.app.attachment.pod_id == child)
        await screen.sees("子ども  running")
        await screen.pilot.press("ctrl+t", "up", "enter")
        await screen.sees("census  running")
        await screen.pilot.press("ctrl+t", "ctrl+t")
        await screen.until(lambda: "└─" not in screen.text)


async def test_tokens_stand_in_the_head(stage: Stage) -> None:
    stage.take_prompts()
    stage.owner.append(LlmUsage("r", 2, 12_000, 0, 0, 345, 900))
    async with terminal(stage.address, stage.pod_id) as screen:
        await screen.sees("12.0k tokens in, 345 out", "1 request")


async def test_V01_a_server_that_goes_away_and_comes_back_loses_nothing(stage: Stage) -> None:
    stage.take_prompts()
    port = int(stage.address.rpartition(":")[2])
    async with terminal(stage.address, stage.pod_id) as screen:
        stage.live.text("r", "r.1.0", "half a ")
        await screen.sees("half a")
        await stage.served.server.close()
        await screen.sees("server away", "does not answer")
        await screen.write("meanwhile")
        await screen.pilot.press("enter")
        await screen.until(lambda: screen.box.text == "meanwhile")
        stage.live.text("r", "r.1.0", "reply")
        again = await serve(Gateway(stage.plane, QUICK), "127.0.0.1", port)
        try:
            await screen.sees("half a reply")
            await screen.until(lambda: "server away" not in screen.text)
            stage.say("r", Text("half a reply", "r.1.0"))
            await screen.pilot.press("enter")
            await screen.sees("waits its turn: meanwhile")
            await screen.until(lambda: [m.kind for m in stage.messages()] == ["prompt"])
            assert times(screen, "half a reply") == 1
        finally:
            await again.close()


async def test_a_prompt_whose_answer_was_lost_goes_again_under_its_id(stage: Stage) -> None:
    async with terminal(stage.address, stage.pod_id) as screen:
        sent: list[str] = []

        def lost(pod_id: str, segments: object, message_id: str, when_busy: str) -> None:
            sent.append(message_id)
            raise OwnerLost("the connection broke")

        screen.desk.send = lost  # type: ignore[method-assign]  # the answer is lost, whatever the gateway did
        for count in (1, 2):
            if count == 1:
                await screen.write("once")
            await screen.pilot.press("enter")
            await screen.until(lambda count=count: len(sent) == count and screen.box.text == "once")
        assert sent[0] == sent[1]


async def test_completion_of_references(stage: Stage) -> None:
    asked: list[tuple[str, str]] = []

    def complete(pod_id: str, sigil: str, prefix: str) -> list[dict[str, str]]:
        asked.append((sigil, prefix))
        found = [
            {"target": "docs/", "kind": "folder"},
            {"target": "do 日本.md", "kind": "file", "description": "日本語"},
        ]
        return [one for one in found if one["target"].startswith(prefix)]

    async with terminal(stage.address, stage.pod_id) as screen:
        screen.desk.complete = complete  # type: ignore[method-assign]  # what it looks like, not what is in a folder
        await screen.write("see @do")
        await screen.sees("@docs/", '@"do 日本.md"  日本語')
        await screen.pilot.press("down", "tab")
        assert screen.box.text == 'see @"do 日本.md" '
        assert asked == [("@", ""), ("@", "d"), ("@", "do")]
        await screen.write("@do")
        await screen.sees("@docs/")
        await screen.pilot.press("escape")
        await screen.until(lambda: "@docs/" not in screen.text)
        await screen.write("c")
        await screen.pilot.pause()
        assert "@docs/" not in screen.text


async def test_a_paste_is_a_segment_of_its_own(stage: Stage) -> None:
    async with terminal(stage.address, stage.pod_id) as screen:
        await screen.write("look ")
        screen.box.post_message(Paste("一\r二\r三\r四"))
        await screen.until(lambda: "[paste 1: 4 lines, 7 characters]" in screen.box.text)
        screen.box.post_message(Paste("短い"))
        await screen.until(lambda: screen.box.text.endswith("短い"))
        await screen.pilot.press("enter")
        await screen.until(lambda: len(stage.messages()) == 2)
        segments = [(s["type"], s["text"]) for s in stage.messages()[1].body["segments"]]
        assert segments == [("text", "look "), ("paste", "一\n二\n三\n四"), ("text", "短い")]


async def test_backspace_takes_a_paste_as_one(stage: Stage) -> None:
    async with terminal(stage.address, stage.pod_id) as screen:
        screen.box.post_message(Paste("a\nb\nc\nd"))
        await screen.until(lambda: bool(screen.box.text))
        await screen.pilot.press("backspace")
        assert screen.box.text == ""


async def test_the_transcript_opens_calls_and_stays_where_a_person_reads(stage: Stage) -> None:
    stage.take_prompts()
    stage.say("r", *(ToolCall(f"c{n}", "Shell", {"command": f"step {n}"}) for n in range(30)))
    async with terminal(stage.address, stage.pod_id, (80, 20)) as screen:
        await screen.sees("step 29")
        await screen.pilot.press("shift+tab", "up", "up", "enter")
        await screen.sees('"command": "step 28"')
        await screen.pilot.press("ctrl+home")
        await screen.sees("step 0")
        seen = [row[:70] for row in screen.rows[1:10]]
        stage.live.text("x", "r2.1.0", "text below\n" * 30)
        await screen.until(lambda: times(screen, "text below") == 30)
        assert [row[:70] for row in screen.rows[1:10]] == seen
        await screen.pilot.press("q")
    assert screen.app.return_code == 0


async def test_tasks_are_asked_for_when_they_may_have_changed(stage: Stage) -> None:
    asked: list[str] = []
    tasks: list[dict[str, object]] = [
        {"taskid": 1, "status": "completed", "subject": "look"},
        {"taskid": 2, "status": "inprogress", "subject": "書く"},
    ]

    def tell(pod_id: str) -> list[dict[str, object]]:
        asked.append(pod_id)
        return tasks

    stage.take_prompts()
    async with terminal(stage.address, stage.pod_id) as screen:
        await screen.until(lambda: screen.app.planned == 0)
        screen.desk.tasks = tell  # type: ignore[method-assign]  # how a list comes to be is another test's
        stage.owner.append(LlmUsage("r", 2, 12_000, 0, 0, 345, 900))
        await screen.sees("12.0k tokens in")
        assert not asked
        stage.say("r", ToolCall("c", "TaskCreate", {"subject": "書く"}))
        stage.owner.append(ToolResults((ToolResult(stage.owner.head, 0, "c", "TaskCreate", "ok", "created 2"),)))
        await screen.sees("tasks 1/2", "> 2 書く")
        assert asked == [stage.pod_id]
        await screen.pilot.press("ctrl+l")
        await screen.until(lambda: "tasks 1/2" not in screen.text)


async def test_V02_a_cursor_that_cannot_be_gone_on_from_opens_the_pod_anew(stage: Stage) -> None:
    async with terminal(stage.address, stage.pod_id) as screen:
        await screen.until(lambda: screen.app.attachment is not None)
        before = screen.app.attachment
        assert before is not None
        stage.take_prompts()
        await screen.sees("> 数えて")
        before.resync = Resync("purged", 1, None)
        stage.live.text("r", "r.1.0", "more")
        await screen.sees("opened anew", "> 数えて", "more")
        assert screen.app.attachment is not before
        assert times(screen, "数えて") == 1
