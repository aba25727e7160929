"""What must hold when everything has come to rest, read from the stored logs and the catalogue only."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from itertools import pairwise
from typing import Any

from session_store.counters import ENTRIES, QUESTIONS, SEPARATOR, TURNS
from session_store.entries import (
    AssistantItems,
    Extension,
    Invoke,
    LogEntry,
    PodEnd,
    Question,
    QuestionClosed,
    RunEnd,
    SystemItems,
    ToolResults,
    ToolStarted,
    UserInput,
    Withdrawn,
)
from session_store.items import ToolCall
from session_store.requests import Counters, FindMessage, Pending
from session_store.restore import ATTACHMENT_KINDS, restore
from session_store.rows import PodRow
from session_store.status import GIVEN_UP, concludes, event_seq, needs_owner, status
from tests.simulation import planning, tools
from tests.simulation.compactions import check_segments
from tests.simulation.world import LawBroken, Reference, World

_CANCELS = ("cancelled", "withdrawn")


def check_all(world: World) -> None:
    """Raises `LawBroken` for the first law that does not hold."""
    rows = {row.id: row for row in world.rows()}
    for session, reference in world.references.items():
        name = rows[session].name
        try:
            _log(reference)
            _calls(reference)
            check_segments(reference.entries)
            _catalogue(world, rows[session], reference)
            _rest(rows[session])
            _children(world, rows[session], reference)
            _items_once(reference)
            _questions(world, session, reference)
            _attachments(reference)
            planning.check(reference)
            _told(world, session, rows[session], reference)
        except LawBroken as broken:
            raise LawBroken(f"{name} ({session[-4:]}): {broken}") from broken
    _tool_starts(world)
    _prompts(world)
    _stops(rows)
    _counted(world)


def _log(reference: Reference) -> None:
    """Law 1 and 7: seq without gaps, and a restore from the stored entries gives what was folded step by step."""
    entries = reference.entries
    if [e.seq for e in entries] != list(range(1, len(entries) + 1)):
        raise LawBroken("the log has a gap")
    restored = restore(entries)
    if restored.history != reference.history or restored.status != reference.fold:
        raise LawBroken("restore differs from the step-by-step fold")
    if any(a.ts > b.ts for a, b in pairwise(entries)):
        raise LawBroken("time goes back in the log")
    open_run = None
    for entry in entries:
        if isinstance(entry, Invoke):
            if open_run is not None:
                raise LawBroken(f"run {entry.run_id} starts within {open_run}")
            open_run = entry.run_id
        elif isinstance(entry, RunEnd):
            open_run = None


def _calls(reference: Reference) -> None:
    """Law 6: each call has exactly one result, before the next reply."""
    open_calls: set[tuple[int, int]] = set()
    for entry in reference.entries:
        if isinstance(entry, (AssistantItems, Invoke, UserInput)):
            if open_calls:
                raise LawBroken(f"entry {entry.seq} comes before the results of {sorted(open_calls)}")
            if isinstance(entry, AssistantItems):
                count = sum(isinstance(i, ToolCall) for i in entry.items)
                open_calls = {(entry.seq, i) for i in range(count)}
        elif isinstance(entry, ToolResults):
            for result in entry.results:
                if (result.call_seq, result.index) not in open_calls:
                    raise LawBroken(f"entry {entry.seq} answers call {result.call_seq}/{result.index} again")
                open_calls.discard((result.call_seq, result.index))
    if open_calls:
        raise LawBroken(f"calls {sorted(open_calls)} were never answered")


def _catalogue(world: World, row: PodRow, reference: Reference) -> None:
    """Law 5: what the catalogue says follows from log and inbox by the one fold."""
    pending = world.store.execute(Pending(row.id)).messages
    if row.status != status(reference.fold, pending):
        raise LawBroken(f"the catalogue says {row.status}, the fold {status(reference.fold, pending)}")
    if needs_owner(reference.fold, pending):
        raise LawBroken(f"it wants a Pod and nothing moves: {[m.kind for m in pending]}")
    left = [m.kind for m in pending if m.kind in ("prompt", "answer", "stop")]
    if left:
        raise LawBroken(f"messages are left in the inbox: {left}")


def _rest(row: PodRow) -> None:
    """Nobody runs, waits or holds a place when all work is over (L02)."""
    if row.status in ("running", "waiting_on_children", "paused", "waiting_on_user"):
        raise LawBroken(f"at the end it is {row.status} (waits for {row.waits_for})")
    if row.open:
        raise LawBroken(f"it is {row.status} ({row.outcome}) and still holds its place")


def _children(world: World, row: PodRow, reference: Reference) -> None:
    """Each child's conclusion is known to its parent, in the log or in the inbox, when all work is over."""
    if row.status == "ended":
        return
    facts = deepcopy(reference.facts)
    for message in world.store.execute(Pending(row.id)).messages:
        event = message.body.get("event") or {}
        child = facts.children.get(str(event.get("pod_id")))
        if child is not None and concludes(event) and event_seq(event) > child.after:
            child.concluded = True
    unknown = [c.name for c in facts.children.values() if not c.concluded]
    if unknown:
        raise LawBroken(f"it was never told that {unknown} concluded")


def _items_once(reference: Reference) -> None:
    """Every notice and PodEvent stands in the log once (E01, E06)."""
    ids = Counter(i.item_id for e in reference.entries if isinstance(e, SystemItems) for i in e.items)
    twice = [i for i, n in ids.items() if n > 1]
    if twice:
        raise LawBroken(f"items twice in the log: {twice}")


def _questions(world: World, session: str, reference: Reference) -> None:
    """Each question is asked once and closed once, by one answer at most; what was not allowed did not run (Q08, G04).

    Of the answers that the store took for a question only one counts, and none is lost but to a cancel or stop.
    """
    asked: dict[str, Question] = {}
    closed: dict[str, QuestionClosed] = {}
    started: set[tuple[int, int]] = set()
    for entry in reference.entries:
        match entry:
            case Question():
                if entry.question_id in asked or set(asked) != set(closed):
                    raise LawBroken(f"question {entry.question_id} is asked while another is open, or twice")
                asked[entry.question_id] = entry
            case QuestionClosed():
                if entry.question_id in closed or entry.question_id not in asked:
                    raise LawBroken(f"question {entry.question_id} is closed twice, or was never asked")
                closed[entry.question_id] = entry
            case ToolStarted(call=call):
                last = asked[list(asked)[-1]]
                decision = closed.get(last.question_id)
                if last.call != call or decision is None or decision.choice not in ("allow_once", "allow_session"):
                    raise LawBroken(f"entry {entry.seq} starts a call that nobody allowed")
                started.add((call.call_seq, call.index))
            case _:
                pass
    if set(asked) != set(closed):
        raise LawBroken(f"questions {sorted(set(asked) - set(closed))} were never closed")
    for question_id, decision in closed.items():
        call = asked[question_id].call
        if call is not None and decision.choice not in ("allow_once", "allow_session"):
            key = (session, call.call_seq, call.index)
            if key in world.tool_starts:
                raise LawBroken(f"call {call.call_seq}/{call.index} ran though it was not allowed ({decision.how})")
        if decision.how == "answered" and world.sent[decision.message_id or ""].session != session:
            raise LawBroken(f"question {question_id} was answered by nobody")
        taken = [m for m, sent in world.sent.items() if sent.session == session and sent.question == question_id]
        if len(taken) > 1 or (taken and decision.how == "superseded"):
            raise LawBroken(f"question {question_id} took {taken}, it was {decision.how}")


def _attachments(reference: Reference) -> None:
    """What a prompt brings along stands right behind its `user_input` (DESIGN §4)."""
    of = ""
    for entry in reference.entries:
        items = entry.items if isinstance(entry, SystemItems) else ()
        attached = [i.item_id.rpartition(":")[0] for i in items if i.kind in ATTACHMENT_KINDS]
        if any(message_id != of for message_id in attached):
            raise LawBroken(f"entry {entry.seq} is attached to {attached} and stands behind {of or 'no prompt'}")
        if not attached:
            of = entry.message_id if isinstance(entry, UserInput) else ""


def _tool_starts(world: World) -> None:
    for (session, seq, index), names in world.tool_starts.items():
        if len(names) > 1 and not tools.idempotent(names[0]):
            raise LawBroken(f"{names[0]} of {session[-4:]}:{seq}:{index} ran {len(names)} times")


def _prompts(world: World) -> None:
    """Each accepted prompt is in exactly one of: the log as input, the log as withdrawn, undeliverable (ended)."""
    for message_id, sent in world.sent.items():
        if sent.kind != "prompt":
            continue
        entries = world.references[sent.session].entries
        places = [e.type for e in entries if isinstance(e, (UserInput, Withdrawn)) and e.message_id == message_id]
        state = world.store.execute(FindMessage(sent.session, message_id)).state
        ended = isinstance(_last(entries), PodEnd)
        fits = {"consumed": len(places) == 1, "undeliverable": not places and ended, "pending": not places}
        if not fits.get(state or "", False):
            raise LawBroken(f"prompt {message_id} is {state} and stands in the log as {places}")


def _last(entries: list[LogEntry]) -> LogEntry | None:
    return next((e for e in reversed(entries) if not isinstance(e, Extension)), None)


def _stops(rows: dict[str, PodRow]) -> None:
    """The end of a Pod is the end of all that is below it, except what was detached (L03)."""
    for row in rows.values():
        above = rows.get(row.parent_id or "")
        if above is not None and above.status == "ended" and not row.detached and row.status != "ended":
            raise LawBroken(f"{row.name} is {row.status} though its parent {above.name} has ended")


def _counted(world: World) -> None:
    """The metrics' counters are what the logs say, whatever was lost, doubled or killed on the way."""
    values = world.store.execute(Counters()).values
    entries = [e for reference in world.references.values() for e in reference.entries]
    for family, wanted in (
        (ENTRIES, Counter(e.type for e in entries)),
        (TURNS, Counter(e.outcome for e in entries if isinstance(e, RunEnd))),
        (QUESTIONS, Counter(e.kind for e in entries if isinstance(e, Question))),
    ):
        keys = {family.key(label): number for label, number in wanted.items()}
        found = {key: number for key, number in values.items() if key.split(SEPARATOR)[0] == family.name}
        if found != keys:
            raise LawBroken(f"the store counted {found}, its logs hold {keys}")


def _told(world: World, session: str, row: PodRow, reference: Reference) -> None:
    """Law 4 and 10: the parent has each owed event once, with the right outcome, and no other."""
    if row.parent_id is None:
        return
    owed, allowed = owed_events(world, row.parent_id, reference)
    found: dict[str, dict[str, Any]] = {}
    for entry in world.references[row.parent_id].entries:
        for item in entry.items if isinstance(entry, SystemItems) else ():
            event = item.payload.get("event")
            if isinstance(event, dict) and event.get("pod_id") == session:
                found[str(event["event_id"])] = event
    for message in world.store.execute(Pending(row.parent_id)).messages:
        event = message.body.get("event")
        if isinstance(event, dict) and event.get("pod_id") == session:
            found[str(event["event_id"])] = event
    for seq, (kind, outcome) in owed.items():
        event = found.pop(f"{session}:{seq}", None)
        if event is None:
            state = world.store.execute(FindMessage(row.parent_id, f"{session}:{seq}")).state
            if state != "undeliverable":
                raise LawBroken(f"its parent was not told {kind}/{outcome} of entry {seq} ({state})")
        elif (event["kind"], event.get("outcome")) != (kind, outcome):
            raise LawBroken(f"its parent was told {event['kind']}/{event.get('outcome')}, not {kind}/{outcome}")
    extra = [e for e in found if int(e.rpartition(":")[2]) not in allowed]
    if extra:
        raise LawBroken(f"its parent was told what it is not owed: {[found[e] for e in extra]}")


def owed_events(world: World, parent: str, reference: Reference) -> tuple[dict[int, tuple[str, str | None]], set[int]]:
    """What a child owes its parent, by DESIGN §4 *What reaches the parent*: seq -> (kind, outcome).

    The second part are seqs where an event may stand: a cancelled run of somebody else's that ended children at work.
    """
    owed: dict[int, tuple[str, str | None]] = {}
    allowed: set[int] = set()
    work, unfinished, work_children, run_children = False, False, set[str](), set[str]()
    for entry in reference.entries:
        match entry:
            case Invoke():
                served = any(s.sender == parent for s in entry.serves)
                work = served or (work and (unfinished or entry.trigger == "resume"))
                run_children = set()
            case UserInput(sender=sender):
                work |= sender == parent
            case SystemItems():
                events = [i.payload.get("event") or {} for i in entry.items if i.kind == "pod_event"]
                work |= any(e.get("pod_id") in work_children and not e.get("stale") for e in events)
            case ToolResults():
                spawned = [r.data["pod_id"] for r in entry.results if r.name == "SpawnPod" and r.data]
                run_children |= set(spawned)
            case Question():
                owed[entry.seq] = ("waiting_on_user", None)
            case RunEnd(outcome="waiting_on_children" | "waiting_on_user"):
                unfinished = True
            case RunEnd(outcome=outcome) if outcome != "stopped":
                unfinished = False
                if work or (entry.error is not None and entry.error.type == GIVEN_UP):
                    owed[entry.seq] = ("errored" if outcome == "errored" else "turn_ended", outcome)
                elif outcome in _CANCELS and work_children:
                    allowed.add(entry.seq)
            case Withdrawn(message_id=message_id):
                if world.sent[message_id].sender == parent:
                    owed[entry.seq] = ("turn_ended", "withdrawn")
            case PodEnd():
                owed = {s: e for s, e in owed.items() if not _given_back_by_stop(reference, s)}
                owed[entry.seq] = ("shut_down", "stopped")
            case _:
                pass
        work_children |= run_children if work else set()
    return owed, allowed


def _given_back_by_stop(reference: Reference, seq: int) -> bool:
    """Whether the entry is a `withdrawn` of the commit that ended the session: `shut_down` tells of it."""
    end = next(e for e in reference.entries if isinstance(e, PodEnd))
    withdrawn = isinstance(reference.entries[seq - 1], Withdrawn)
    return withdrawn and reference.commits[seq - 1] == reference.commits[end.seq - 1]
