"""A recorded run, watched through the app by clients that detach and attach at every event of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from actors.pod.live import LiveLog
from actors.protocol.live import Delta
from orchestrator.events import Discard, EntryEvent, Retry, SystemItemEvent
from orchestrator.gateway.app import build_app
from orchestrator.gateway.context import Gateway
from session_store.codec import entry_json
from tests.support.control_plane import FakePlane
from tests.support.gateway import QUICK
from tests.support.recorded_run import Attached, Recording, record

LINES = [
    {"match": {"request": 1}, "reasoning": "hmm, 日本🙂", "text": "let me look\n\n", "tool_calls": [
        {"name": "Glob", "arguments": {"pattern": "*"}},
        {"name": "Read", "arguments": {"path": "missing"}},
    ]},
    {"match": {"request": 2}, "error": {"status": 503, "times": 1, "retry_after": 0.01}, "text": "It is \u2028 empty."},
    {"match": {"request": 3}, "text": "data: bye\n\nevent: x"},
]  # fmt: skip


async def test_V01_V03_attach_and_detach_at_every_event_of_a_run(tmp_path: Path) -> None:
    recording = await record(tmp_path, LINES, ["look around", "and now"])
    plane = FakePlane()
    owner, live = recording.begin(plane)
    gateway = Gateway(plane, QUICK)
    app = build_app(gateway)
    path = f"/v1/pods/{recording.session}/events"
    constant = Attached(app, path)
    restless = Attached(app, path)
    # One that is cut off after each number of events, and comes back at once, after a step, or after two.
    once = [Attached(app, path) for _ in range(90)]
    try:
        constant.attach()
        for cut, client in enumerate(once):
            client.attach(cut + 1)
        away = dict.fromkeys(once, 0)
        for step in recording.steps(owner, live):
            step()
            await caught_up(constant, live, owner.head)
            for cut, client in enumerate(once):
                if not client.attached and client.connections == 1:
                    away[client] += 1
                    if away[client] > cut % 3:
                        await client.leave()
                        client.attach()
            for client in once:
                if client.attached:
                    await caught_up(client, live, owner.head)
            await one_event_a_connection(restless)
        cuts = len(constant.events)
        assert cuts < len(once)
        for client in (restless, *once):
            await client.leave()
            client.attach()
            await caught_up(client, live, owner.head)
        for client in (constant, restless, *once):
            check(client, recording)
        assert all(c.connections == 3 for c in once[: cuts - 8])
        assert restless.connections > cuts
        assert {Delta, Discard, Retry, EntryEvent} <= {type(e) for e in constant.events}
    finally:
        for client in (constant, restless, *once):
            await client.leave()
        await gateway.close()
    assert len(gateway.topics) == 0


async def caught_up(client: Attached, live: LiveLog, head: int) -> None:
    """Wait until the client has everything there is; unless it is cut off."""

    def whole() -> bool:
        texts: dict[str, str] = {}
        for event in live.since(0)[1]:
            if isinstance(event, Delta):
                texts[event.block] = texts.get(event.block, "") + event.text
        shown = {name: block.text for name, block in client.transcript.live.items()}
        return client.following.cursor == head and all(shown.get(n) == text for n, text in texts.items())

    await until(client, lambda: whole() or not client.attached)


async def one_event_a_connection(client: Attached) -> None:
    """Each connection breaks after its first event."""
    for _ in range(3):
        await client.leave()
        client.attach(1)
        await until(client, lambda: not client.attached)


async def until(client: Attached, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            client.changed.clear()
            if not holds():
                await client.changed.wait()


def check(client: Attached, recording: Recording) -> None:
    """Each entry once, with its exact content; live text joined from what was told is a beginning of what came."""
    committed = [e.entry for e in client.events if isinstance(e, EntryEvent)]
    assert not [e for e in client.events if isinstance(e, SystemItemEvent)]
    stripped = [{k: v for k, v in entry.items() if k != "ts"} for entry in committed]
    assert stripped == [{k: v for k, v in entry_json(e).items() if k != "ts"} for e in recording.entries]
    texts: dict[str, str] = {}
    requests: dict[str, str] = {}
    for event in client.events:
        match event:
            case Delta(request_id, block, offset, text):
                assert offset == len(texts.get(block, ""))
                texts[block] = texts.get(block, "") + text
                requests[block] = request_id
            case Discard(request_id):
                texts = {b: t for b, t in texts.items() if requests[b] != request_id}
            case EntryEvent(_, {"type": "assistant_items", "items": items}):
                for item in items:
                    assert item.get("text", "").startswith(texts.pop(item.get("block") or "", ""))
            case _:
                pass
    assert texts == {}
    assert client.transcript.live == {}
