"""What a model's reply means for its run: pure judgements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from actors.pod.endings import Commit, Ending
from actors.protocol.model import ModelReply
from actors.protocol.system_items.interrupt import INTERRUPT, Interrupt
from session_store.entries import AssistantItems, LlmUsage, SystemItems
from session_store.items import AssistantItem, Problem

BROKEN_TEXT = "Your last reply was cut off by a broken connection. What is above is kept; go on from there."


@dataclass(frozen=True, slots=True)
class Verdict:
    """`calls`: run them. `go_on`: ask again. `nothing`: neither text nor call. `end`: the run ends as `ending` says."""

    kind: Literal["calls", "go_on", "nothing", "end"]
    ending: Ending | None = None


def judge(reply: ModelReply) -> Verdict:
    """One defined outcome for each stop reason."""
    text = text_of(reply.items)
    if any(i.type == "tool_call" for i in reply.items):
        return Verdict("calls")
    if reply.stop == "refusal":
        problem = Problem("refused", text or "The provider refused to answer.")
        return Verdict("end", Ending("errored", problem, text=text))
    if reply.stop == "pause":
        return Verdict("go_on")
    if not text.strip():
        return Verdict("nothing")
    if reply.stop == "length":
        problem = Problem("output_tokens", "The reply reached the model's output limit and is cut off.")
        return Verdict("end", Ending("limit_reached", problem, text=text))
    return Verdict("end", Ending("finished", text=text))


def reply_commit(request_id: str, history_len: int, reply: ModelReply, with_items: bool = True) -> Commit:
    """The reply's items (if there are any and they are wanted) and its usage, which is counted in any case."""
    usage = reply.usage
    commit = Commit()
    if reply.items and with_items:
        commit.add(AssistantItems(request_id, reply.items))
    commit.add(
        LlmUsage(
            request_id=request_id,
            history_len=history_len,
            input=usage.input,
            cache_read=usage.cache_read,
            cache_write=usage.cache_write,
            output=usage.output,
            latency=reply.latency,
            model=reply.model,
            estimated=usage.estimated,
            first_token=reply.first_token,
        )
    )
    return commit


def cut_off(request_id: str) -> SystemItems:
    """Tells the model that its last reply broke off (case M01)."""
    return SystemItems((INTERRUPT.item(f"{request_id}:broken", Interrupt("broken_stream", BROKEN_TEXT)),))


def text_of(items: Iterable[AssistantItem]) -> str:
    return "".join(i.text for i in items if i.type == "text")
