"""Short words for store tests: a session, its owner, and messages."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from session_store.entries import (
    AssistantItems,
    Choice,
    Invoke,
    LogEntry,
    Question,
    RunEnd,
    SegmentStart,
    SystemItems,
    UserInput,
)
from session_store.items import Segment, SystemItem, Text
from session_store.messages import USER, Message, MessageKind
from session_store.requests import (
    Append,
    Appended,
    Create,
    Created,
    Deliver,
    Delivered,
    Delivery,
    Expect,
    Open,
    Parent,
    PodLimits,
    Query,
    Read,
    Release,
    Store,
)
from session_store.rows import PodRow, Scope

_fresh = count(1)


class Ticks:
    """A clock that goes on by a millisecond whenever it is read."""

    def __init__(self, now: int = 1_790_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        self.now += 1
        return self.now


def start(session: str, workspace: str = "/ws") -> SegmentStart:
    return SegmentStart(session, {"workspace": workspace}, "be good", (), 1)


def message(message_id: str, kind: MessageKind = "prompt", sender: str = USER, **body: Any) -> Message:
    if kind == "prompt":
        body.setdefault("segments", [{"type": "text", "text": message_id}])
    return Message(message_id, kind, sender, body)


def event(child: str, seq: int, kind: str = "turn_ended", **more: Any) -> Message:
    body = {"event": {"kind": kind, "event_id": f"{child}:{seq}", "pod_id": child, "pod_name": child, **more}}
    return Message(f"{child}:{seq}", "pod_event", child, body)


def event_item(told: Message) -> SystemItems:
    return SystemItems((SystemItem("pod_event", told.message_id, told.body, "it ended"),))


def create(store: Store, session: str, *messages: Message, **more: Any) -> Created:
    more.setdefault("message_id", f"create:{session}")
    return store.execute(Create(session, "default", start=start(session), messages=messages, **more))


def deliver(store: Store, session: str, told: Message, expect: Expect | None = None, **more: Any) -> Delivered:
    return store.execute(Deliver(session, told, expect, **more))


def row(store: Store, session: str) -> PodRow:
    return store.execute(Query(ids=(session,))).rows[0]


def log(store: Store, session: str) -> list[int]:
    return [e.seq for e in store.execute(Read(session)).entries]


def text(words: str, request_id: str = "r") -> AssistantItems:
    return AssistantItems(request_id, (Text(words),))


@dataclass
class Owner:
    """An incarnation of one session, as its Pod would act."""

    store: Store
    session: str
    epoch: int = 0
    head: int = 0
    run_id: str = ""
    last: Appended | None = None
    seen: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, store: Store, session: str, directory_epoch: int = 0) -> "Owner":
        lease = store.execute(Open(session, directory_epoch))
        return cls(store, session, lease.epoch, lease.head, seen=[m.message_id for m in lease.messages])

    def append(self, *entries: LogEntry, **more: Any) -> Appended:
        more.setdefault("batch_id", f"b{next(_fresh)}")
        reply = self.store.execute(
            Append(self.session, self.epoch, more.pop("expected_head", self.head), entries=entries, **more)
        )
        self.head, self.last = reply.head, reply
        return reply

    def begin(self, *consumes: str, trigger: str = "prompt", **more: Any) -> Appended:
        """Start a run that takes these prompts."""
        self.run_id = f"run{next(_fresh)}"
        taken = [UserInput((Segment("text", m),), m, USER) for m in consumes]
        return self.append(Invoke(self.run_id, trigger), *taken, consumes=consumes, **more)

    def end(self, outcome: Any = "finished", **more: Any) -> Appended:
        more.setdefault("concluded", outcome not in ("waiting_on_children", "waiting_on_user", "paused"))
        waits_for = more.pop("waits_for", None)
        return self.append(RunEnd(self.run_id, outcome, waits_for=waits_for), **more)

    def ask(self, question_id: str, *labels: str, kind: Any = "clarify") -> Appended:
        choices = tuple(Choice(label) for label in labels)
        return self.append(
            Question(question_id, kind, "which?", choices), RunEnd(self.run_id, "waiting_on_user"), concluded=False
        )

    def release(self) -> int:
        return self.store.execute(Release(self.session, self.epoch)).head

    def spawn(self, child: str, *, limits: PodLimits | None = None, scope: Scope | None = None, **more: Any) -> Created:
        more.setdefault("name", child)
        return create(
            self.store,
            child,
            message(f"task:{child}", sender=self.session),
            parent=Parent(self.session, self.epoch, self.run_id),
            limits=limits or PodLimits(),
            scope=scope,
            **more,
        )


def running(store: Store, session: str) -> Owner:
    """A new root session in its first run."""
    create(store, session, message(f"p:{session}"))
    owner = Owner.of(store, session)
    owner.begin(f"p:{session}")
    return owner


def delivery(session: str, told: Message, entry: int | None = None) -> Delivery:
    return Delivery(session, told, entry)
