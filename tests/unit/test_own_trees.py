"""Which trees an embedded home takes on: what a person acts on, but no abandoned run behind a mere prompt."""

from typing import Any, cast

import pytest

from orchestrator.client import RayControlPlane
from orchestrator.owner import OwnTrees
from session_store.backends.memory import MemoryStore
from session_store.local import LocalStore
from session_store.messages import Message, MessageKind
from session_store.requests import ClaimDirectory
from tests.support.store import create, deliver, message, running


class Plane:
    """Notes what is adopted."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = LocalStore(store)
        self.adopted: list[str] = []

    async def adopt_root(self, root: str) -> None:
        self.adopted.append(root)

    async def hint(self, sessions: tuple[str, ...]) -> None:
        return None


@pytest.mark.parametrize(
    ("abandoned", "kind", "adopts"),
    [
        (True, "prompt", False),
        (True, "resume", True),
        (True, "cancel", True),
        (False, "prompt", True),
        (False, "notify", True),
    ],
)
async def test_S14_an_abandoned_run_is_taken_on_by_an_order_not_by_a_prompt(
    abandoned: bool, kind: MessageKind, adopts: bool
) -> None:
    memory = MemoryStore(lambda: 1)
    if not abandoned:
        create(memory, "s")
    else:
        running(memory, "s")
        memory.execute(ClaimDirectory(alone=True))
    plane = Plane(memory)
    told: Message = message("m", kind)
    deliver(memory, "s", told)
    await OwnTrees(cast(RayControlPlane, cast(Any, plane)), ()).hint(("s",))
    assert plane.adopted == (["s"] if adopts else [])
