"""What the guide shows: two clients on one Pod, played here. The stored pictures are compared; see tests/support."""

from __future__ import annotations

from pathlib import Path

from orchestrator.tui.view import TranscriptView
from session_store.entries import Choice, LlmUsage, Question, RunEnd, SystemItems, ToolResults
from session_store.items import Reasoning, SystemItem, Text, ToolCall, ToolResult
from tests.support.stage import Stage, playing
from tests.support.terminal import Terminal, check_svg, terminal

IMAGES = Path(__file__).parents[3] / "docs" / "guides" / "images"
GUIDE = IMAGES.parent / "terminal.md"
CHILD = "00000000-0000-7000-8000-00000000c41d"
FAMILY = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"


async def test_two_clients_on_one_pod_see_the_same() -> None:
    async with playing("What has changed in docs/ since the last release? 変更点をまとめて。", "release") as stage:
        stage.take_prompts()
        stage.owner.spawn(CHILD, name="変更点")
        async with terminal(stage.address, stage.pod_id, (104, 33)) as one:
            await play_first_half(stage, one)
            async with terminal(stage.address, stage.pod_id, (64, 30)) as two:
                await two.sees("release  running", "looks at the guides")
                await two.write("keep it short, please")
                await two.pilot.press("enter")
                await two.sees("waits its turn: keep it short")
                await play_second_half(stage)
                for client in (one, two):
                    await client.sees("Which release", "> keep it short, please", "14.2k tokens in")
                    await client.until(lambda client=client: client.box.has_focus)
                await one.sees("> ? release")
                assert blocks(one) == blocks(two)
                await two.pilot.press("down")
                await two.sees("> 1. 2.3")
                check_svg(IMAGES / "attach.svg", one.svg("polypod attach release"))
                check_svg(IMAGES / "attach-second.svg", two.svg("polypod attach release"))


def test_the_guide_shows_the_pictures() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    for picture in IMAGES.glob("attach*.svg"):
        assert f"images/{picture.name}" in guide


async def play_first_half(stage: Stage, screen: Terminal) -> None:
    calls = ToolCall("a", "Grep", {"pattern": "^## ", "path": "CHANGELOG.md"}), ToolCall("b", "SpawnPod", SPAWN)
    stage.say(
        "r1", Reasoning("The changelog first."), Text("I read the changelog; a child looks at the guides."), *calls
    )
    at = stage.owner.head
    stage.owner.append(
        LlmUsage("r1", 2, 5_000, 0, 0, 220, 900),
        ToolResults((ToolResult(at, 0, "a", "Grep", "ok", "4 matches", "2.3\n2.2\n2.1\n2.0"),)),
        ToolResults((ToolResult(at, 1, "b", "SpawnPod", "ok", "started Pod 変更点"),)),
    )
    stage.owner.append(SystemItems((SystemItem("notification", "n1", {}, "docs/ was pushed to again"),)))
    await screen.sees("started Pod 変更点", "docs/ was pushed to again", "└─ * 変更点")


async def play_second_half(stage: Stage) -> None:
    stage.take_prompts()
    text = f"So far:\n\n- 3 new guides (日本語 too {FAMILY})\n- 1 page renamed"
    stage.say("r2", Text(text))
    stage.owner.append(LlmUsage("r2", 9, 9_200, 0, 0, 96, 700))
    stage.owner.append(
        Question("q1", "clarify", "Which release do you compare with?", (Choice("2.3"), Choice("2.2", "長期サポート"))),
        RunEnd(stage.owner.run_id, "waiting_on_user"),
        concluded=False,
    )


SPAWN = {"name": "変更点", "task": "list what is new in docs/guides"}


def blocks(client: Terminal) -> list[object]:
    attachment = client.app.attachment
    assert attachment is not None
    assert client.app.screen.query_one(TranscriptView).text_rows
    return list(attachment.history.blocks())
