"""Any sequence of requests against a plain model: what is acknowledged is there once, what is refused left no trace."""

import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from session_store.backends.memory import MemoryStore
from session_store.backends.postgres import PostgresStore
from session_store.backends.postgres_check import check_postgres
from session_store.backends.postgres_link import address_of
from session_store.backends.sqlite import SqliteStore
from session_store.check import check
from session_store.counters import CREATED, ENTRIES, SEPARATOR
from session_store.entries import Extension, LogEntry, Origin, Rewound, UserInput
from session_store.errors import ConditionFailed, HeadMoved, Refused, StaleEpoch
from session_store.items import Segment
from session_store.reading import read_log
from session_store.requests import (
    Annotate,
    Append,
    Appended,
    Commit,
    Commits,
    Counters,
    Create,
    Deliver,
    Delivery,
    FindMessage,
    Follow,
    Fork,
    Open,
    Pending,
    Query,
    Read,
    Release,
    Request,
)
from session_store.status import StatusFold
from tests.support.postgres import PostgresServer
from tests.support.store import Ticks, deliver, message, row, start, text

SESSIONS = ("s0", "s1", "s2")
session = st.sampled_from(SESSIONS)
few = st.integers(0, 3)


@dataclass
class Model:
    """What a person would write on paper about one session."""

    words: list[str] = field(default_factory=list)
    history: int = 0
    epoch: int = 0
    owned: bool = False
    inbox: list[str] = field(default_factory=list)
    gone: dict[str, int] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)
    last: tuple[Append, Appended] | None = None

    @property
    def head(self) -> int:
        return len(self.words)

    @property
    def prompts(self) -> list[int]:
        return [seq for seq, word in enumerate(self.words, 1) if word[0] == "u"]

    def has(self, message_id: str) -> bool:
        return message_id in self.inbox or message_id in self.gone


_NAMES = {"start": "segment_start", "note a": "extension", "note b": "extension"}


def said(word: str) -> LogEntry:
    return UserInput((Segment("text", word),), word, "user") if word[0] == "u" else text(word)


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.models: dict[str, Model] = {}
        self.number = 0
        self.cursor = -1
        self.heard: dict[str, int] = {}
        self.store: Any = self.make()

    def make(self) -> Any:
        return MemoryStore(Ticks())

    def fresh(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    def refused(self, request: Request[Any]) -> Refused:
        try:
            self.store.execute(request)
        except Refused as refusal:
            return refusal
        raise AssertionError(f"{request} was not refused")

    @rule(name=session, messages=few)
    def create(self, name: str, messages: int) -> None:
        told = tuple(message(self.fresh("m")) for _ in range(messages))
        reply = self.store.execute(Create(name, "default", f"make {name}", start(name), told))
        assert reply.existed == (name in self.models)
        if not reply.existed:
            self.models[name] = Model(["start"], 1, inbox=[m.message_id for m in told])
        assert reply.head == self.models[name].head

    @precondition(lambda self: self.models)
    @rule(data=st.data(), again=st.booleans())
    def deliver(self, data: st.DataObject, again: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[name]
        known = [*model.inbox, *model.gone]
        message_id = data.draw(st.sampled_from(known)) if again and known else self.fresh("m")
        reply = deliver(self.store, name, message(message_id))
        assert reply.existed == model.has(message_id)
        if not reply.existed:
            model.inbox.append(message_id)

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def open(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[name]
        lease = self.store.execute(Open(name, 0))
        model.epoch, model.owned = model.epoch + 1, True
        assert (lease.epoch, lease.head) == (model.epoch, model.head)
        assert [m.message_id for m in lease.messages] == model.inbox
        assert lease.last_batch_id == (None if model.last is None else model.last[0].batch_id)

    @precondition(lambda self: any(m.owned for m in self.models.values()))
    @rule(data=st.data(), count=few, takes=few, gives=few)
    def append(self, data: st.DataObject, count: int, takes: int, gives: int) -> None:
        name = data.draw(st.sampled_from([n for n, m in self.models.items() if m.owned]))
        model = self.models[name]
        expected = data.draw(st.integers(model.history, model.head))
        words = [self.fresh(data.draw(st.sampled_from("wu"))) for _ in range(count)]
        targets = [data.draw(st.sampled_from(sorted(self.models))) for _ in range(gives)]
        told = [(target, self.fresh("d")) for target in targets]
        request = Append(
            name,
            model.epoch,
            expected,
            self.fresh("b"),
            tuple(said(w) for w in words),
            tuple(Delivery(target, message(message_id, "notify", name)) for target, message_id in told),
            tuple(model.inbox[:takes]),
        )
        reply = self.store.execute(request)
        assert reply.first_seq == (model.head + 1 if words else 0)
        model.words += words
        model.history = model.head if words else model.history
        model.gone |= dict.fromkeys(request.consumes, model.head)
        model.inbox = model.inbox[takes:]
        for target, message_id in told:
            self.models[target].inbox.append(message_id)
        model.last = (request, reply)
        assert (reply.head, [m.message_id for m in reply.messages]) == (model.head, model.inbox)

    @precondition(lambda self: any(m.owned and m.last for m in self.models.values()))
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([n for n, m in self.models.items() if m.owned and m.last]))
        model = self.models[name]
        assert model.last is not None
        request, first = model.last
        again = self.store.execute(replace(request, epoch=model.epoch))
        assert replace(again, messages=()) == replace(first, messages=())
        assert [m.message_id for m in again.messages] == model.inbox

    @precondition(lambda self: self.models)
    @rule(data=st.data(), back=st.integers(1, 3))
    def append_what_is_refused(self, data: st.DataObject, back: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[name]
        other = data.draw(st.sampled_from(sorted(self.models)))
        gift = (Delivery(other, message(self.fresh("d"))),)
        good = Append(name, model.epoch, model.head, self.fresh("b"), (text("no"),), gift)
        assert isinstance(self.refused(replace(good, epoch=model.epoch + back)), StaleEpoch)
        assert isinstance(self.refused(replace(good, epoch=model.epoch - back)), StaleEpoch)
        if not model.owned:
            assert isinstance(self.refused(good), StaleEpoch)
            return
        assert isinstance(self.refused(replace(good, expected_head=model.history - back)), HeadMoved)
        assert isinstance(self.refused(replace(good, expected_head=model.head + back)), HeadMoved)
        assert isinstance(self.refused(replace(good, consumes=("unknown",))), ConditionFailed)

    @precondition(lambda self: self.models)
    @rule(data=st.data(), key=st.sampled_from("ab"))
    def annotate(self, data: st.DataObject, key: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[name]
        reply = self.store.execute(Annotate(name, Extension("d", {"key": key}), key, 0))
        assert reply.existed == (key in model.keys)
        if not reply.existed:
            model.words.append(f"note {key}")
            model.keys[key] = model.head
        assert (reply.seq, reply.head) == (model.keys[key], model.head)

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        """Refused with the reason that the paper gives; an accepted one keeps all others off until it took place."""
        name = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[name]
        to = data.draw(st.sampled_from([*model.prompts, 0, model.head, model.head + 1]))
        expected = data.draw(st.integers(model.history - 1, model.head + 1))
        order = Deliver(name, message(self.fresh("m"), "rewind", to=to, expected_head=expected))
        reason = ""
        if model.inbox:
            reason = "busy"
        elif not model.history <= expected <= model.head:
            reason = "head_moved"
        elif to not in model.prompts or to in model.removed:
            reason = "invalid"
        if reason:
            refusal = self.refused(order)
            assert isinstance(refusal, ConditionFailed)
            assert refusal.reason == reason
            return
        self.store.execute(order)
        again = replace(order, message=replace(order.message, message_id=self.fresh("m")))
        assert isinstance(self.refused(again), ConditionFailed)
        epoch = self.store.execute(Open(name, 0)).epoch
        model.epoch, model.owned = epoch, True
        consumed = (order.message.message_id,)
        request = Append(name, epoch, model.head, self.fresh("b"), (Rewound(to),), consumes=consumed)
        model.last = (request, self.store.execute(request))
        model.removed |= {seq for seq in model.prompts if seq >= to}
        model.words.append("rewound")
        model.history = model.gone[order.message.message_id] = model.head

    @precondition(lambda self: 0 < len(self.models) < 6)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        source = data.draw(st.sampled_from(sorted(self.models)))
        made = self.fresh("f")
        seq = data.draw(st.integers(0, self.models[source].head + 1))
        request = Fork(made, "default", f"fork {made}", replace(start(made), origin=Origin(source, seq)))
        if not 1 <= seq <= self.models[source].head:
            assert isinstance(self.refused(request), ConditionFailed)
            return
        for existed in (False, True):
            reply = self.store.execute(request)
            assert (reply.session, reply.head, reply.existed) == (made, 1, existed)
        self.models[made] = Model(["start"], 1)

    @precondition(lambda self: any(m.owned for m in self.models.values()))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([n for n, m in self.models.items() if m.owned]))
        model = self.models[name]
        if model.inbox:  # a prompt or a notice starts a run in an idle session
            assert isinstance(self.refused(Release(name, model.epoch)), ConditionFailed)
        else:
            self.store.execute(Release(name, model.epoch))
            model.owned = False

    @rule()
    def follow(self) -> None:
        reply = self.store.execute(Follow(self.cursor))
        self.heard |= {c.session: c.head for c in reply.commits}
        if self.cursor != -1:
            assert self.heard.items() >= {(n, m.head) for n, m in self.models.items() if n in self.heard}
        self.cursor = reply.cursor

    @invariant()
    def the_log_is_the_models(self) -> None:
        for name, model in self.models.items():
            entries = read_log(self.store, name)
            assert [e.seq for e in entries] == list(range(1, model.head + 1))
            said = [e.items[0].text if e.type == "assistant_items" else e.type for e in entries]  # type: ignore[union-attr]
            wanted = [_NAMES.get(w, "user_input" if w[0] == "u" else w) for w in model.words]
            assert said == wanted
            fold = StatusFold()
            for entry in entries:
                fold.apply(entry)
            seen = row(self.store, name)
            assert (seen.head, seen.epoch, seen.owned, seen.queue) == (
                model.head,
                model.epoch,
                model.owned,
                len(model.inbox),
            )
            assert seen.status == ("running" if model.inbox else fold.resting)
            assert [m.message_id for m in self.store.execute(Pending(name)).messages] == model.inbox
            for message_id, seq in model.gone.items():
                found = self.store.execute(FindMessage(name, message_id))
                assert (found.state, found.seq) == ("consumed", seq)
        wanting = [r.id for r in self.store.execute(Query(needs_owner=True)).rows]
        assert sorted(wanting) == sorted(n for n, m in self.models.items() if m.inbox)

    @invariant()
    def the_counters_are_the_logs(self) -> None:
        types = Counter(e.type for name in self.models for e in read_log(self.store, name))
        values = self.store.execute(Counters()).values
        found = {k: n for k, n in values.items() if k.split(SEPARATOR)[0] in (ENTRIES.name, CREATED.name)}
        spawned = sum(found.pop(CREATED.key(how), 0) for how in ("root", "fork"))
        assert spawned == len(self.models)
        assert found == {ENTRIES.key(kind): number for kind, number in types.items()}


class RestartingMachine(StoreMachine):
    """The same with restarts in between."""

    def make(self) -> Any:
        return self.reopened()

    def reopened(self) -> Any: ...

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = self.reopened()
        if self.cursor != -1:  # a cursor from before gives every session
            assert {c.session for c in self.store.execute(Follow(self.cursor)).commits} == set(self.models)

    @rule(name=session)
    def read_beyond(self, name: str) -> None:
        if name in self.models:
            assert self.store.execute(Read(name, after=10_000)).entries == ()


class SqliteMachine(RestartingMachine):
    def make(self) -> Any:
        self.folder = tempfile.TemporaryDirectory()
        return self.reopened()

    def reopened(self) -> SqliteStore:
        return SqliteStore(Path(self.folder.name) / "store.db", Ticks())

    def teardown(self) -> None:
        self.store.close()
        assert check(Path(self.folder.name) / "store.db") == []
        self.folder.cleanup()


TestMemory = StoreMachine.TestCase
TestMemory.settings = settings(max_examples=60, stateful_step_count=30)
TestSqlite = SqliteMachine.TestCase
TestSqlite.settings = settings(max_examples=40, stateful_step_count=30)


class Alternating:
    """Two store actors in front of one database: each request goes to the other one than the last."""

    def __init__(self, url: str) -> None:
        self.stores = [PostgresStore(url, Ticks()) for _ in range(2)]
        self.cursor = self.stores[1].execute(Follow(-1)).cursor
        self.known: dict[str, int] = {}

    def execute(self, request: Request[Any]) -> Any:
        if isinstance(request, Follow):
            return self.follow(request)
        self.stores.reverse()
        return self.stores[0].execute(request)

    def follow(self, request: Follow) -> Commits:
        """Of the older store, once it has heard of all that went through the younger."""
        old, young = sorted(self.stores, key=lambda store: store._tables.writer)
        done = young.execute(Follow(self.cursor))
        self.cursor = done.cursor
        found = old.execute(request)
        heads = {c.session: c.head for c in found.commits}
        self.known |= heads
        deadline = time.monotonic() + 10
        while request.cursor != -1 and any(self.known.get(c.session, -1) < c.head for c in done.commits):
            assert time.monotonic() < deadline
            found = old.execute(Follow(found.cursor, 1.0))
            heads |= {c.session: c.head for c in found.commits}
            self.known |= heads
        return Commits(found.cursor, tuple(Commit(s, h) for s, h in heads.items()))

    def close(self) -> None:
        for store in self.stores:
            store.close()


def test_postgres(postgres: PostgresServer) -> None:
    address = address_of(postgres.url())
    assert address is not None

    class PostgresMachine(RestartingMachine):
        def make(self) -> Any:
            postgres.wipe()
            return self.reopened()

        def reopened(self) -> Any:
            return Alternating(postgres.url())

        def teardown(self) -> None:
            self.store.close()
            assert check_postgres(address) == []

    run_state_machine_as_test(PostgresMachine, settings=settings(max_examples=10, stateful_step_count=30))
