"""What the Directory appends for a Pod that cannot write its own end (law 10): same form, same delivery. Pure."""

from __future__ import annotations

from dataclasses import replace

from actors.pod.compacting import set_aside
from actors.pod.endings import Commit, Ending, cancel_run, end_run, stop_pod, withdraw_cancelled
from actors.pod.facts import pod_facts
from actors.pod.openings import open_run, void
from actors.pod.rewinds import rewind
from actors.pod.state import Identity, PodState
from actors.protocol.config import PodConfig
from orchestrator.directory.state import CloseKind
from session_store.entries import LogEntry, PodEnd
from session_store.items import Problem
from session_store.messages import Message
from session_store.requests import Lease
from session_store.restore import restore
from session_store.rows import PodRow
from session_store.status import GIVEN_UP, starts_run

FAILED_START = "failed_start"


def pod_state(lease: Lease, entries: list[LogEntry]) -> PodState:
    """The Pod's state as its log and inbox say. Raises `pydantic.ValidationError` for a malformed config."""
    restored = restore(entries)
    config = PodConfig.read(restored.history.config)
    facts = pod_facts(entries, config.parent_id)
    who = Identity(lease.session, config.name, config.parent_id, lease.epoch)
    state = PodState(config, who, restored.history, restored.status, facts, lease.head)
    state.note(lease.messages)
    return state


def closing_commit(state: PodState, kind: CloseKind, cause: str, run_id: str) -> Commit | None:
    """The commit that ends what is open; None when nothing is (any more). Changes `state`: use it once.

    `run_id` is for a run that must be opened to be ended: the messages that would have started it are answered so.
    """
    if state.fold.ended:
        return None
    if state.order() == "stop":
        return stop_pod(state, Commit())
    match kind:
        case "stopped":
            return None  # its stop message is gone, and so is what it ordered
        case "failed_start":
            return _failed_start(state)
        case "died":
            return _died(state, Problem(GIVEN_UP, cause), run_id)


def _failed_start(state: PodState) -> Commit | None:
    if state.fold.run_id is not None:
        return None  # the task was committed after all
    commit = Commit(entries=[PodEnd(FAILED_START)])
    commit.consumes.extend(m.message_id for m in state.messages)
    commit.concluded = True
    return commit


def _died(state: PodState, problem: Problem, run_id: str) -> Commit | None:
    fold = state.fold
    commit = Commit()
    if not state.running:
        if state.rewind is not None:
            return rewind(state, state.rewind)  # accepted, and nothing that comes after it may overtake it
        if (refused := set_aside(state, problem)) is not None:
            return refused
        if starts_run(fold, state.messages):
            commit = open_run(state, run_id)
            _foresee(state, commit)
        elif state.cancelled_rest() is not None:
            return _cancelled(state, commit)
        else:
            controls = state.void_controls()
            return void(state, controls) if controls else None
    if state.order() == "cancel":
        return _cancelled(state, commit)  # accepted before the Pod was given up: that is how its run ends
    return end_run(state, Ending("errored", problem), commit)


def _cancelled(state: PodState, commit: Commit) -> Commit:
    end_run(state, cancel_run(state, "cancel"), commit)
    withdraw_cancelled(state, commit)
    return commit


def _foresee(state: PodState, commit: Commit) -> None:
    """Let the folds see entries that will be committed together with the end that follows from them."""
    for offset, entry in enumerate(commit.entries):
        state.apply(replace(entry, seq=state.head + 1 + offset))
    state.forget(commit.consumes)


def unreadable(row: PodRow, code: str, message: str) -> Message:
    """The `errored` event of a Pod whose log cannot be written any more: it stands in no log but its parent's.

    Its seq is the one after the head, which that log will never reach; so it is told once.
    """
    event_id = f"{row.id}:{row.head + 1}"
    event = {
        "kind": "errored",
        "event_id": event_id,
        "pod_id": row.id,
        "pod_name": row.name,
        "generation": row.epoch,
        "outcome": "errored",
        "error": {"type": code, "message": message},
    }
    return Message(event_id, "pod_event", row.id, {"event": event})
