"""The child tools' port over a store: what a message to a child says about the time before it."""

from __future__ import annotations

from actors.pod.children import StoreChildren
from actors.protocol.config import ModelSpec, PodConfig
from actors.protocol.ids import child_id
from actors.protocol.tools import CallKey
from session_store.backends.memory import MemoryStore
from session_store.entries import AssistantItems, Invoke, Origin, SegmentEnd, SegmentStart
from session_store.items import AssistantMessage, Text
from session_store.local import LocalStore
from session_store.requests import Append, ClaimDirectory, Create, Open, Parent, PodLimits

PARENT = "01900000-0000-7000-8000-000000000001"
CHILD = child_id(PARENT, 3, 0)


class NobodyToHint:
    async def hint(self, sessions: tuple[str, ...]) -> None:
        return None


async def test_L06_a_message_sent_again_after_a_crash_hides_no_event_of_the_run_it_had() -> None:
    """Else the child's conclusion would count as older than the message, and its parent never conclude."""
    memory = MemoryStore(lambda: 1)
    directory = memory.execute(ClaimDirectory()).epoch

    def create(session: str, name: str, parent: Parent | None) -> None:
        config = PodConfig(name, PARENT, ModelSpec("m", "scripted"), "").plain()
        memory.execute(Create(session, "t", name, SegmentStart(session, config, "", (), 1), (), name, parent))

    create(PARENT, "boss", None)
    lease = memory.execute(Open(PARENT, directory))
    memory.execute(Append(PARENT, lease.epoch, lease.head, "b", (Invoke("r", "prompt"),)))
    create(CHILD, "worker", Parent(PARENT, lease.epoch, "r"))
    children = StoreChildren(PARENT, LocalStore(memory), NobodyToHint(), PodLimits())  # type: ignore[arg-type]
    key = CallKey(PARENT, 9, 0)

    first = await children.send(key, CHILD, "more")
    own = memory.execute(Open(CHILD, directory))
    memory.execute(Append(CHILD, own.epoch, own.head, "c", (Invoke("run", "prompt"),)))
    again = await children.send(key, CHILD, "more")

    assert (first.head, again.head) == (1, 0)


async def test_E12_a_child_that_was_compacted_between_two_reads_gives_only_what_is_new() -> None:
    memory = MemoryStore(lambda: 1)
    directory = memory.execute(ClaimDirectory()).epoch
    config = PodConfig("boss", PARENT, ModelSpec("m", "scripted"), "").plain()
    memory.execute(Create(PARENT, "t", "boss", SegmentStart(PARENT, config, "", (), 1), (), "boss", None))
    lease = memory.execute(Open(PARENT, directory))
    memory.execute(Append(PARENT, lease.epoch, lease.head, "b", (Invoke("r", "prompt"),)))
    start, parent = SegmentStart(CHILD, config, "", (), 1), Parent(PARENT, lease.epoch, "r")
    memory.execute(Create(CHILD, "t", "worker", start, (), "worker", parent))
    own = memory.execute(Open(CHILD, directory))
    children = StoreChildren(PARENT, LocalStore(memory), NobodyToHint(), PodLimits())  # type: ignore[arg-type]

    said = AssistantItems("q1", (Text("first"),))
    memory.execute(Append(CHILD, own.epoch, own.head, "1", (said,)))
    text, reached = await children.read_output(CallKey(PARENT, 9, 0), CHILD, None)
    kept = (AssistantMessage(2, "q1", said.items),)
    segment = (SegmentEnd(), SegmentStart(CHILD, config, "", (), 1, kept, Origin(CHILD, 2)))
    memory.execute(Append(CHILD, own.epoch, 2, "2", (*segment, AssistantItems("q2", (Text("second"),)))))
    again, _ = await children.read_output(CallKey(PARENT, 9, 1), CHILD, reached)

    assert ("first" in text, "first" in again, "second" in again) == (True, False, True)
