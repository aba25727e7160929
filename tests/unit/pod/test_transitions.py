"""The table of moves: what is not in it is refused and changes nothing; what is in it can happen."""

from __future__ import annotations

import random
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any, get_args

import pytest

from actors.pod import stimuli as st
from actors.pod.facts import PodFacts
from actors.pod.stimuli import Stimulus
from actors.pod.transitions import TRANSITIONS, IllegalStimulus, Phase
from actors.protocol.compaction import ShorterHistory
from actors.protocol.config import CompactionRule, RunLimits
from actors.protocol.model import ModelReply, Usage
from actors.protocol.references import Resolved
from actors.protocol.tools import ToolOutcome
from scripts import draw_states
from session_store.entries import AssistantItems, Invoke, PodEnd, RunEnd, Served, UserInput
from session_store.errors import Refused
from session_store.items import Problem, Segment, Text, ToolCall
from session_store.messages import Message
from session_store.requests import Appended
from session_store.restore import restore
from tests.unit.pod.bench import DONE, Bench, call, prompt, referring

STIMULI: tuple[type[Any], ...] = get_args(Stimulus)
SAMPLES: dict[type[Any], Stimulus] = {
    st.Opened: st.Opened(),
    st.MessagesArrived: st.MessagesArrived((prompt("sample"),)),
    st.Appended: st.Appended("b", Appended(1, 1, 1, ())),
    st.AppendRefused: st.AppendRefused("b", "head_moved", ""),
    st.AppendFailed: st.AppendFailed("b", ""),
    st.RetryDue: st.RetryDue(),
    st.ReferencesResolved: st.ReferencesResolved("m", Resolved()),
    st.ResolvingAborted: st.ResolvingAborted("m"),
    st.ReplyCompleted: st.ReplyCompleted("r", ModelReply((Text("x"),), Usage(), "end", 1, "m")),
    st.RequestFailed: st.RequestFailed("r", "server", ""),
    st.RequestAborted: st.RequestAborted("r"),
    st.ExtractionFixed: st.ExtractionFixed("c"),
    st.Compacted: st.Compacted("c", ShorterHistory((), 0, 0, 0)),
    st.CompactionFailed: st.CompactionFailed("c", "timeout", "x"),
    st.CompactionAborted: st.CompactionAborted("c"),
    st.CallsFinished: st.CallsFinished(((0, DONE),)),
    st.Restored: st.Restored(restore(()), PodFacts()),
    st.RestoreFailed: st.RestoreFailed("no answer"),
    st.DeadlinePassed: st.DeadlinePassed("r"),
    st.RunHalted: st.RunHalted("r", Problem("hook", "")),
    st.ParkingAsked: st.ParkingAsked(),
    st.Released: st.Released(),
    st.ReleaseRefused: st.ReleaseRefused(False),
    st.LeaseLost: st.LeaseLost("x"),
}


EVENTFUL = {Phase.FIXING: 0.75, Phase.COMPACTING: 0.75, Phase.RESOLVING: 0.6}
"""How often something comes in meanwhile."""
LOW = CompactionRule(1_000, 1_200, retained_tokens=100)


def bench_in(phase: Phase) -> Bench:
    bench = Bench(opened=phase is not Phase.NEW, compaction=LOW)
    match phase:
        case Phase.COMMITTING | Phase.STALLED:
            bench.hold = True
            bench.say("go")
            if phase is Phase.STALLED:
                bench.fail_append()
        case Phase.RESOLVING:
            bench.deliver(referring("go"))
            bench.hint()
        case Phase.REQUESTING:
            bench.working()
        case Phase.FIXING | Phase.COMPACTING:
            bench.working().reply("Done.", tokens=2_000)
            if phase is Phase.COMPACTING:
                bench.fixed()
        case Phase.CALLING:
            bench.calling(call("Act"), call("Look"))
        case Phase.RESTORING:
            bench.working().reply("Done.")
            bench.hold = True
            bench.rewind(bench.seq("user go"))
            bench.commit()
        case Phase.RELEASING:
            bench.feed(st.ParkingAsked())
        case _:
            pass
    assert bench.phase is phase
    return bench


def state_of(bench: Bench) -> Any:
    machine = bench.machine
    return deepcopy({k: v for k, v in vars(machine).items() if k != "_idempotent"})


@pytest.mark.parametrize("phase", [p for p in Phase if p is not Phase.GONE])
def test_what_is_not_in_the_table_is_refused_and_changes_nothing(phase: Phase) -> None:
    bench = bench_in(phase)
    before = state_of(bench)
    illegal = [kind for kind in STIMULI if (phase, kind) not in TRANSITIONS]
    assert illegal
    for kind in illegal:
        with pytest.raises(IllegalStimulus, match=kind.__name__):
            bench.machine.handle(SAMPLES[kind])
        assert state_of(bench) == before


def test_whoever_is_gone_ignores_everything() -> None:
    bench = Bench()
    bench.feed(st.LeaseLost("x"))
    for sample in SAMPLES.values():
        assert bench.machine.handle(sample) == []


def test_every_phase_can_be_reached_and_left() -> None:
    reachable, more = {Phase.NEW}, True
    while more:
        after = {p for (phase, _), afters in TRANSITIONS.items() if phase in reachable for p in afters}
        more = not after <= reachable
        reachable |= after
    assert reachable == set(Phase)
    for phase in set(Phase) - {Phase.GONE}:
        assert any(Phase.GONE in afters for (p, _), afters in TRANSITIONS.items() if p is phase)


def test_every_move_of_the_table_happens_and_no_other() -> None:
    """Machines driven by chance, with everything a shell may tell them."""
    seen: set[tuple[Phase, type[Any], Phase]] = set()
    for seed in range(800):
        seen |= wander(random.Random(seed))
    table = {(phase, kind, after) for (phase, kind), afters in TRANSITIONS.items() for after in afters}
    assert sorted(map(text, table - seen)) == []
    assert sorted(map(text, seen - table)) == []


def text(move: tuple[Phase, type[Any], Phase]) -> str:
    return f"{move[0]} --{move[1].__name__}--> {move[2]}"


BAD_DAY = (
    Invoke("r", "prompt", (Served("m", "user"),)),
    UserInput((Segment("text", "go"),), "m", "user"),
    AssistantItems("q", (ToolCall("b", "Look", {}),)),
    RunEnd("r", "paused"),
)


def wander(rng: random.Random) -> set[tuple[Phase, type[Any], Phase]]:
    limits = RunLimits(requests=rng.choice((None, 2)))
    rule = rng.choice((CompactionRule(), LOW, replace(LOW, threshold=0)))
    bench = Bench(
        limits=limits,
        compaction=rule,
        log=rng.choices(((), BAD_DAY, (PodEnd("stopped"),)), (10, 10, 1))[0],
        opened=False,
    )
    bench.hold, bench.checked = True, False
    stingy = rng.random() < 0.1  # a store that never commits
    for n in range(120):
        if bench.phase is Phase.GONE:
            if bench.row.status == "ended":
                break
            bench.reopen(feed=False)
        step(bench, rng, n, stingy)
    return bench.moves


def step(bench: Bench, rng: random.Random, n: int, stingy: bool) -> None:
    common = rng.random()
    phase = bench.phase
    if phase is Phase.NEW:
        bench.feed(st.LeaseLost("x") if common < 0.05 else st.Opened())
    elif common < 0.02:
        bench.flight = None
        bench.feed(st.LeaseLost("x"))
    elif common < 0.08 and (phase, st.ParkingAsked) in TRANSITIONS:
        bench.feed(st.ParkingAsked())
    elif common < 0.12:
        rng.choice((bench.late, bench.halt))()
    elif common < EVENTFUL.get(phase, 0.3):
        come(bench, rng, n)
        if rng.random() < 0.7:
            bench.hint()
    elif bench.flight is not None:
        answer_append(bench, rng, stingy)
    else:
        go_on(bench, rng)


def come(bench: Bench, rng: random.Random, n: int) -> None:
    kinds = ("prompt", "notify", "pause", "resume", "cancel", "stop", "rewind", "compact")
    compacting = bench.phase in EVENTFUL
    weights = (30, 0, 30, 40, 5, 1, 2, 2) if compacting else (30, 20, 15, 20, 10, 1, 10, 6)
    kind = rng.choices(kinds, weights)[0]
    if kind == "compact":
        with suppress(Refused):
            bench.order_compaction()
        return
    if kind == "rewind":
        prompts = [e.seq for e in bench.entries if isinstance(e, UserInput)]
        with suppress(Refused):  # most of the time the Pod is busy
            bench.rewind(rng.choice(prompts or [1]))
        return
    busy = rng.choice(("queue", "steer", "interrupt"))
    said = {"type": "text", "text": "x"} if rng.random() < 0.6 else {"type": "hologram"}
    body = {"segments": [said], "when_busy": busy} if kind == "prompt" else {}
    bench.deliver(Message(f"m{n}", kind, "user", body | ({"message": "x"} if kind == "notify" else {})))  # type: ignore[arg-type]


def answer_append(bench: Bench, rng: random.Random, stingy: bool) -> None:
    dice = rng.random()
    if stingy or dice < 0.08:
        bench.fail_append()
    elif dice < 0.1:
        bench.feed(st.AppendRefused(bench.take_flight().batch_id, "head_moved", "x"))
    else:
        bench.commit()


def go_on(bench: Bench, rng: random.Random) -> None:
    match bench.phase:
        case Phase.REQUESTING:
            ends = (
                lambda: bench.reply("Done.", tokens=rng.choice((10, 1_500, 2_500))),
                lambda: bench.fail_request("context_overflow"),
                bench.reply,
                lambda: bench.reply(call("Act"), call("Look"), call("WaitForPods"), stop="tool_calls", tokens=1_300),
                lambda: bench.break_reply("Some"),
                bench.break_reply,
                bench.fail_request,
                bench.abort_request,
            )
            rng.choice(ends)()
        case Phase.RESOLVING:
            rng.choice((bench.resolved, lambda: bench.resolved(bad="gone"), bench.abort_resolving))()
        case Phase.FIXING:
            bench.abort_compaction() if bench.aborted and rng.random() < 0.6 else bench.fixed()
        case Phase.COMPACTING:
            if bench.aborted and rng.random() < 0.6:
                bench.abort_compaction()
            else:
                rng.choice((bench.compacted, bench.compact_failed))()
        case Phase.CALLING:
            bench.finish(rng.choice(bench.running), outcome=rng.choice((DONE, ToolOutcome("error", "x"))))
        case Phase.STALLED:
            if bench.running and rng.random() < 0.5:
                bench.finish(bench.running[0])
            else:
                bench.feed(st.RetryDue())
        case Phase.RESTORING:
            bench.feed(st.RestoreFailed("no answer")) if rng.random() < 0.2 else bench.restore()
        case Phase.RELEASING:
            refused = st.ReleaseRefused(rng.random() < 0.2)
            bench.feed(refused) if rng.random() < 0.2 else bench.release()
        case _:
            pass


def test_the_drawing_is_up_to_date() -> None:
    assert draw_states.FILE.read_text(encoding="utf-8") == draw_states.drawing(), "run python -m scripts.draw_states"


def test_every_phase_is_explained() -> None:
    assert set(draw_states.PHASES) == set(Phase)
