"""Pods without Ray: one host, the memory store, and a Directory that binds at once. For tests of the Pod's shell."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from actors.compactor.driver import CompactorParts, SessionCompactor
from actors.compactor.prompt import built_in as compactor_prompt
from actors.extractor.driver import Extractor
from actors.models.scripted import ScriptedModel
from actors.pod.hooks import HookSet
from actors.pod.host import PodHost
from actors.pod.ports import CallRunner
from actors.protocol.alerts import Alert
from actors.protocol.compaction import Compactor
from actors.protocol.config import CompactionRule, ModelSpec, PodConfig, RunLimits
from actors.protocol.ids import child_id, uuid7
from actors.protocol.model import Model, ModelError
from actors.protocol.permissions import PermissionRules
from actors.protocol.references import Place, References
from actors.protocol.tasks import TASK_TOOLS
from actors.protocol.tools import ASKING_TOOLS, CHILD_TOOLS, FILE_TOOLS, Children, ChildrenError, SpawnOrder, Toolbox
from actors.tools.executor import run_calls
from actors.tools.guard import GuardPool
from actors.tools.permission import Permissions
from actors.tools.references.resolver import Library
from actors.tools.registry import ToolSetup, build_toolbox
from orchestrator.directory.alerts import AlertBook
from orchestrator.system import SystemIds
from session_store.backends.memory import MemoryStore
from session_store.codec import decode_entry, entry_json
from session_store.entries import LogEntry, SegmentStart
from session_store.errors import Refused
from session_store.items import Json
from session_store.local import LocalStore
from session_store.messages import USER, Message
from session_store.requests import ClaimDirectory, Create, Deliver, Parent, PodRow, Query, Read

TOOLS = (*FILE_TOOLS, *CHILD_TOOLS, *TASK_TOOLS, *ASKING_TOOLS)


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class OpenGate:
    async def fresh(self) -> None:
        return None


@dataclass
class LocalParts:
    """Implements `HostParts`; the directory is set by `LocalPods`."""

    store: LocalStore
    lines: Sequence[Mapping[str, Json]]
    folder: Path
    directory: LocalDirectory = field(init=False)
    clock: SystemClock = field(default_factory=SystemClock)
    gate: OpenGate = field(default_factory=OpenGate)
    run_calls: CallRunner = field(default=run_calls)
    hooks: HookSet = field(default_factory=HookSet)
    models: dict[str, Model] = field(default_factory=dict)
    extractor: Extractor | None = None
    refuses: ModelError | None = None
    """Why no model can be built, if none can."""

    def model(self, spec: ModelSpec) -> Model:
        if self.refuses is not None:
            raise self.refuses
        return self.models.get(spec.name) or ScriptedModel(self.lines)

    def toolbox(self, config: PodConfig, children: Children) -> Toolbox:
        setup = ToolSetup(permissions=Permissions(config.permissions, config.profile))
        return build_toolbox(config.tools, children, GuardPool(lease=4.0), setup)

    def references(self, config: PodConfig) -> References:
        return Library(Place(config.workspace, config.scope), str(self.folder / "memory"))

    def spill_folder(self, session: str) -> str:
        return str(self.folder / "spill" / session)

    def offer_extraction(self, session: str) -> None:
        if self.extractor is not None:
            self.extractor.offer(session)

    async def fix_extraction(self, session: str, through: int) -> bool:
        if self.extractor is not None:
            await self.extractor.fix(session, through)
        return True

    def compactor(self, config: PodConfig, references: References) -> Compactor:
        spec = config.compaction.model or config.model
        parts = CompactorParts(
            self.store, references, SystemIds(), config.compaction, lambda: self.model(spec), compactor_prompt
        )
        return SessionCompactor(parts)

    def forbidden(self) -> tuple[str, ...]:
        return ()

    def hidden(self) -> tuple[str, ...]:
        return ()

    async def close(self) -> None:
        return None


class LocalDirectory:
    """Implements `DirectoryPort`: one host, no parking, no supervision."""

    def __init__(self, pods: LocalPods) -> None:
        self._pods = pods

    async def spawn(self, parent: str, order: SpawnOrder) -> str:
        pods = self._pods
        row = await pods.row(parent)
        config = PodConfig.read(row.config)
        child = child_id(parent, order.key.call_seq, order.key.index)
        name = order.name or f"child-{order.key.call_seq}-{order.key.index}"
        plain = {**config.plain(), "name": name, "parent_id": parent, "depth": config.depth + 1}
        prompt = Message(f"task:{child}", "prompt", parent, {"segments": [{"type": "text", "text": order.task}]})
        create = Create(
            session=child,
            tenant="default",
            message_id=str(order.key),
            start=pods.start(child, PodConfig.read(plain)),
            messages=(prompt,),
            name=name,
            parent=Parent(parent, order.epoch, order.run_id),
            detached=order.detached,
            scope=order.scope,
        )
        try:
            await pods.store.execute(create)
        except Refused as error:
            raise ChildrenError(error.message) from error
        await pods.bind(child)
        return child

    async def hint(self, sessions: tuple[str, ...]) -> None:
        for session in self._pods.host.hint(sessions):
            await self._pods.bind_if_wanted(session)

    async def stop(self, session: str, by: str) -> None:
        await self.hint((session,))
        async with asyncio.timeout(10):
            while (await self._pods.row(session)).status != "ended":
                await asyncio.sleep(0.005)

    async def rested(self, session: str, epoch: int) -> None:
        return None

    async def left(self, session: str, epoch: int, reason: str) -> None:
        return None

    def alert(self, alert: Alert) -> None:
        self._pods.alerts.add((alert,))


class LocalPods:
    """A tiny polypod in one process. `lines` is the scripted model's script for all Pods."""

    def __init__(self, folder: Path, lines: Sequence[Mapping[str, Json]]) -> None:
        self.memory = MemoryStore(SystemClock().now_ms)
        self.store = LocalStore(self.memory)
        self.parts = LocalParts(self.store, lines, folder)
        self.parts.directory = LocalDirectory(self)
        self.alerts = AlertBook()
        self.permissions: tuple[PermissionRules, ...] = ()
        """Of Pods created from now on."""
        self.host = PodHost(self.parts)
        self.folder = folder
        self.compaction = CompactionRule()
        self._epoch: int | None = None
        self._count = 0

    def start(self, session: str, config: PodConfig) -> SegmentStart:
        box = self.parts.toolbox(config, NoChildren())
        return SegmentStart(session, config.plain(), "You are a test.", box.specs, 1)

    async def create(self, prompt: str | None, name: str = "root", **limits: float) -> str:
        """A root Pod, bound if it has a prompt."""
        self._count += 1
        session = uuid7(SystemClock().now_ms(), f"{name}:{self._count}".encode())
        config = PodConfig(
            name=name,
            root_id=session,
            model=ModelSpec("scripted", "scripted"),
            workspace=str(self.folder.resolve()),
            tools=TOOLS,
            planning="tasks",
            compaction=self.compaction,
            limits=RunLimits(**limits),  # type: ignore[arg-type]
            permissions=self.permissions,
        )
        messages = () if prompt is None else (self.prompt(prompt, f"m{self._count}-0"),)
        create = Create(session, "default", f"new-{self._count}", self.start(session, config), messages, name)
        await self.store.execute(create)
        if messages:
            await self.bind(session)
        return session

    @staticmethod
    def prompt(text: str, message_id: str, **body: Json) -> Message:
        return Message(message_id, "prompt", USER, {"segments": [{"type": "text", "text": text}], **body})

    async def send(self, session: str, message: Message) -> None:
        await self.store.execute(Deliver(session, message))
        await self.parts.directory.hint((session,))

    async def bind(self, session: str) -> None:
        if self._epoch is None:
            self._epoch = (await self.store.execute(ClaimDirectory())).epoch
        bound = await self.host.bind(session, self._epoch, None)
        assert bound.ok, bound

    async def bind_if_wanted(self, session: str) -> None:
        rows = (await self.store.execute(Query(ids=(session,), needs_owner=True))).rows
        if rows:
            await self.bind(session)

    async def row(self, session: str) -> PodRow:
        return (await self.store.execute(Query(ids=(session,)))).rows[0]

    async def log(self, session: str) -> list[LogEntry]:
        found = await self.store.execute(Read(session))
        return [decode_entry(e.body, e.seq, e.ts) for e in found.entries]

    async def story(self, session: str) -> list[dict[str, Json]]:
        return [entry_json(e) for e in await self.log(session)]

    async def until(self, session: str, status: str, limit: float = 10.0) -> PodRow:
        """Wait for a status; fails with the log's last entries when it does not come."""
        try:
            async with asyncio.timeout(limit):
                while (row := await self.row(session)).status != status:
                    await asyncio.sleep(0.005)
                return row
        except TimeoutError:
            tail = "\n".join(str(e) for e in (await self.story(session))[-6:])
            raise AssertionError(f"{session} is {(await self.row(session)).status}, not {status}:\n{tail}") from None

    async def close(self) -> None:
        await self.host.close()


class NoChildren:
    """Only the specs are wanted."""

    def __getattr__(self, name: str) -> Json:
        raise AssertionError(f"{name} is not to be called")
