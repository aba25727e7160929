"""The census over sessions in memory; what is common to all backends. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from session_store.entries import Question
from session_store.rows import CensusFigures, PodCount, Waiting
from session_store.state import SessionState


def taken_census(states: Iterable[SessionState]) -> CensusFigures:
    pods: dict[tuple[str, str], list[SessionState]] = {}
    messages, questions = [], []
    for state in states:
        pods.setdefault((state.status, str(state.config.get("profile") or "")), []).append(state)
        messages += [(m.kind, m.ts) for m in state.inbox.values()]
        if state.fold.question is not None and state.status == "waiting_on_user":
            questions.append(open_since(state.fold.question))
    counted = []
    for (_, profile), found in pods.items():
        depths = [len(s.inbox) for s in found]
        counted.append(PodCount(found[0].status, profile, len(found), sum(depths), max(depths)))
    return CensusFigures(tuple(counted), waiting(messages), waiting(questions))


def open_since(question: Question) -> tuple[str, int]:
    return question.kind, question.ts


def waiting(found: Iterable[tuple[str, int]]) -> tuple[Waiting, ...]:
    """Kinds with their number and their oldest, from (kind, ts) of each."""
    times: dict[str, list[int]] = {}
    for kind, ts in found:
        times.setdefault(kind, []).append(ts)
    return tuple(Waiting(kind, len(all_ts), min(all_ts)) for kind, all_ts in times.items())
