"""What a Pod's shell needs of the world. `wiring` binds real parts; tests and the simulator bind fakes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from actors.pod.hooks import HookSet
from actors.protocol.alerts import Alert
from actors.protocol.compaction import Compactor
from actors.protocol.config import ModelSpec, PodConfig
from actors.protocol.ids import Clock
from actors.protocol.model import Model
from actors.protocol.references import References
from actors.protocol.tools import Children, SpawnOrder, Toolbox, ToolContext, ToolOutcome
from session_store.items import ToolCall
from session_store.requests import AsyncStore


class DirectoryPort(Protocol):
    """The Directory as Pods use it."""

    async def spawn(self, parent: str, order: SpawnOrder) -> str:
        """Create the child and bind it; returns its id once it has committed its task. Raises `ChildrenError`."""

    async def hint(self, sessions: tuple[str, ...]) -> None:
        """These sessions have got messages; may be lost."""

    async def stop(self, session: str, by: str) -> None:
        """See the session ended (its stop message is durable already): bounded, by force after the limit."""

    async def rested(self, session: str, epoch: int) -> None:
        """The Pod has come to rest; it may be parked after `park_after`."""

    def alert(self, alert: Alert) -> None:
        """Keep it for people. Never blocks and never fails; of a flood that cannot be handed on the oldest are lost."""

    async def left(self, session: str, epoch: int, reason: str) -> None:
        """The Pod's shell let go of the session (`parked`, `ended`, `store`, `tainted`, or `fenced: ` and why)."""


class LeaseGate(Protocol):
    """Law 3: work starts only while the last heartbeat reply is younger than the lease."""

    async def fresh(self) -> None:
        """Return when it is; waits (does not fail) while it is not."""


CallRunner = Callable[
    [Sequence[tuple[int, ToolCall]], Toolbox, Callable[[int], ToolContext], Callable[[int, ToolOutcome], None]],
    Awaitable[None],
]
"""Runs the calls of one stage side by side and reports each as it ends (`actors.tools.executor.run_calls`).

When cancelled it reports `interrupted` for each call that has not ended, then raises CancelledError.
"""


class HostParts(Protocol):
    """All that one actor process shares among its Pods."""

    @property
    def store(self) -> AsyncStore: ...

    @property
    def directory(self) -> DirectoryPort: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def gate(self) -> LeaseGate: ...

    @property
    def run_calls(self) -> CallRunner: ...

    @property
    def hooks(self) -> HookSet: ...

    def model(self, spec: ModelSpec) -> Model:
        """The model of a spec; shared by the Pods that use it. Raises `ModelError` (type `settings`)."""

    def toolbox(self, config: PodConfig, children: Children) -> Toolbox:
        """A Pod's own tools."""

    def references(self, config: PodConfig) -> References:
        """What a Pod's prompts may refer to."""

    def spill_folder(self, session: str) -> str:
        """Where tool outputs too large for the log go."""

    def offer_extraction(self, session: str) -> None:
        """A run of the session has ended. A hint: returns at once, never fails, may be lost."""

    async def fix_extraction(self, session: str, through: int) -> bool:
        """Before a compaction: have the range of what the extractor is due up to the entry `through` fixed. Whether it
        is, or nothing is due. Whoever waits bounds it."""

    def compactor(self, config: PodConfig, references: References) -> Compactor:
        """What makes a Pod's history shorter."""

    def forbidden(self) -> tuple[str, ...]:
        """Folders no general tool may write: the memory's."""

    def hidden(self) -> tuple[str, ...]:
        """Folders no general tool may read or write: the home with the store and its secret."""

    async def close(self) -> None: ...
