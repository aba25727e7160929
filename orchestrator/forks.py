"""From a session's log to a fork of it: what the new session begins with. Pure.

A fork keeps the history as it was at the last rest at or before its point: a `run_end`, a rewind, a new segment between
runs; also of a part that was rewound away later. Without one it keeps what the session began with. It is idle, or asks
the source's open clarify question once more under an id of its own. Runs that wait or pause, permissions, the inbox and
the children stay behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from actors.protocol.task_log import snapshot_item, tasks_of
from actors.protocol.tasks import TaskList, face_in
from session_store.entries import (
    ConfigChanged,
    Invoke,
    LogEntry,
    Origin,
    Question,
    Rewound,
    RunEnd,
    SegmentStart,
    SystemItems,
)
from session_store.items import Json, ToolResult
from session_store.requests import Fork
from session_store.restore import RestoredState, restore
from session_store.rows import Scope
from session_store.status import StatusFold

NAME_LIMIT = 50
"""Characters of the source's name in a fork's own, when it is given none."""
NOT_RUN = "Not run: the session that asked for it was forked before it got an answer."


@dataclass(frozen=True, slots=True)
class ForkOrder:
    """A fork to make: of `source`, as the new session `session`. `message_id` makes it one, however often asked for."""

    source: str
    session: str
    message_id: str
    tenant: str
    name: str | None = None


def fork_of(entries: Sequence[LogEntry], at_seq: int, order: ForkOrder) -> Fork:
    """The request that makes the fork. `entries` are those of the source from seq 1 on, at least up to `at_seq`."""
    seq = last_rest(entries[:at_seq])
    state = restore(entries[:seq])
    _close_calls(state)
    config = _own_config(state.history.config, order)
    start = SegmentStart(
        order.session,
        config,
        state.history.system_prompt,
        state.history.tools,
        state.history.wire_version,
        tuple(state.history.items),
        Origin(order.source, seq),
    )
    return Fork(
        session=order.session,
        tenant=order.tenant,
        message_id=f"fork:{order.source}:{order.message_id}",
        start=start,
        more=(*_tasks(entries[:seq], start), *_question_again(state, order.session)),
        name=str(config["name"]),
        scope=_scope(config.get("scope")),
    )


def last_rest(entries: Sequence[LogEntry]) -> int:
    """Seq of the last entry that left the session at rest; 1 when there is none but the beginning."""
    fold, rest = StatusFold(), 1
    for entry in entries:
        fold.apply(entry)
        begins_anew = isinstance(entry, RunEnd | Rewound | SegmentStart | ConfigChanged)
        belongs_to_it = isinstance(entry, SystemItems | Question) and rest == entry.seq - 1
        if not fold.run_open and (begins_anew or belongs_to_it):
            rest = entry.seq
    return rest


def _own_config(config: dict[str, Json], order: ForkOrder) -> dict[str, Json]:
    """The source's as it stood, of a root: with a name of its own, and the depth that was left below the source."""
    own = {k: v for k, v in config.items() if k != "parent_id"}
    name = order.name or f"{str(config.get('name') or 'fork')[:NAME_LIMIT].strip()}-{order.session[-8:]}"
    own.update(name=name, root_id=order.session, depth=0, detached=False)
    if isinstance(config.get("max_depth"), int):
        own["max_depth"] = max(0, config["max_depth"] - int(config.get("depth") or 0))
    return own


def _close_calls(state: RestoredState) -> None:
    """Calls that wait for a permission are answered: nobody will give it in the fork."""
    history, question = state.history, state.status.question
    message = history.open_message
    if message is not None and question is not None and question.kind == "permission":
        for index in history.open_calls:
            call = message.calls[index]
            history.open_results[index] = ToolResult(message.seq, index, call.call_id, call.name, "not_run", NOT_RUN)
    history.close()


def _tasks(entries: Sequence[LogEntry], start: SegmentStart) -> tuple[LogEntry, ...]:
    """The task list as it stood, if the source ever had a task."""
    tasks = tasks_of(entries)
    if tasks == TaskList():
        return ()
    return (SystemItems((snapshot_item(tasks, face_in(start.config), f"task-snapshot:{start.session}"),)),)


def _question_again(state: RestoredState, session: str) -> tuple[LogEntry, ...]:
    """An open clarify question, asked by the fork itself: a run that rests with it, so that it can be cancelled too."""
    question = state.status.question
    if question is None or question.kind != "clarify":
        return ()
    run_id = f"fork-{session[-12:]}"
    asked: Question = replace(question, question_id=f"{run_id}-question", call=None, seq=0, ts=0)
    return (Invoke(run_id, "fork"), asked, RunEnd(run_id, "waiting_on_user"))


def _scope(plain: Json) -> Scope | None:
    if not isinstance(plain, dict):
        return None
    return Scope(tuple(plain.get("read") or ()), tuple(plain.get("write") or ()))
