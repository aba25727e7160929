"""The reply being made: blocks in order of first appearance, live text out of them, items at the end.

Both wires feed it; what a whole or a broken stream comes to is decided here, once.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field

from actors.protocol.model import ModelError, StopReason, Usage
from session_store.codec import pack, unpack
from session_store.items import AssistantItem, Json, Reasoning, Text, ToolCall

MAX_DEPTH = 100
"""Arguments nested deeper than this are a problem: the log and the tools' parsers have limits of their own."""


@dataclass(frozen=True, slots=True)
class LiveText:
    """Text to append to the live block `block`."""

    block: str
    text: str
    reasoning: bool = False


@dataclass(frozen=True, slots=True)
class Decoded:
    """A whole reply. `usage` None: the provider reported none. `model` as the provider names it."""

    items: tuple[AssistantItem, ...]
    usage: Usage | None
    stop: StopReason
    model: str | None


class Prose:
    """A block of text or reasoning.

    Nothing is live before the first character that is not white space, so a block without one was never seen. Half a
    surrogate pair waits for its other half; one left alone becomes U+FFFD.
    """

    def __init__(self, name: str, reasoning: bool) -> None:
        self.name = name
        self.reasoning = reasoning
        self.provider: dict[str, Json] = {}
        self.closed = False
        self._parts: list[str] = []
        self._held = ""
        self.began = False

    def add(self, piece: str) -> str:
        """Take text; give what is live now."""
        text = self._held + piece
        self._held = ""
        if not self.began and not text.strip():
            self._held = text
            return ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        text = whole_characters(text)
        if text:
            self.began = True
            self._parts.append(text)
        return text

    def close(self) -> str:
        """No more will come; gives what was still held back and belongs to the block."""
        self.closed = True
        rest, self._held = whole_characters(self._held), ""
        if not self.began and not rest.strip():
            return ""
        if rest:
            self._parts.append(rest)
            self.began = True
        return rest

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def substance(self) -> bool:
        """Whether it is more than white space: also reasoning whose text the provider withholds."""
        return self.began or "signature" in self.provider or "data" in self.provider

    def item(self) -> Text | Reasoning | None:
        if self.reasoning:
            if not self.substance:
                return None
            return Reasoning(text=self.text, provider=self.provider, block=self.name if self.began else None)
        return Text(text=self.text, block=self.name) if self.began else None


@dataclass(slots=True)
class Call:
    """A tool call being made. `closed`: the provider said it is complete."""

    call_id: str = ""
    name: str = ""
    parts: list[str] = field(default_factory=list)
    given: dict[str, Json] | None = None
    closed: bool = False

    def item(self, cut: bool) -> ToolCall:
        raw = whole_characters("".join(self.parts))
        if not raw.strip() and self.given:
            raw = json.dumps(self.given)
        arguments, problem = parse_arguments(raw, cut and not self.closed)
        if not self.name:
            arguments, problem = None, "the call names no tool"
        name = whole_characters(self.name)
        call_id = whole_characters(self.call_id)
        if problem is None:
            return ToolCall(call_id=call_id, name=name, arguments=arguments)
        return ToolCall(call_id=call_id, name=name, raw=raw, problem=problem)


class ReplyBlocks:
    """The blocks of one attempt. Live blocks are named `<prefix>.<n>`, n from 0 in order of appearance."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._blocks: list[Prose | Call] = []

    @property
    def began(self) -> bool:
        """Whether anything of substance has come: a call, or a character that is not white space."""
        return any(isinstance(b, Call) or b.substance for b in self._blocks)

    def prose(self, reasoning: bool) -> Prose:
        """A new block of text or reasoning."""
        block = Prose(f"{self._prefix}.{len(self._blocks)}", reasoning)
        self._blocks.append(block)
        return block

    def last(self) -> Prose | Call | None:
        return self._blocks[-1] if self._blocks else None

    def call(self) -> Call:
        block = Call()
        self._blocks.append(block)
        return block

    def close_prose(self) -> list[LiveText]:
        """Close every open block of prose."""
        live = []
        for block in self._blocks:
            if isinstance(block, Prose) and not block.closed and (rest := block.close()):
                live.append(LiveText(block.name, rest, block.reasoning))
        return live

    def items(self, cut: bool) -> tuple[AssistantItem, ...]:
        """All items of a finished reply. `cut`: calls that were not closed may have been cut off."""
        made: list[AssistantItem] = []
        for block in self._blocks:
            item = block.item() if isinstance(block, Prose) else block.item(cut)
            if item is not None:
                made.append(item)
        return tuple(made)

    def kept(self) -> tuple[AssistantItem, ...]:
        """What is complete in a broken reply: closed prose, never a call."""
        closed = (b.item() for b in self._blocks if isinstance(b, Prose) and b.closed)
        return tuple(item for item in closed if item is not None)


def parse_arguments(raw: str, cut: bool = False) -> tuple[dict[str, Json] | None, str | None]:
    """Arguments as an object, or what is wrong with them. No text at all is an empty object, unless it was cut off.

    The object is as the log gives it back (numbers beyond 64 bits are text), so it encodes the same after a restart.
    """
    if not raw.strip():
        return (None, "the output limit cut the call off before its arguments") if cut else ({}, None)
    try:
        value = json.loads(raw, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        return None, "the arguments are nested too deeply"
    except ValueError as error:
        return None, f"the arguments are not JSON: {error}"
    if not isinstance(value, dict):
        return None, f"the arguments are {_kind(value)}, not an object"
    if _deeper_than(value, MAX_DEPTH):
        return None, "the arguments are nested too deeply"
    return unpack(pack(value)), None


def whole_characters(text: str) -> str:
    """The text with surrogate pairs joined and lone halves as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def finish(decoded: Decoded, why: str | None = None) -> Decoded:
    """The reply, unless it is none: nothing the history could hold, or a refusal without a word.

    Reasoning alone is no reply. `why` is the provider's explanation of a refusal.
    """
    if any(isinstance(i, (Text, ToolCall)) for i in decoded.items):
        return decoded
    if decoded.stop == "refusal":
        raise ModelError("refused", f"the provider refused the request: {why or 'no reason given'}")
    limit = " (the output limit was reached first)" if decoded.stop == "length" else ""
    raise ModelError("empty_reply", f"the reply has neither text nor a tool call{limit}")


def broken(blocks: ReplyBlocks, error: ModelError) -> ModelError:
    """`error` as the end of a stream that had begun, with the blocks that were complete; or as it is, before that."""
    if not blocks.began:
        return error
    return ModelError(
        error.type, error.message, broken=True, kept=blocks.kept(), status=error.status, detail=dict(error.detail)
    )


def _deeper_than(value: Json, depth: int) -> bool:
    level = [value]
    for _ in range(depth + 1):
        level = [v for parent in level for v in (parent.values() if isinstance(parent, dict) else parent)]
        level = [v for v in level if isinstance(v, (dict, list))]
        if not level:
            return False
    return True


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "a number"
