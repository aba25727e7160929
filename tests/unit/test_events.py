"""Events as clients see them: one snapshot and one round trip per type, and what the unions hold."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as some
from inline_snapshot import snapshot

from actors.protocol.live import Delta, Discard, Retry
from orchestrator import events
from orchestrator.event_lines import EventLines
from orchestrator.events import (
    AlertEvent,
    EntryEvent,
    EntryHeader,
    PodStreamEvent,
    Resync,
    StatusEvent,
    StoreEvent,
    SystemItemEvent,
    UnknownEvent,
    Wire,
    parse_event,
    parse_store_event,
    wire_form,
)

TS = "2026-11-30T12:00:00.000Z"

POD_EVENTS: tuple[PodStreamEvent, ...] = (
    EntryEvent(4, {"seq": 4, "ts": TS, "type": "run_end", "run_id": "r1", "outcome": "finished"}),
    SystemItemEvent(5, TS, "notification", {"message": "hi"}, "<notification>hi</notification>"),
    SystemItemEvent(5, TS, "reminder", {"tasks": []}, "…", last=False),
    Delta("r1", "r1.1.0", 2, "にちは", 4),
    StatusEvent("idle", 1, 5),
    AlertEvent("p:1:1", "warning", "reference", "no such file", TS),
    Retry("r1", 2, 0.5, "overloaded"),
    Discard("r1"),
    Resync("beyond-head", 5, {"id": "p", "status": "idle"}),
    Resync("store-damaged", 5, None, "damaged at entry 2"),
)
STORE_EVENTS: tuple[StoreEvent, ...] = (
    EntryHeader("p", "census", 4, TS, "run_end", {"run_id": "r1", "outcome": "finished"}, "1f.19"),
    EntryHeader("p", "census", 3, TS, "user_input"),
    AlertEvent("d:3:1", "error", "pod-given-up", "died 6 times", TS, "p"),
    Resync("malformed-cursor", None, None, cursor="1f.19"),
)


def test_each_type_on_the_wire() -> None:
    assert [wire_form(event) for event in (*POD_EVENTS, *STORE_EVENTS)] == snapshot(
        [
            Wire(
                name="entry",
                id="4",
                data={
                    "seq": 4,
                    "ts": "2026-11-30T12:00:00.000Z",
                    "type": "run_end",
                    "run_id": "r1",
                    "outcome": "finished",
                },
            ),
            Wire(
                name="system_item",
                id="5",
                data={
                    "seq": 5,
                    "ts": "2026-11-30T12:00:00.000Z",
                    "kind": "notification",
                    "payload": {"message": "hi"},
                    "body": "<notification>hi</notification>",
                },
            ),
            Wire(
                name="system_item",
                id=None,
                data={
                    "seq": 5,
                    "ts": "2026-11-30T12:00:00.000Z",
                    "kind": "reminder",
                    "payload": {"tasks": []},
                    "body": "…",
                },
            ),
            Wire(
                name="delta",
                id=None,
                data={"request_id": "r1", "block": "r1.1.0", "offset": 2, "text": "にちは", "after": 4},
            ),
            Wire(name="status", id=None, data={"status": "idle", "generation": 1, "head_seq": 5}),
            Wire(
                name="alert",
                id=None,
                data={
                    "alert_id": "p:1:1",
                    "level": "warning",
                    "code": "reference",
                    "message": "no such file",
                    "ts": "2026-11-30T12:00:00.000Z",
                },
            ),
            Wire(name="retry", id=None, data={"request_id": "r1", "attempt": 2, "wait": 0.5, "reason": "overloaded"}),
            Wire(name="discard", id=None, data={"request_id": "r1"}),
            Wire(
                name="resync",
                id=None,
                data={"reason": "beyond-head", "head_seq": 5, "snapshot": {"id": "p", "status": "idle"}},
            ),
            Wire(
                name="resync",
                id=None,
                data={"reason": "store-damaged", "head_seq": 5, "snapshot": None, "detail": "damaged at entry 2"},
            ),
            Wire(
                name="entry",
                id="1f.19",
                data={
                    "pod_id": "p",
                    "pod_name": "census",
                    "seq": 4,
                    "ts": "2026-11-30T12:00:00.000Z",
                    "type": "run_end",
                    "run_id": "r1",
                    "outcome": "finished",
                },
            ),
            Wire(
                name="entry",
                id=None,
                data={
                    "pod_id": "p",
                    "pod_name": "census",
                    "seq": 3,
                    "ts": "2026-11-30T12:00:00.000Z",
                    "type": "user_input",
                },
            ),
            Wire(
                name="alert",
                id=None,
                data={
                    "alert_id": "d:3:1",
                    "level": "error",
                    "code": "pod-given-up",
                    "message": "died 6 times",
                    "ts": "2026-11-30T12:00:00.000Z",
                    "pod_id": "p",
                },
            ),
            Wire(name="resync", id="1f.19", data={"reason": "malformed-cursor", "head_seq": None, "snapshot": None}),
        ]
    )


@pytest.mark.parametrize("event", POD_EVENTS, ids=lambda e: e.type)
def test_each_type_comes_back_from_the_wire(event: PodStreamEvent) -> None:
    assert parse_event(*_through_json(wire_form(event))) == event


@pytest.mark.parametrize("event", STORE_EVENTS, ids=lambda e: e.type)
def test_each_type_of_the_store_stream_comes_back(event: StoreEvent) -> None:
    assert parse_store_event(*_through_json(wire_form(event))) == event


def test_every_type_is_in_the_snapshot() -> None:
    assert {type(e) for e in POD_EVENTS} == set(get_args(PodStreamEvent)) - {UnknownEvent}
    assert {type(e) for e in STORE_EVENTS} == set(get_args(StoreEvent)) - {UnknownEvent}


def test_the_unions_hold_no_message_and_no_old_tag() -> None:
    """One lane (issue 3): what came as a message reaches clients as `system_item`, and as nothing else."""
    names = {e.type for e in (*POD_EVENTS, *STORE_EVENTS)}
    assert names == events.POD_STREAM_NAMES | events.STORE_STREAM_NAMES
    assert names == {"entry", "system_item", "delta", "status", "alert", "retry", "discard", "resync"}
    assert not names & {"notify", "pod_event", "hook_injected_items"}
    for name in ("notify", "pod_event", "hook_injected_items"):
        assert isinstance(parse_event(name, "7", {}), UnknownEvent)


def test_every_type_states_its_law() -> None:
    for kind in {*get_args(PodStreamEvent), *get_args(StoreEvent)}:
        assert "Law: " in kind.__doc__, kind


def test_V09_what_a_newer_server_sends_is_kept_whole() -> None:
    unknown = parse_event("heartbeat", "9", {"load": [1, 2]})
    assert unknown == UnknownEvent("heartbeat", "9", {"load": [1, 2]})
    assert wire_form(unknown) == Wire("heartbeat", "9", {"load": [1, 2]})
    assert parse_event("discard", None, {"request_id": "r", "why": "new field"}) == Discard("r")


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("delta", {"request_id": "r", "block": "b", "text": "x", "after": 1}, "`delta` lacks a good `offset`"),
        ("delta", {"request_id": "r", "block": "b", "offset": True, "text": "x", "after": 1}, "good `offset`"),
        ("entry", ["no", "object"], "the data of `entry` are no JSON object"),
        ("entry", {"seq": "4", "type": "invoke"}, "good `seq`"),
        ("system_item", {"seq": 4, "ts": TS, "kind": "k", "payload": 1, "body": ""}, "good `payload`"),
        ("resync", {"reason": "purged", "head_seq": "x"}, "good `head_seq`"),
    ],
)
def test_a_malformed_event_is_kept_with_what_is_wrong(name: str, data: Any, problem: str) -> None:
    event = parse_event(name, "4", data)
    assert isinstance(event, UnknownEvent)
    assert (event.name, event.id, event.data) == (name, "4", data)
    assert problem in str(event.problem)


@given(some.sampled_from((*POD_EVENTS, *STORE_EVENTS)), some.data())
def test_S03_any_text_comes_back_from_the_wire(event: Any, data: some.DataObject) -> None:
    texts = [
        f.name for f in fields(event) if isinstance(getattr(event, f.name), str) and f.name not in ("type", "cursor")
    ]
    nasty = some.text(some.characters(exclude_categories=["Cs"]) | some.sampled_from('\n\r\u2028\u2029\x85"日🙂'))
    changed = replace(event, **{name: data.draw(nasty) for name in texts if name != "reason"})
    parse = parse_event if event in POD_EVENTS else parse_store_event
    assert parse(*_through_json(wire_form(changed))) == changed


def test_the_formats_page_shows_each_type_as_it_is() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats" / "events.md").read_text(encoding="utf-8")
    of_pod, of_store = page.split("## Many Pods")
    for part, parse, union in (
        (of_pod, parse_event, PodStreamEvent),
        (of_store, parse_store_event, StoreEvent),
    ):
        shown = []
        for example in re.findall(r"```\n(.*?)```", part, re.DOTALL):
            (wire,) = EventLines().feed(f"{example}\n".encode())
            event = parse(wire.name, wire.id, wire.data)
            assert wire_form(event) == wire
            shown.append(type(event))
        assert set(shown) == set(get_args(union)) - {UnknownEvent}


def _through_json(wire: Wire) -> tuple[str, str | None, Any]:
    return wire.name, wire.id, json.loads(json.dumps(wire.data))
