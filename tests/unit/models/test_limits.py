"""The state machine of the shared limits, against a plain count of what it let through."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from actors.models.limits import WINDOW, Ask, Granted, LimitsCore, Waiting

_STEP = st.tuples(st.sampled_from(["ask", "release", "time"]), st.integers(0, 9), st.floats(0.1, 20))


@given(st.lists(_STEP, max_size=60), st.integers(1, 4), st.integers(1, 3), st.integers(60, 200))
def test_no_minute_holds_more_than_allowed(
    steps: list[tuple[str, int, float]], requests: int, at_once: int, tokens: int
) -> None:
    core, now, count = LimitsCore(), 0.0, 0
    granted: list[tuple[float, int]] = []
    held: dict[str, Ask] = {}
    waiting: dict[str, Ask] = {}
    for what, which, seconds in steps:
        if what == "time":
            now += seconds
            held = {i: a for i, a in held.items() if core.renew(now, a)}
        elif what == "release" and held:
            name = sorted(held)[which % len(held)]
            core.release(now, held.pop(name), None)
        elif what == "ask":
            count += 1
            new = Ask(f"{count:04}", "k", f"s{count}", 1, 10 + which * 5, requests, tokens, at_once)
            waiting[new.ask_id] = new
        for name, one in list(waiting.items()):
            answer = core.ask(now, one)
            if isinstance(answer, Granted):
                assert name == min(waiting), "in order of arrival"
                del waiting[name]
                held[name] = one
                granted.append((now, one.tokens))
        last = [(at, spent) for at, spent in granted if at > now - WINDOW]
        assert len(held) <= at_once
        assert len(last) <= requests
        assert sum(spent for _, spent in last) <= tokens


@given(st.integers(1, 3), st.integers(1, 3))
def test_the_wait_it_names_is_long_enough(requests: int, at_once: int) -> None:
    core, now = LimitsCore(), 0.0
    asks = [Ask(str(n), "k", f"s{n}", 1, 10, requests, 25, at_once) for n in range(6)]
    for one in asks:
        for _ in range(10):
            answer = core.ask(now, one)
            if isinstance(answer, Granted):
                break
            assert isinstance(answer, Waiting)
            assert answer.seconds > 0
            now += answer.seconds
        else:
            raise AssertionError("never granted")
        core.release(now, one, None)


def test_it_forgets_sessions_that_are_over() -> None:
    core = LimitsCore()
    for n in range(20_000):
        one = Ask(str(n), f"k{n}", f"s{n}", 1, 10, 10_000)
        assert core.ask(n * 1.0, one) == Granted()
        core.release(n * 1.0, one, None)
    assert len(pickle.dumps(core)) < 200_000
