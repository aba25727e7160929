"""A gateway with one Pod that the test plays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from actors.pod.live import LiveLog
from session_store.entries import AssistantItems, UserInput
from session_store.items import Segment
from session_store.messages import USER, Message
from session_store.requests import Pending
from tests.support.control_plane import FakePlane
from tests.support.gateway import Served, served
from tests.support.store import Owner


@dataclass
class Stage:
    plane: FakePlane
    served: Served
    pod_id: str
    owner: Owner
    live: LiveLog = field(init=False)

    def __post_init__(self) -> None:
        self.live = self.plane.live(self.owner)

    @property
    def address(self) -> str:
        return self.served.server.address

    def messages(self) -> list[Message]:
        """Those that wait."""
        return list(self.plane.memory.execute(Pending(self.pod_id, 0)).messages)

    def take_prompts(self) -> None:
        """Begin a run with what waits, as a Pod does."""
        waiting = [m for m in self.messages() if m.kind == "prompt"]
        self.owner.begin()
        taken = [UserInput(tuple(Segment(**s) for s in m.body["segments"]), m.message_id, USER) for m in waiting]
        self.owner.append(*taken, consumes=tuple(m.message_id for m in waiting))

    def say(self, request_id: str, *items: Any) -> None:
        self.owner.append(AssistantItems(request_id, items))
        self.live.committed(request_id)


@asynccontextmanager
async def playing(prompt: str, name: str) -> AsyncIterator[Stage]:
    plane = FakePlane()
    async with served(plane) as gateway:
        reply = await gateway.http.post("/v1/pods", json={"prompt": prompt, "name": name})
        pod_id = reply.json()["id"]
        yield Stage(plane, gateway, pod_id, plane.owner(pod_id))
