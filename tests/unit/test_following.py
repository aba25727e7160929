"""Reassembly: a connection cut at any byte, and everything is told once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from actors.protocol.live import Delta, Discard, Retry
from orchestrator.events import (
    AlertEvent,
    EntryEvent,
    EntryHeader,
    PodStreamEvent,
    Resync,
    StatusEvent,
    SystemItemEvent,
    UnknownEvent,
    Wire,
    wire_form,
)
from orchestrator.following import PodFollowing, StoreFollowing
from orchestrator.transcript import Transcript
from session_store.entries import Extension, SystemItems
from session_store.items import SystemItem
from tests.support.cut_stream import Client, PlayedGateway, PlayedPod

PIECES = some.text(some.sampled_from("ab日🙂\n\u2028"), min_size=1, max_size=6)
STEPS = some.one_of(
    some.tuples(some.just("say"), some.integers(0, 2), PIECES),
    some.tuples(some.just("print"), some.integers(0, 1), PIECES),
    some.tuples(some.sampled_from(["commit", "commit less", "retry", "note", "crash", "gateway", "done 0", "done 1"])),
    some.tuples(some.just("items"), some.integers(1, 3)),
    some.tuples(some.sampled_from(["pull", "look"])),
    some.tuples(some.just("cut"), some.integers(0, 1500)),
    some.just(("hear",)),
)


@settings(max_examples=400, deadline=None)
@given(some.lists(STEPS, max_size=40))
def test_V01_V03_every_byte_once_whatever_is_cut(steps: list[tuple]) -> None:
    pod = PlayedPod()
    gateway = PlayedGateway(pod)
    client = Client(gateway)
    for step in steps:
        take(step, pod, gateway, client)
    pod.rest()
    gateway.topic.pull()
    gateway.topic.look()
    client.hear()
    seqs = [e.seq for e in client.transcript.committed]
    assert sorted(set(seqs)) == list(range(4, pod.owner.head + 1))
    assert len(seqs) == sum(len(e.items) if isinstance(e, SystemItems) else 1 for e in pod.entries)
    assert client.transcript.live == {}
    assert client.following.blocks == {}
    assert client.following.cursor == pod.owner.head
    assert client.transcript.status == StatusEvent("idle", pod.owner.epoch, pod.owner.head)


def take(step: tuple, pod: PlayedPod, gateway: PlayedGateway, client: Client) -> None:
    match step:
        case ("say", block, text):
            pod.say(block, text)
        case ("print", call, text):
            pod.print(call, text)
        case ("done 0" | "done 1" as done,):
            pod.finish_tool(int(done[-1]))
        case ("commit" | "commit less" as how,):
            pod.commit(leave_out=how != "commit")
        case ("retry",):
            pod.retry()
        case ("crash",):
            pod.crash()
        case ("note",):
            pod.append(Extension("test", {}))
        case ("items", count):
            pod.append(SystemItems(tuple(SystemItem("reminder", f"i{n}", {}, f"{n}") for n in range(count))))
        case ("pull",):
            gateway.topic.pull()
        case ("look",):
            gateway.topic.look()
        case ("gateway",):
            gateway.restart()
            client.reader = None
        case ("cut", limit):
            client.hear(limit)
        case _:
            client.hear()


TS = "2026-11-30T12:00:00.000Z"


def entry(seq: int, type_: str = "extension", **fields: object) -> EntryEvent:
    return EntryEvent(seq, {"seq": seq, "ts": TS, "type": type_, **fields})


def reply(seq: int, request_id: str, **blocks: str) -> EntryEvent:
    items = [{"type": "text", "text": text, "block": block} for block, text in blocks.items()]
    return entry(seq, "assistant_items", request_id=request_id, items=items)


def told(following: PodFollowing, *events: PodStreamEvent) -> list[PodStreamEvent]:
    return [news for event in events for news in following.take(wire_form(event))]


def again(following: PodFollowing, *events: PodStreamEvent) -> list[PodStreamEvent]:
    """After a reconnect."""
    following.connected()
    return told(following, *events)


AB = Delta("r", "b", 0, "ab", 3)
CD = Delta("r", "b", 2, "cd", 3)
RUNNING = StatusEvent("running", 1, 3)


def test_text_goes_on_after_a_reconnect_where_it_stopped() -> None:
    following = PodFollowing(3)
    assert told(following, AB, RUNNING) == [AB, RUNNING]
    assert again(following, replace(AB, text="abcd"), RUNNING) == [CD]
    assert again(following, AB) == []
    assert told(following, reply(4, "r", b="abcd")) == [reply(4, "r", b="abcd")]
    assert following.blocks == {}


@pytest.mark.parametrize(
    ("news", "expect"),
    [
        ([Delta("s", "c", 0, "x", 4)], [Discard("r"), Delta("s", "c", 0, "x", 4)]),
        ([Delta("r", "b2", 0, "x", 4)], [Discard("r"), Delta("r", "b2", 0, "x", 4)]),
        ([Retry("r", 2, 0.5, "busy")], [Discard("r"), Retry("r", 2, 0.5, "busy")]),
        ([replace(RUNNING, generation=2)], [Discard("r"), replace(RUNNING, generation=2)]),
        ([replace(RUNNING, status="idle")], [Discard("r"), replace(RUNNING, status="idle")]),
        ([replace(AB, text="xy")], [Discard("r"), replace(AB, text="xy")]),
        ([reply(4, "r", other="x")], [Discard("r"), reply(4, "r", other="x")]),
        ([Resync("beyond-head", 2, {})], [Discard("r"), Resync("beyond-head", 2, {})]),
        ([Discard("r")], [Discard("r")]),
        ([Discard("s")], []),
        ([RUNNING], []),
    ],
)
def test_text_that_a_reconnect_does_not_bring_again_is_void_when_something_says_so(
    news: list[PodStreamEvent], expect: list[PodStreamEvent]
) -> None:
    following = PodFollowing(3)
    told(following, AB, RUNNING)
    assert again(following, *news) == expect


def test_what_still_counts_of_a_discarded_request_is_told_again() -> None:
    following = PodFollowing(3)
    two = Delta("r", "c", 0, "two", 3)
    told(following, AB, two)
    assert again(following, two) == [Discard("r"), two]


def test_a_late_delta_of_a_committed_block_is_no_news() -> None:
    following = PodFollowing(3)
    told(following, AB, reply(4, "r", b="abcd"))
    assert told(following, CD, Delta("r", "tool:4.0", 0, "out", 4)) == [Delta("r", "tool:4.0", 0, "out", 4)]
    assert told(following, replace(CD, offset=9)) == []


def test_items_of_one_entry_are_told_once_over_a_cut_between_them() -> None:
    first, second, third = (SystemItemEvent(4, TS, "reminder", {}, f"{n}", last=n == 3) for n in (1, 2, 3))
    following = PodFollowing(3)
    assert told(following, first, second) == [first, second]
    assert following.cursor == 3
    assert again(following, first, second, third) == [third]
    assert following.cursor == 4
    assert again(following, third, entry(5)) == [entry(5)]


def test_V02_a_resync_moves_the_cursor_and_the_last_words_do_not() -> None:
    following = PodFollowing(99)
    assert told(following, Resync("beyond-head", 5, {"id": "p"}), entry(6)) != []
    assert following.place == "6"
    told(following, Resync("slow-reader", 50, None))
    assert following.place == "6"
    transcript = Transcript()
    for event in (Resync("purged", 7, None), entry(8)):
        transcript.take(event)
    assert (transcript.missed, [e.seq for e in transcript.committed]) == (7, [8])


def test_alerts_are_told_once_over_connections() -> None:
    one, two = (AlertEvent(f"a{n}", "info", "c", "m", TS) for n in (1, 2))
    following, transcript = PodFollowing(), Transcript()
    for event in [*told(following, one), *again(following, one, two)]:
        transcript.take(event)
    assert list(transcript.alerts) == [one, two]


def test_V09_an_unknown_event_is_told_once_and_moves_the_cursor() -> None:
    following = PodFollowing(3)
    assert following.take(Wire("new", "4", {})) == [UnknownEvent("new", "4", {})]
    assert following.take(Wire("new", "4", {})) == []
    assert following.take(Wire("new", "x", {})) == [UnknownEvent("new", "x", {})]
    assert following.place == "4"


def test_headers_of_many_pods_are_told_once() -> None:
    following = StoreFollowing()
    one = EntryHeader("p", "n", 4, TS, "run_end", {}, "c1")
    assert following.take(Wire("", "c0", None)) == []
    assert following.place == "c0"
    assert following.take(wire_form(one)) == [one]
    following.connected()
    later = replace(one, seq=5, cursor=None)
    assert [e for w in (one, replace(one, pod_id="q"), later) for e in following.take(wire_form(w))] == [
        replace(one, pod_id="q"),
        later,
    ]
    assert following.place == "c1"
