"""The store behind its Ray actor: killed in mid-load, one lock, lanes that do not wait for each other."""

import asyncio
import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from session_store.actor import SessionStoreActor, StoreOptions, start_store
from session_store.backends.sqlite import SqliteStore
from session_store.backends.sqlite_schema import SCHEMA_VERSION
from session_store.errors import ConditionFailed, NewerSchema, StaleEpoch, StoreUnavailable, UnknownSession
from session_store.lock import holder_of
from session_store.ray_client import BlockingRayStore, RayStore, named_store
from session_store.requests import Append, Follow, Open, Pending, Query, Read
from session_store.wire_codec import decode_reply, encode_request
from tests.support.store import Owner, create, deliver, log, message, row, running, text

pytestmark = pytest.mark.usefixtures("ray_cluster")


@pytest.fixture
def actor(tmp_path: Path, ray_cluster: None) -> Iterator[Any]:
    import ray

    name = f"store-{tmp_path.name}"
    handle = start_store(f"sqlite://{tmp_path}/pods/store.db", StoreOptions(name=name, detached=False))
    yield handle
    ray.kill(handle)


@pytest.fixture
def store(actor: Any) -> BlockingRayStore:
    return BlockingRayStore(lambda: actor)


def test_the_contract_holds_across_the_border(store: BlockingRayStore) -> None:
    owner = running(store, "p")
    owner.spawn("c")
    deliver(store, "p", message("n", "notify", message="\u2028"))
    reply = owner.append(text("a"), text("b"), inbox_cursor=1)
    assert (reply.first_seq, [m.body["message"] for m in reply.messages]) == (4, ["\u2028"])
    assert (log(store, "p"), row(store, "c").parent_id) == ([1, 2, 3, 4, 5], "p")
    with pytest.raises(StaleEpoch) as stale:
        store.execute(Append("p", 0, 5, "b"))
    assert stale.value.detail["current"] == 1
    with pytest.raises(UnknownSession):
        store.execute(Read("nobody"))
    with pytest.raises(ConditionFailed) as refused:
        owner.release()
    assert refused.value.reason == "pending"


def test_a_defect_of_the_store_is_an_error_that_its_callers_know(store: BlockingRayStore) -> None:
    with pytest.raises(StoreUnavailable, match="unexpected: ValueError"):
        store.execute(Query(cursor="no cursor"))


def pid_of(actor: Any, limit: float = 60.0) -> int:
    """The process of an actor, once it has restarted."""
    import ray

    deadline = time.monotonic() + limit
    while True:
        try:
            return int(ray.get(actor.ping.options(concurrency_group="control").remote(), timeout=limit))
        except ray.exceptions.ActorUnavailableError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.parametrize("local", [True, False])
async def test_requests_of_one_moment_go_in_one_call_with_an_answer_each(
    actor: Any, store: BlockingRayStore, local: bool
) -> None:
    client = RayStore(lambda: actor, local=local)
    owners = [running(store, f"s{i}") for i in range(10)]
    owners[3].epoch = 99
    asked = (client.execute(Append(o.session, o.epoch, o.head, "b", (text("x"),))) for o in owners)
    replies = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(replies.pop(3), StaleEpoch)
    assert [r.first_seq for r in replies] == [4] * 9  # type: ignore[union-attr]


@pytest.mark.parametrize("local", [True, False])
async def test_S09_the_actor_is_killed_in_mid_load_and_nothing_is_lost_or_doubled(
    actor: Any, store: BlockingRayStore, local: bool
) -> None:

    seed = 7
    chance = random.Random(seed)
    owners = [running(store, f"s{i}") for i in range(8)]
    client = RayStore(lambda: actor, limit=30, attempt=5, local=local)
    acknowledged: dict[str, list[int]] = {o.session: [] for o in owners}
    done = asyncio.Event()

    async def load(owner: Owner) -> None:
        for number in range(60):
            words = f"{owner.session}:{number}"
            asked = Append(owner.session, owner.epoch, owner.head, f"b{number}", (text(words),))
            reply = await client.execute(asked)
            assert reply.first_seq == owner.head + 1
            assert (await client.execute(asked)).first_seq == reply.first_seq  # as if the answer had been lost
            owner.head = reply.head
            acknowledged[owner.session].append(reply.first_seq)
            await asyncio.sleep(chance.uniform(0.0, 0.02))  # so that the load outlasts the first kills

    async def kill() -> int:
        kills = 0
        while not done.is_set() and kills < 3:
            await asyncio.sleep(chance.uniform(0.05, 0.3))
            pid = await asyncio.to_thread(pid_of, actor)
            os.kill(pid, signal.SIGKILL)
            kills += 1
            await asyncio.sleep(1.5)
        return kills

    killer = asyncio.ensure_future(kill())
    await asyncio.gather(*(load(o) for o in owners))
    done.set()
    assert await killer >= 1, f"seed {seed}"
    for owner in owners:
        rows = store.execute(Read(owner.session, after=3)).entries
        assert [r.seq for r in rows] == acknowledged[owner.session] == list(range(4, 64)), f"seed {seed}"


def test_a_waiting_follow_holds_no_append_up(store: BlockingRayStore, actor: Any) -> None:
    owner = running(store, "s")
    cursor = store.execute(Follow(-1)).cursor
    heard: list[Any] = []
    followers = [
        threading.Thread(target=lambda: heard.append(BlockingRayStore(lambda: actor).execute(Follow(cursor, 10))))
        for _ in range(12)
    ]
    for follower in followers:
        follower.start()
    time.sleep(0.3)
    assert store.execute(Pending("s")).head == 3
    started = time.monotonic()
    owner.append(text("x"))
    assert time.monotonic() - started < 1
    for follower in followers:
        follower.join(5)
    assert {(c.session, c.head) for h in heard for c in h.commits} == {("s", 4)}
    assert len(heard) == 12


def test_one_process_holds_the_file(actor: Any, store: BlockingRayStore, tmp_path: Path) -> None:
    import ray

    create(store, "s")
    pid = ray.get(actor.ping.options(concurrency_group="control").remote())
    holder = holder_of(tmp_path / "pods" / "store.lock")
    assert holder is not None
    assert holder.pid == pid
    url = f"sqlite://{tmp_path}/pods/store.db"
    second = SessionStoreActor(url, lock_wait=0.1)
    with pytest.raises(StoreUnavailable, match=f"held by process {pid}"):
        decode_reply(second.write(encode_request(Open("s", 0))))
    assert store.execute(Read("s")).head == 1


def test_a_store_that_cannot_be_opened_says_why_and_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    actor = SessionStoreActor(f"sqlite://{path}", lock_wait=0.1)
    for _ in range(2):
        with pytest.raises(NewerSchema):
            decode_reply(actor.read(encode_request(Query())))
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    db.close()
    time.sleep(1.1)
    assert decode_reply(actor.read(encode_request(Query()))).rows == ()


@pytest.mark.parametrize("url", ["sqlite:store.db", "sqlite:///", "mysql://x", "", "sqlite:///proc/nowhere/store.db"])
def test_a_bad_url_is_told_to_every_caller(url: str) -> None:
    with pytest.raises(StoreUnavailable):
        decode_reply(SessionStoreActor(url).read(encode_request(Query())))


def test_a_store_that_does_not_answer_is_told_within_the_limit(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"no answer for 0\.3 s"):
        BlockingRayStore(named_store(f"nobody-{tmp_path.name}"), limit=0.3).execute(Query())
    assert time.monotonic() - started < 3


async def test_a_frozen_store_is_told_within_the_limit(actor: Any, store: BlockingRayStore) -> None:
    import ray

    create(store, "s")
    pid = ray.get(actor.ping.options(concurrency_group="control").remote())
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable):
            await RayStore(lambda: actor, limit=0.5, attempt=0.2).execute(Open("s", 0))
    finally:
        os.kill(pid, signal.SIGCONT)
    # The attempts that were frozen are carried out now; the epoch only moves forward.
    assert (await RayStore(lambda: actor).execute(Open("s", 0))).epoch >= 1
