"""The simulated world: one seed, one clock, one store, and a list of things that may happen next.

Everything runs in one thread. Each step picks one enabled event by the seed; an event that belongs to a process dies
with it, one that is in the network does not.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from actors.pod.facts import PodFacts, pod_facts
from actors.protocol.config import CompactionRule, ModelSpec, PodConfig, ReminderRule, RunLimits
from actors.protocol.ids import uuid7
from session_store.backends.memory import MemoryStore
from session_store.entries import LogEntry, Rewound, SegmentStart
from session_store.errors import Refused
from session_store.items import Segment
from session_store.messages import Message
from session_store.reading import read_log
from session_store.requests import Append, Create, Deliver, Fork, Parent, PodLimits, Query
from session_store.restore import History, restore
from session_store.rows import PodRow
from session_store.status import StatusFold

START_MS = 1_800_000_000_000
TENANT = "sim"


class LawBroken(AssertionError):
    """A law of DESIGN does not hold in this world."""


@dataclass(slots=True)
class Event:
    """Something that may happen from `at` (ms) on. It is dropped when its `owner` dies."""

    label: str
    act: Callable[[], None]
    at: int = 0
    owner: Any = None
    recurring: bool = False


@dataclass(slots=True)
class Reference:
    """What the log of a session says, folded from the stored bytes."""

    entries: list[LogEntry] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)
    """For each entry, the seq of the first entry of its commit."""
    history: History = field(default_factory=History)
    fold: StatusFold = field(default_factory=StatusFold)
    facts: PodFacts = field(default_factory=PodFacts)

    def apply(self, entry: LogEntry) -> None:
        self.entries.append(entry)
        self.fold.apply(entry)
        if isinstance(entry, Rewound):
            self.history = restore(self.entries).history
            self.facts = pod_facts(self.entries, self.facts.parent_id)
        else:
            self.history.apply(entry)
            self.facts.apply(entry)


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the store took: for whom, and who sent it."""

    session: str
    kind: str
    sender: str
    question: str | None = None
    """The question that it was sent to answer."""


class World:
    """State that no crash can touch: the store, the clock, the network, and what an observer has seen."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now = START_MS
        self.store = MemoryStore(lambda: self.now)
        self.events: list[Event] = []
        self.trace: list[str] = []
        self.calm = False
        self.references: dict[str, Reference] = {}
        self.sent: dict[str, Sent] = {}
        self.tool_starts: dict[tuple[str, int, int], list[str]] = {}
        self.sent_histories: dict[str, tuple[int, list[bytes]]] = {}
        self.model_budget = self.rng.randint(10, 70)
        self.moves: set[tuple[str, str, str]] = set()
        self.requests = 0
        self.alerts = 0
        self.sessions: list[str] = []
        self.pod_limits = PodLimits(3, self.rng.choice((2, 4)), self.rng.choice((8, 20)))
        self._tokens = 0
        threshold = self.rng.choice((0, 0, 0, 260, 400))
        self.compaction = CompactionRule(threshold, threshold and threshold + self.rng.choice((0, 60)), 40)
        """Off in most worlds, met often in the others."""
        self._tastes: dict[str, list[int]] = {}
        self.hint: Callable[[tuple[str, ...]], None] = lambda _: None
        self.before_append: Callable[[Append], None] = lambda _: None
        self.after_append: Callable[[Append], None] = lambda _: None

    def pick(self, what: str, weights: dict[str, int]) -> str:
        """One of the kinds. Each seed has a taste of its own: it does without some kinds and is fond of others."""
        taste = self._tastes.get(what)
        if taste is None:
            taste = [w * self.rng.choice((0, 1, 1, 1, 5)) for w in weights.values()]
            self._tastes[what] = taste = taste if any(taste) else list(weights.values())
        return self.rng.choices(list(weights), taste)[0]

    # --- the schedule ---

    def chance(self, probability: float) -> bool:
        """False in the calm at the end: no faults any more."""
        return not self.calm and self.rng.random() < probability

    def later(
        self, label: str, act: Callable[[], None], *, after: int = 0, owner: Any = None, recurring: bool = False
    ) -> Event:
        event = Event(label, act, self.now + after, owner, recurring)
        self.events.append(event)
        return event

    def step(self) -> bool:
        """One event. False when nothing can happen any more, recurring events aside."""
        ready = [i for i, e in enumerate(self.events) if e.at <= self.now]
        if not ready:
            waiting = [e.at for e in self.events if not e.recurring]
            if not waiting:
                return False
            self.now = min(e.at for e in self.events)
            return True
        event = self.events.pop(ready[self.rng.randrange(len(ready))])
        self.now += self.rng.choice((0, 0, 1, 3))
        self.say(event.label)
        event.act()
        return True

    def say(self, text: str) -> None:
        self.trace.append(f"{self.now - START_MS:>7} {text}")

    def token(self, kind: str) -> str:
        self._tokens += 1
        return f"{kind}-{self._tokens}"

    def forget_owner(self, owner: Any) -> None:
        self.events = [e for e in self.events if e.owner is not owner]

    # --- the store, observed ---

    def execute(self, request: Any) -> Any:
        """Carry a request out now. Keeps the books of the observer. Raises `Refused`."""
        if isinstance(request, Append):
            self.before_append(request)
        reply = self.store.execute(request)
        match request:
            case Create():
                if not reply.existed:
                    self.sessions.append(request.session)
                    parent = None if request.parent is None else request.parent.session
                    self.references[request.session] = Reference(facts=PodFacts(parent))
                    for m in request.messages:
                        self.sent[m.message_id] = Sent(request.session, m.kind, m.sender)
                self._read_on(request.session)
            case Fork():
                self.sessions.append(request.session)
                self.references[request.session] = Reference(facts=PodFacts(None))
                self._read_on(request.session)
            case Deliver():
                m = request.message
                asked = m.body.get("question_id") if m.kind == "answer" else None
                self.sent.setdefault(m.message_id, Sent(request.session, m.kind, m.sender, asked))
            case Append():
                self._read_on(request.session)
                self.after_append(request)
            case _:
                pass
        return reply

    def _read_on(self, session: str) -> None:
        reference = self.references[session]
        before = len(reference.entries)
        committed = read_log(self.store, session, before)
        reference.commits += [before + 1] * len(committed)
        for entry in committed:
            if entry.seq != len(reference.entries) + 1:
                raise LawBroken(f"seq {entry.seq} of {session} follows {len(reference.entries)}")
            reference.apply(entry)

    def note_annotation(self, session: str) -> None:
        self._read_on(session)

    def row(self, session: str) -> PodRow:
        return self.store.execute(Query(ids=(session,))).rows[0]

    def rows(self) -> list[PodRow]:
        found: list[PodRow] = []
        cursor = None
        while True:
            page = self.store.execute(Query(limit=1000, cursor=cursor))
            found.extend(page.rows)
            cursor = page.next
            if cursor is None:
                return found

    # --- sessions ---

    def create(
        self, session: str, name: str, task: str, message_id: str, parent: Parent | None = None, **more: Any
    ) -> None:
        """A session with one prompt. Raises `Refused`."""
        above = None if parent is None else self.references[parent.session]
        limits = RunLimits(
            self.rng.choice((None, 3, 6)), self.rng.choice((None, None, 900)), self.rng.choice((None, None, 4.0))
        )
        config = PodConfig(
            name,
            session if above is None else str(above.history.config["root_id"]),
            ModelSpec("sim", "scripted"),
            "",
            parent_id=None if parent is None else parent.session,
            limits=limits,
            max_wakes=self.rng.choice((3, 1000)),
            detached=bool(more.get("detached")),
            compaction=self.compaction,
            planning=self.rng.choice(("tasks", "tasks", "todo")),
            reminder=ReminderRule(self.rng.choice((0, 1, 1, 2, 3)), self.rng.choice((0, 1, 2, 4))),
        )
        start = SegmentStart(session, config.plain(), "Work.", (), 1)
        sender = "user" if parent is None else parent.session
        message = Message(message_id, "prompt", sender, {"segments": [{"type": "text", "text": task}]})
        self.execute(
            Create(
                session,
                TENANT,
                f"create:{message_id}",
                start,
                (message,),
                name,
                parent,
                bool(more.get("detached")),
                limits=self.pod_limits,
            )
        )

    def fresh_session(self) -> str:
        return uuid7(self.now, self.token("session").encode())

    def try_execute(self, request: Any) -> Any:
        """The reply, or None when the store refused."""
        try:
            return self.execute(request)
        except Refused as refused:
            self.say(f"refused: {refused.code} {refused.detail.get('reason', '')}")
            return None


def prompt(message_id: str, sender: str, text: str, **body: Any) -> Message:
    segment = {"type": "text", "text": text}
    return Message(message_id, "prompt", sender, {"segments": [segment], **body})


__all__ = ["START_MS", "TENANT", "Event", "LawBroken", "Reference", "Segment", "Sent", "World", "prompt"]
