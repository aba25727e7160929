"""Prompts with references: looked up before they are taken in, attached behind their `user_input`, or given back."""

from __future__ import annotations

from typing import Any

import pytest

from actors.pod import instructions as do
from actors.pod import stimuli as st
from actors.pod.transitions import Phase
from actors.protocol.references import Unresolved
from actors.protocol.tools import ToolOutcome
from session_store.entries import Withdrawn
from session_store.messages import Message
from session_store.requests import Deliver
from session_store.restore import restore
from tests.unit.pod.bench import PARENT, POD, Bench, call, referring


def said(bench: Bench, text: str, **body: Any) -> list[do.Instruction]:
    bench.deliver(referring(text, **body))
    return bench.hint()


def alerts(bench: Bench) -> list[tuple[str, str]]:
    return [(i.level, i.code) for i in bench.out if isinstance(i, do.RaiseAlert)]


def test_references_are_looked_up_before_the_run_and_attached_behind_the_prompt() -> None:
    bench = Bench()
    bench.notify("news", wake=False)
    said(bench, "review")
    assert (bench.phase, bench.story, bench.row.status) == (Phase.RESOLVING, [], "running")
    bench.resolved("style", "review")
    assert bench.story == [
        *("invoke prompt", "user /review", "workflow review:1", "workflow review:2", "notification news"),
    ]
    assert bench.phase is Phase.REQUESTING
    assert bench.machine.state.lookup is None


def test_plain_text_is_not_looked_up() -> None:
    bench = Bench()
    assert bench.say("see @a.md and /review, #x")[-1] == do.SendRequest(bench.request.request_id, 1, 1)  # type: ignore[union-attr]


def test_a_bad_file_reference_is_an_alert_and_the_run_goes_on() -> None:
    bench = Bench()
    said(bench, "go")
    bench.resolved(literal=(Unresolved(0, "@gone: it does not exist."),))
    assert alerts(bench) == [("warning", "reference")]
    assert bench.story == ["invoke prompt", "user /go"]
    assert bench.phase is Phase.REQUESTING


def test_T10_a_prompt_that_fails_at_the_run_is_given_back_and_the_next_one_follows() -> None:
    bench = Bench()
    bench.deliver(referring("gone"))
    bench.say("next")
    bench.resolved(bad="There is no workflow `gone`.")
    assert alerts(bench) == [("error", "prompt_refused")]
    assert bench.story == ["withdrawn gone", "invoke prompt", "user next"]
    (back,) = [e for e in bench.entries if isinstance(e, Withdrawn)]
    assert back.error is not None
    assert (back.error.type, back.segments[0].data) == ("invalid_prompt", {"slug": "gone"})
    assert bench.queue == []


@pytest.mark.parametrize(
    "segments",
    [5, [7], [{"type": "text", "text": "good"}, {"no": "type"}], [{"type": "hologram", "text": "x", "data": {}}]],
)
def test_T10_what_has_not_the_form_of_a_prompt_is_given_back(segments: Any) -> None:
    bench = Bench()
    bench.deliver(Message("odd", "prompt", "user", {"segments": segments}))
    bench.hint()
    assert bench.phase is Phase.RESOLVING
    bench.resolved(bad="malformed")
    assert bench.story == ["withdrawn odd"]
    assert bench.phase is Phase.RESTING


def test_T10_a_parent_hears_that_its_prompt_was_not_taken() -> None:
    bench = Bench(parent=True)
    said(bench, "gone", sender=PARENT)
    bench.resolved(bad="no such workflow")
    assert bench.told == [("turn_ended", "withdrawn")]
    assert bench.told_events[0]["error"] == {"type": "invalid_prompt", "message": "no such workflow"}
    assert bench.told_events[0]["event_id"] == f"{POD}:2"


def test_a_steering_prompt_goes_in_with_what_it_brings_and_keeps_its_place() -> None:
    bench = Bench().calling(call("Look"))
    bench.say("first", when_busy="steer")
    said(bench, "review", when_busy="steer")
    bench.say("third", when_busy="steer")
    bench.finish(0)
    assert (bench.phase, bench.story[-2:]) == (Phase.RESOLVING, ["results Look=ok", "user first"])
    bench.resolved("review")
    assert bench.story[-3:] == ["user /review", "workflow review:1", "user third"]
    assert bench.phase is Phase.REQUESTING


def test_T10_a_bad_steering_prompt_is_given_back_and_the_run_goes_on() -> None:
    bench = Bench().calling(call("Look"))
    said(bench, "gone", when_busy="steer")
    bench.finish(0)
    bench.resolved(bad="no such workflow")
    assert bench.story[-2:] == ["results Look=ok", "withdrawn gone"]
    assert bench.phase is Phase.REQUESTING


def test_a_run_that_went_on_only_for_a_bad_steering_prompt_ends_as_it_would_have() -> None:
    bench = Bench().working()
    said(bench, "gone", when_busy="steer")
    bench.reply("All done.")
    assert bench.phase is Phase.RESOLVING
    bench.resolved(bad="no such workflow")
    assert bench.story[-3:] == ["assistant All done.", "withdrawn gone", "end finished"]
    assert bench.phase is Phase.RESTING


def test_T02_a_cancel_during_the_lookup_gives_the_prompt_back() -> None:
    bench = Bench()
    said(bench, "review")
    bench.control("cancel")
    assert bench.said == ["AbortResolving"]
    bench.abort_resolving()
    assert bench.story == ["invoke prompt", "user /review", "end withdrawn"]
    assert restore(bench.entries).history.items == []
    assert bench.phase is Phase.RESTING


def test_T02_what_was_looked_up_goes_with_its_withdrawn_prompt() -> None:
    bench = Bench()
    said(bench, "review")
    bench.resolved("review")
    bench.control("cancel")
    bench.abort_request()
    assert bench.story == ["invoke prompt", "user /review", "workflow review:1", "end withdrawn"]
    assert restore(bench.entries).history.items == []


def test_a_stop_during_the_lookup_ends_the_pod_at_once() -> None:
    bench = Bench()
    said(bench, "review")
    bench.control("stop")
    assert bench.said == ["AbortResolving"]
    bench.abort_resolving()
    assert bench.story == ["withdrawn review", "pod_end"]


def test_an_interrupting_prompt_overtakes_one_that_is_looked_up() -> None:
    bench = Bench()
    said(bench, "review")
    said(bench, "now", when_busy="interrupt")
    assert bench.said == ["AbortResolving"]
    bench.abort_resolving()
    assert bench.resolving is not None
    assert bench.resolving.message_id == "now"
    bench.notify("more", wake=False)
    assert bench.said == []  # it is still the next one
    bench.resolved("now")
    assert bench.story[:3] == ["invoke prompt", "user /now", "workflow now:1"]


def test_time_that_is_up_during_a_steering_lookup_ends_the_run() -> None:
    bench = Bench().calling(call("Look"))
    said(bench, "review", when_busy="steer")
    bench.finish(0)
    bench.late()
    assert bench.said == ["AbortResolving"]
    bench.abort_resolving()
    assert bench.story[-1] == "end limit_reached (seconds)"


def test_L03_a_crash_during_the_lookup_looks_up_again() -> None:
    bench = Bench()
    said(bench, "review")
    bench.reopen()
    assert bench.phase is Phase.RESOLVING
    bench.resolved("review")
    assert bench.story == ["invoke prompt", "user /review", "workflow review:1"]


def test_what_was_looked_up_before_a_pause_is_looked_up_anew_after_it() -> None:
    bench = Bench().calling(call("Look"))
    said(bench, "review", when_busy="steer")
    bench.finish(0)
    bench.control("pause")
    bench.resolved("old")
    assert bench.story[-1] == "end paused"
    bench.control("resume")
    assert bench.phase is Phase.RESOLVING
    bench.resolved("new")
    assert bench.machine.state.history.items[-1].item.payload["slug"] == "new"  # type: ignore[union-attr]


def test_an_append_that_fails_keeps_what_was_looked_up() -> None:
    bench = Bench()
    said(bench, "review")
    bench.hold = True
    bench.resolved("review")
    bench.fail_append()
    bench.hold = False
    bench.feed(st.RetryDue())
    assert bench.story == ["invoke prompt", "user /review", "workflow review:1"]


def test_a_given_back_answer_leaves_its_question_to_others() -> None:
    bench = Bench().calling(call("clarify", question="Which?"))
    data = {"question": {"question": "Which?", "choices": []}}
    bench.finish(0, outcome=ToolOutcome("ok", "Asked.", None, data))
    assert bench.row.status == "waiting_on_user"
    said(bench, "gone")
    bench.resolved(bad="no such workflow")
    assert bench.row.status == "waiting_on_user"
    question = bench.machine.state.fold.question
    assert question is not None
    answer = {"question_id": question.question_id, "text": "this"}
    bench.store.execute(Deliver(POD, Message("a", "answer", "user", answer)))
    bench.hint()
    assert bench.story[-4:] == ["withdrawn gone", "closed answered", "invoke answer", "user this (answer)"]
