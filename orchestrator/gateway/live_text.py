"""The live side of one watched Pod as the gateway keeps it. Pure: batches and entries in, blocks in flight out.

A block is here from its first delta until the entry that commits it was read, or until it is given up. Readers compare
what they have sent with what is here; so there is nothing to queue for them, and a slow one costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from actors.protocol.live import TOOL_BLOCK, Delta, Discard, LiveEvent, Retry
from orchestrator.gateway.alerts import Ring
from session_store.entries import AssistantItems, LogEntry, ToolResults

KEPT_ENDS = 4096


@dataclass(slots=True)
class Block:
    """Text in flight. `after` is the seq that its youngest text follows."""

    request_id: str
    after: int
    text: str = ""


class LiveText:
    """`generation` None: nothing was heard yet."""

    def __init__(self) -> None:
        self.generation: int | None = None
        self.blocks: dict[str, Block] = {}
        self.retries: Ring[Retry] = Ring()
        self._ended: OrderedDict[str, int] = OrderedDict()

    def lose(self) -> None:
        """The Pod's process is gone or does not answer: its blocks will not go on."""
        self.blocks.clear()

    def restart(self, generation: int) -> None:
        """What follows comes from another incarnation."""
        self.lose()
        self.generation = generation

    def take(self, events: Iterable[LiveEvent], snapshot: bool) -> bool:
        """Take events in order. False: text is missing before one of them, so ask again from the start.

        `snapshot`: the events happened before anyone watched; retries among them are old news.
        """
        whole = True
        for event in events:
            match event:
                case Delta():
                    whole &= self._extend(event)
                case Discard():
                    self.blocks = {n: b for n, b in self.blocks.items() if b.request_id != event.request_id}
                case Retry():
                    if not snapshot:
                        self.retries.add(event)
        return whole

    def commit(self, entry: LogEntry) -> bool:
        """The entry ends the blocks that it commits; whether there were any in flight."""
        before = len(self.blocks)
        for key in ended_by(entry):
            self._ended[key] = entry.seq
            self._ended.move_to_end(key)
            while len(self._ended) > KEPT_ENDS:
                self._ended.popitem(last=False)
        self.blocks = {name: block for name, block in self.blocks.items() if not self._is_over(name, block)}
        return len(self.blocks) < before

    def unknown_blocks(self, events: Iterable[LiveEvent]) -> list[Delta]:
        """Deltas of blocks that are not in flight here."""
        return [e for e in events if isinstance(e, Delta) and e.block not in self.blocks]

    def _extend(self, delta: Delta) -> bool:
        block = self.blocks.get(delta.block)
        if block is None:
            block = Block(delta.request_id, delta.after)
            if self._is_over(delta.block, block):
                return True
            if delta.offset > 0:
                return False
            self.blocks[delta.block] = block
        have = len(block.text)
        if delta.offset > have:
            return False
        block.text += delta.text[have - delta.offset :]
        block.after = max(block.after, delta.after)
        return True

    def _is_over(self, name: str, block: Block) -> bool:
        return block.after < self._ended.get(name if is_tool_block(name) else block.request_id, 0)


def is_tool_block(name: str) -> bool:
    return name.startswith(TOOL_BLOCK)


def ended_by(entry: LogEntry) -> tuple[str, ...]:
    """What an entry ends: the id of a request (its blocks, not those of its tools), or the names of tools' blocks."""
    match entry:
        case AssistantItems():
            return (entry.request_id,)
        case ToolResults():
            return tuple(f"{TOOL_BLOCK}{result.call_seq}.{result.index}" for result in entry.results)
        case _:
            return ()


def committed_blocks(entry: LogEntry) -> frozenset[str]:
    """The names of the blocks whose text the entry holds."""
    match entry:
        case AssistantItems():
            return frozenset(i.block for i in entry.items if i.type != "tool_call" and i.block is not None)
        case ToolResults():
            return frozenset(ended_by(entry))
        case _:
            return frozenset()
