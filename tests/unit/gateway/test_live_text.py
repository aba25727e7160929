"""Blocks in flight as the gateway keeps them."""

from actors.protocol.live import Delta, Discard, Retry
from orchestrator.gateway.live_text import LiveText
from session_store.entries import AssistantItems, ToolResults
from session_store.items import Text, ToolResult


def delta(text: str, offset: int = 0, block: str = "r.1.0", after: int = 3, request_id: str = "r") -> Delta:
    return Delta(request_id, block, offset, text, after)


def texts(live: LiveText) -> dict[str, str]:
    return {name: block.text for name, block in live.blocks.items()}


def test_deltas_grow_a_block_and_what_overlaps_is_taken_once() -> None:
    live = LiveText()
    assert live.take([delta("ab"), delta("cd", 2)], snapshot=False)
    assert live.take([delta("abcd"), delta("bcde", 1)], snapshot=False)
    assert texts(live) == {"r.1.0": "abcde"}


def test_text_that_lacks_its_beginning_asks_for_it() -> None:
    live = LiveText()
    assert not live.take([delta("c", 2)], snapshot=False)
    assert texts(live) == {}
    assert live.take([delta("ab")], snapshot=False)
    assert not live.take([delta("d", 3)], snapshot=False)
    assert texts(live) == {"r.1.0": "ab"}


def test_the_entry_ends_its_requests_blocks_and_late_deltas_are_left_out() -> None:
    live = LiveText()
    live.take([delta("ab"), delta("x", block="other", request_id="s")], snapshot=False)
    assert live.commit(AssistantItems("r", (Text("ab", "r.1.0"),), seq=4))
    assert texts(live) == {"other": "x"}
    assert live.take([delta("late", 2), delta("late", block="r.1.1")], snapshot=False)
    assert texts(live) == {"other": "x"}


def test_a_tools_block_ends_with_its_result_not_with_the_reply_that_called_it() -> None:
    live = LiveText()
    live.commit(AssistantItems("r", (), seq=4))
    live.take([delta("out", block="tool:4.0", after=4), delta("two", block="tool:4.1", after=4)], snapshot=False)
    live.commit(ToolResults((ToolResult(4, 0, "c", "Shell", "ok", "s"),), seq=5))
    assert texts(live) == {"tool:4.1": "two"}


def test_a_discard_forgets_the_requests_blocks() -> None:
    live = LiveText()
    live.take([delta("ab"), delta("y", block="s", request_id="s"), Discard("r"), delta("n", block="r.2.0")], False)
    assert texts(live) == {"s": "y", "r.2.0": "n"}


def test_old_retries_are_no_news() -> None:
    live = LiveText()
    live.take([Retry("r", 2, 0.5, "busy")], snapshot=True)
    assert live.retries.count == 0
    live.take([Retry("r", 3, 0.5, "busy")], snapshot=False)
    assert live.retries.after(0) == [Retry("r", 3, 0.5, "busy")]
