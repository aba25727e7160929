"""How messages come into an inbox: delivered from outside, with an append, and by a cascade."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from session_store import rules
from session_store.counting import count_message
from session_store.errors import ConditionFailed, StoreDamaged
from session_store.messages import USER, Message
from session_store.requests import Deliver, Delivered, Delivery, PodLimits
from session_store.rewinds import check_compact, check_rewind, rewound_question
from session_store.state import QuestionRecord, SessionState
from session_store.tables import Tables


def deliver_own(tables: Tables, request: Deliver, now: int) -> Delivered:
    """A delivery of its own transaction: refused where it cannot be kept."""
    state = rules.needed(tables, request.session)
    known = tables.message(state, request.message.message_id)
    if known is not None:
        return Delivered(known.position, existed=True, status=state.status)
    if not _answers_known(tables, state, request):  # a late answer is told what became of its question
        rules.check_not_ended(state)
    if request.message.kind == "rewind":
        return _deliver_rewind(tables, state, request.message, now)
    if request.message.kind == "compact":
        check_compact(state)
    message, question_id = _checked(tables, state, request)
    reopens = message.kind == "prompt" and not state.open
    if reopens:
        rules.check_reopen(tables, state, request.limits)

    state.open = state.open or reopens
    position = queue(tables, state, message, now)
    if question_id is not None:
        tables.put_question(state, question_id, QuestionRecord(taken_by=message.message_id))
    tables.save(state)
    return Delivered(position, existed=False, status=state.status)


def _deliver_rewind(tables: Tables, state: SessionState, message: Message, now: int) -> Delivered:
    check_rewind(tables, state, message)
    question_id = rewound_question(state)
    position = queue(tables, state, message, now)
    if question_id is not None:
        tables.put_question(state, question_id, QuestionRecord(taken_by=message.message_id, how="cancelled"))
    tables.save(state)
    return Delivered(position, existed=False, status=state.status)


def _checked(tables: Tables, state: SessionState, request: Deliver) -> tuple[Message, str | None]:
    """The message as it will be kept, and the question that it takes."""
    message, expect = request.message, request.expect
    if message.kind == "answer" or (expect is not None and expect.kind == "question_open"):
        named = message.body.get("question_id") if expect is None else expect.id
        question_id = str(named)
        rules.check_answer(state, message, question_id, tables.question(state, question_id))
        field = "question_id" if message.kind == "answer" else "answers"
        return replace(message, body={**message.body, field: question_id}), question_id
    if expect is not None and expect.kind == "not_busy":
        rules.check_busy(state)
    if expect is not None and expect.kind == "run":
        rules.check_run(state, message, expect)
        if expect.id is not None:
            message = replace(message, body={**message.body, "run_id": expect.id})
    return _answering(tables, state, rules.aimed(state, message))


def _answers_known(tables: Tables, state: SessionState, request: Deliver) -> bool:
    if request.message.kind != "answer":
        return False
    named = request.message.body.get("question_id") if request.expect is None else request.expect.id
    return tables.question(state, str(named)) is not None


def _answering(tables: Tables, state: SessionState, message: Message) -> tuple[Message, str | None]:
    question = state.fold.question
    if question is None or message.kind != "prompt":
        return message, None
    if not rules.takes_question(state, message, tables.question(state, question.question_id)):
        return message, None
    return replace(message, body={**message.body, "answers": question.question_id}), question.question_id


def deliver_free(tables: Tables, sender: SessionState, delivery: Delivery, at: tuple[int, int]) -> None:
    """A delivery inside an append: never refused. `at` is the seq of the append's first entry, and its time.

    What cannot be kept in an inbox (the session is unknown, damaged or ended, or its place is gone) is kept as
    undeliverable beside it.
    """
    first_seq, now = at
    message = _telling(sender, delivery, first_seq)
    state = _found(tables, delivery.session)
    if state is None:
        tables.add_stray(delivery.session, replace(message, ts=now))
        count_message(tables.count, message, undeliverable=True)
        return
    if tables.message(state, message.message_id) is not None:
        return
    _keep(tables, state, message, now)


def _found(tables: Tables, session: str) -> SessionState | None:
    """The session, or None when it is unknown or damaged: another session's damage refuses no append."""
    try:
        return tables.find(session)
    except StoreDamaged:
        return None


def _telling(sender: SessionState, delivery: Delivery, first_seq: int) -> Message:
    """The message with the id that follows from the entry it tells of, and what of the receiver's is still queued."""
    message = delivery.message
    if delivery.entry is None:
        return message
    event_id = f"{sender.id}:{first_seq + delivery.entry}"
    event = message.body.get("event")
    if event is None:
        return replace(message, message_id=event_id)
    queued = sum(m.kind == "prompt" and m.sender == delivery.session for m in sender.inbox.values())
    told = {**event, "event_id": event_id, **({"queued": queued} if queued and not sender.fold.ended else {})}
    return replace(message, message_id=event_id, body={**message.body, "event": told})


def _keep(tables: Tables, state: SessionState, message: Message, now: int) -> None:
    reopens = message.kind == "prompt" and not state.open
    if state.fold.ended or (reopens and not _can_reopen(tables, state)):
        state.position += 1
        tables.add_message(state, replace(message, position=state.position, ts=now), "undeliverable", state.head)
        count_message(tables.count, message, undeliverable=True)
        tables.save(state)
        return
    message, question_id = _answering(tables, state, rules.aimed(state, message))
    state.open = state.open or reopens
    queue(tables, state, message, now)
    if question_id is not None:
        tables.put_question(state, question_id, QuestionRecord(taken_by=message.message_id))
    tables.save(state)


def _can_reopen(tables: Tables, state: SessionState) -> bool:
    try:
        rules.check_reopen(tables, state, PodLimits())
    except ConditionFailed:
        return False
    return True


def cascade(tables: Tables, parent: SessionState, kind: Literal["cancel", "stop"], now: int) -> tuple[str, ...]:
    """Cancel or stop the undetached children listed now; the ids of those that it reached.

    A cancel goes to those that hold a place or are at work. A child that does neither has nothing to cancel and stays
    asleep, but what is below it may be at work: there the cancel goes on in this same transaction.
    """
    reached: list[str] = []
    above = [parent.id]
    while above:
        for child in tables.children(above.pop(), open_only=False):
            state = None if child.detached else _found(tables, child.id)
            if state is None:
                continue
            if kind == "cancel" and not state.open and state.status in ("idle", "errored"):
                above.append(child.id)
                continue
            message_id = f"cascade:{parent.id}:{parent.head}:{child.id}"
            if tables.message(state, message_id) is None:
                _keep(tables, state, Message(message_id, kind, parent.id, {"cascade": True}), now)
                reached.append(child.id)
    return tuple(reached)


def queue(tables: Tables, state: SessionState, message: Message, now: int) -> int:
    """Put a message at the end of the inbox; its position. The caller saves `state`."""
    state.position += 1
    placed = replace(message, position=state.position, ts=now)
    tables.add_message(state, placed, "pending")
    state.inbox[placed.message_id] = placed
    count_message(tables.count, placed)
    if message.sender == USER and message.kind in ("prompt", "answer"):
        _reset_wakes(tables, state)
    return state.position


def _reset_wakes(tables: Tables, state: SessionState) -> None:
    root = state if state.id == state.root_id else tables.find(state.root_id)
    if root is not None and root.wakes:
        root.wakes = 0
        if root is not state:
            tables.save(root)
