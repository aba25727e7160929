"""When a rewind or a compaction is accepted: what its own transaction looks at, so that of two only one can be."""

from __future__ import annotations

from session_store.codec import decode_entry
from session_store.entries import UserInput
from session_store.errors import ConditionFailed, UnreadableEntry
from session_store.messages import Message
from session_store.reading import damaged
from session_store.state import SessionState
from session_store.status import compact_of, rewind_of
from session_store.tables import Tables


def check_rewind(tables: Tables, state: SessionState, message: Message) -> None:
    """At rest with nothing pending that changes it, at the head that the caller knows, to a prompt of its history.

    Raises `ConditionFailed`: `busy`, `head_moved` (both with the head), `invalid`.
    """
    to, expected = _seq(message.body.get("to")), _seq(message.body.get("expected_head"))
    if to is None or expected is None:
        raise ConditionFailed("a rewind names `to` and `expected_head`", reason="invalid", session=state.id)
    detail = {"session": state.id, "status": state.status, "head": state.head}
    if state.summary().needs_owner:
        raise ConditionFailed(_busy_words(state), reason="busy", **detail)
    if not state.history_head <= expected <= state.head:
        raise ConditionFailed(
            f"session {state.id} is at {state.head}, not at {expected}: look at what was written, then rewind",
            reason="head_moved",
            **detail,
        )
    problem = _target_problem(tables, state, to)
    if problem is not None:
        raise ConditionFailed(f"session {state.id} cannot be rewound: {problem}", reason="invalid", **detail)


def check_compact(state: SessionState) -> None:
    """At rest with nothing pending that changes it; a call that waits for a permission must be decided first.

    Raises `ConditionFailed`: `busy`.
    """
    detail = {"session": state.id, "status": state.status, "head": state.head}
    if state.summary().needs_owner:
        raise ConditionFailed(_busy_words(state), reason="busy", **detail)
    if state.fold.question is not None and state.fold.question.kind == "permission":
        raise ConditionFailed(
            f"session {state.id} is busy (a call waits for a permission): answer it, or cancel its run first",
            reason="busy",
            **detail,
        )


def _busy_words(state: SessionState) -> str:
    if rewind_of(state.messages) is not None:
        return f"session {state.id} is being rewound already"
    if compact_of(state.messages) is not None:
        return f"session {state.id} is being compacted already"
    return f"session {state.id} is busy ({state.status}): wait, or cancel its run first"


def rewound_question(state: SessionState) -> str | None:
    """The open question that an accepted rewind closes for good: no answer is taken any more (case Q09)."""
    return None if state.fold.question is None else state.fold.question.question_id


def _target_problem(tables: Tables, state: SessionState, to: int) -> str | None:
    """Why `to` is no prompt to go back to."""
    if not 1 <= to <= state.head:
        return f"there is no entry {to} (the last one is {state.head})"
    row = tables.entry(state, to)
    try:
        entry = decode_entry(row.body, row.seq, row.ts)
    except UnreadableEntry as error:
        raise damaged(state.id, error.seq, error.reason) from error
    if not isinstance(entry, UserInput):
        return f"entry {to} is no prompt but `{entry.type}`"
    if not state.fold.in_history(to):
        return f"the prompt at {to} has left the history before (rewound, or withdrawn)"
    return None


def _seq(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
