"""A whole run, rehearsed in a process while no Pod waits for it: code is imported and compiled, memory is touched.

The first run of a process costs twice the CPU of a later one. The rehearsal is a real one: host, driver, turn machine,
a tool on a real file, the wire to a server of its own on loopback, over a store in memory. It leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from actors.models.registry import build_model
from actors.pod.hooks import HookSet
from actors.pod.host import PodHost
from actors.pod.ports import CallRunner, DirectoryPort, HostParts, LeaseGate
from actors.protocol.alerts import Alert
from actors.protocol.compaction import Compactor
from actors.protocol.config import ModelSpec, PodConfig, Provider
from actors.protocol.ids import Clock
from actors.protocol.model import Model
from actors.protocol.references import References
from actors.protocol.tools import Children, SpawnOrder, Toolbox
from orchestrator.rehearsal_server import NOTE, answering
from session_store.backends.memory import MemoryStore
from session_store.entries import SegmentStart, ToolSpec
from session_store.messages import USER, Message
from session_store.requests import AsyncStore, ClaimDirectory, Create, ReplyT, Request
from session_store.wire_codec import decode_reply, decode_request, encode_reply, encode_request

STEPS = 8
"""Python 3.11 specialises code from the eighth call on."""
LIMIT = 5.0
"""Seconds it may take; a rehearsal that takes longer is broken off."""
SESSION = "00000000-0000-7000-8000-000000000000"


class RehearsalFailed(Exception):
    """It did not come to its end; what did not is said."""


async def rehearse(parts: HostParts, provider: Provider, tools: tuple[ToolSpec, ...]) -> None:
    """Run `STEPS` steps with the real `parts`, but for store, Directory and model. Raises `RehearsalFailed`."""
    try:
        with _workspace() as workspace:
            async with asyncio.timeout(LIMIT), answering(provider, STEPS) as url:
                await _run(_Stage(parts, ModelSpec("-", provider, "-", base_url=url)), workspace, tools)
    except RehearsalFailed:
        raise
    except Exception as error:  # whatever it is: a process without a rehearsal is slower once, not unfit
        raise RehearsalFailed(f"the rehearsal of a run: {type(error).__name__}: {error}") from error


async def _run(stage: _Stage, workspace: str, tools: tuple[ToolSpec, ...]) -> None:
    config = PodConfig("-", SESSION, stage.spec, workspace, tools=tuple(tool.name for tool in tools))
    start = SegmentStart(SESSION, config.plain(), "A rehearsal.", tools, 1)
    prompt = Message("-", "prompt", USER, {"segments": [{"type": "text", "text": "Read the note."}]})
    epoch = (await stage.store.execute(ClaimDirectory())).epoch
    await stage.store.execute(Create(SESSION, "-", "-", start, (prompt,), "-"))
    host = PodHost(stage)
    try:
        bound = await host.bind(SESSION, epoch, None)
        if not bound.ok:
            raise RehearsalFailed(f"the rehearsal of a run: {bound.code}: {bound.message}")
        await stage.prompter.at_rest.wait()
        await host.unbind(SESSION)
    finally:
        await host.drop(SESSION, "the rehearsal is over")
        await stage.close()


@contextmanager
def _workspace() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="polypod-rehearsal-") as folder:
        (Path(folder) / NOTE).write_text("a small note\n", encoding="utf-8")
        yield str(Path(folder).resolve())


class _Memory:
    """`AsyncStore` in memory, through the codec of the way to the real one."""

    def __init__(self, clock: Clock) -> None:
        self._store = MemoryStore(clock.now_ms)

    async def execute(self, request: Request[ReplyT]) -> ReplyT:
        reply: ReplyT = decode_reply(encode_reply(self._store.execute(decode_request(encode_request(request)))))
        return reply


@dataclass(slots=True)
class _Prompter:
    """The `DirectoryPort` of the rehearsal."""

    at_rest: asyncio.Event = field(default_factory=asyncio.Event)

    async def hint(self, sessions: tuple[str, ...]) -> None: ...

    async def rested(self, session: str, epoch: int) -> None:
        self.at_rest.set()

    def alert(self, alert: Alert) -> None: ...

    async def left(self, session: str, epoch: int, reason: str) -> None:
        self.at_rest.set()

    async def spawn(self, parent: str, order: SpawnOrder) -> NoReturn:
        raise AssertionError("the rehearsal spawns nothing")

    async def stop(self, session: str, by: str) -> NoReturn:
        raise AssertionError("the rehearsal stops nothing")


class _OpenGate:
    """Nothing is at stake in a rehearsal: it needs no lease."""

    async def fresh(self) -> None: ...


class _Stage:
    """`HostParts`: the real ones but for store, Directory and model; nobody hooks in, nothing is extracted."""

    def __init__(self, parts: HostParts, spec: ModelSpec) -> None:
        self._parts = parts
        self.spec = spec
        self._model = build_model(spec, {})
        self._store = _Memory(parts.clock)
        self.prompter = _Prompter()

    @property
    def store(self) -> AsyncStore:
        return self._store

    @property
    def directory(self) -> DirectoryPort:
        return self.prompter

    def model(self, spec: ModelSpec) -> Model:
        return self._model

    @property
    def clock(self) -> Clock:
        return self._parts.clock

    @property
    def gate(self) -> LeaseGate:
        return _OpenGate()

    @property
    def run_calls(self) -> CallRunner:
        return self._parts.run_calls

    @property
    def hooks(self) -> HookSet:
        return HookSet()

    def toolbox(self, config: PodConfig, children: Children) -> Toolbox:
        return self._parts.toolbox(config, children)

    def references(self, config: PodConfig) -> References:
        return self._parts.references(config)

    def spill_folder(self, session: str) -> str:
        return self._parts.spill_folder(session)

    def offer_extraction(self, session: str) -> None: ...

    async def fix_extraction(self, session: str, through: int) -> bool:
        return True

    def compactor(self, config: PodConfig, references: References) -> Compactor:
        return self._parts.compactor(config, references)

    def forbidden(self) -> tuple[str, ...]:
        return self._parts.forbidden()

    def hidden(self) -> tuple[str, ...]:
        return self._parts.hidden()

    async def close(self) -> None:
        await self._model.close()
