"""A model that answers from a script: for demos, tests and trials without a key or a network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from actors.models.first_text import FirstText
from actors.models.retry import Failure, GiveUp, RetryPolicy, Wait, decide, final
from actors.models.script import ScriptError, ScriptLine, line_for, read_script, script_line
from actors.models.timing import Timing
from actors.models.wire.call_ids import unique
from actors.models.wire.openai_chat import OpenAIChatWire
from actors.models.wire.shape import estimated_usage
from actors.protocol.live import LiveSink
from actors.protocol.model import ModelError, ModelReply, ModelRequest, StopReason, Usage
from session_store.items import AssistantItem, HistoryItem, Json, Reasoning, Text

_PIECES = 20
"""Text is streamed in at most so many pieces, spread over the line's delay."""


class ScriptedModel:
    """Answers from `lines` (see `script.ScriptLine`; plain dicts are parsed). It keeps no state between requests."""

    def __init__(
        self,
        lines: Sequence[ScriptLine | Mapping[str, Json]],
        name: str = "scripted",
        context_window: int | None = None,
        timing: Timing | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        self._lines = tuple(
            line if isinstance(line, ScriptLine) else script_line(line, f"script line {number}")
            for number, line in enumerate(lines, 1)
        )
        self._name = name
        self._context_window = context_window
        self._timing = timing or Timing()
        self._policy = policy or RetryPolicy()
        self._wire = OpenAIChatWire(name)

    @classmethod
    def load(cls, path: str | Path, name: str = "scripted", context_window: int | None = None) -> ScriptedModel:
        """Read the script at `path`. Raises `ModelError` (`settings`)."""
        return cls(read_script(read_text(path, "script"), str(path)), name, context_window)

    @property
    def name(self) -> str:
        return self._name

    @property
    def context_window(self) -> int | None:
        return self._context_window

    def encode(self, item: HistoryItem) -> bytes:
        return self._wire.encode(item)

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        line = line_for(self._lines, request.pod_name, request.number)
        if line is None:
            raise ModelError(
                "script", f"the script has no line for request {request.number} of the Pod {request.pod_name!r}"
            )
        if line.text_from is not None:
            found = "\n\n".join(_latest_results(request))
            line = line.model_copy(update={"text": "\n".join(filter(None, (line.text, found)))})
        attempts = 1
        if line.error is not None and line.error.times is not None:
            attempts += await self._fail(line.error, line.error.times, request, live)
        started, shown = self._timing.monotonic(), FirstText(live, self._timing)
        items = await self._speak(line, request, f"{request.request_id}.{attempts}", shown)
        if line.error is not None and line.error.times is None:
            error = line.error.error()
            kept = tuple(i for i in items if isinstance(i, (Text, Reasoning)))
            error.broken, error.kept = bool(items), kept
            if not kept:
                live.discard(request.request_id)
            raise error
        items += tuple(call.call(f"call_{request.number}_{index}") for index, call in enumerate(line.tool_calls))
        stop = _stop(line)
        if not line.text.strip() and not line.tool_calls:
            live.discard(request.request_id)
            if stop == "refusal":
                raise ModelError("refused", "the script refuses the request")
            raise ModelError("empty_reply", "the script's line has neither text nor a tool call")
        latency = self._timing.since(started)
        return ModelReply(items, _usage(line, request, items), stop, latency, self._name, attempts, shown.ms)

    async def close(self) -> None:
        """Nothing to close."""

    async def _fail(self, scripted: ScriptError, times: int, request: ModelRequest, live: LiveSink) -> int:
        """Let `times` attempts fail as an endpoint's would, with its announcements and waits; give how many failed."""
        started = self._timing.monotonic()
        for attempt in range(1, times + 1):
            error = scripted.error()
            failure = Failure(error, attempt, self._timing.monotonic() - started, scripted.retry_after)
            match decide(self._policy, failure, self._timing.chance()):
                case GiveUp(reason):
                    raise final(error, failure, reason)
                case Wait(seconds):
                    live.discard(request.request_id)
                    live.retry(request.request_id, attempt + 1, seconds, str(error))
                    await self._timing.sleep(seconds)
        return times

    async def _speak(
        self, line: ScriptLine, request: ModelRequest, prefix: str, live: LiveSink
    ) -> tuple[AssistantItem, ...]:
        """Wait the line's delay while its reasoning and text go out in pieces."""
        blocks = [(text, kind) for text, kind in ((line.reasoning, Reasoning), (line.text, Text)) if text.strip()]
        pieces = [(f"{prefix}.{n}", piece) for n, (text, _) in enumerate(blocks) for piece in _pieces(text)]
        if not pieces and line.delay_ms:
            await self._timing.sleep(line.delay_ms / 1000)
        for block, piece in pieces:
            if line.delay_ms:
                await self._timing.sleep(line.delay_ms / 1000 / len(pieces))
            live.text(request.request_id, block, piece)
        return tuple(kind(text=text, block=f"{prefix}.{n}") for n, (text, kind) in enumerate(blocks))


def read_text(path: str | Path, what: str) -> str:
    """The text of a file named in the settings. Raises `ModelError` (`settings`)."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ModelError("settings", f"cannot read the {what} {str(path)!r}: {reason}") from None


def _pieces(text: str) -> list[str]:
    size = max(1, -(-len(text) // _PIECES))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _latest_results(request: ModelRequest) -> list[str]:
    """Contents of the latest group of tool results in the history, in call order."""
    for item in reversed(list(unique(request.history))):
        messages = json.loads(b"[" + item + b"]") if item else []
        found = [str(m["content"]).strip("\n") for m in messages if m["role"] == "tool"]
        if found:
            return found
    return []


def _stop(line: ScriptLine) -> StopReason:
    if line.stop is not None:
        return line.stop
    return "tool_calls" if line.tool_calls else "end"


def _usage(line: ScriptLine, request: ModelRequest, items: Sequence[AssistantItem]) -> Usage:
    """What the line says; the rest is estimated."""
    said = line.usage
    guess = estimated_usage(request, items)
    return Usage(
        input=said.input if said.input is not None else guess.input,
        cache_read=said.cache_read,
        cache_write=said.cache_write,
        output=said.output if said.output is not None else guess.output,
        estimated=said.input is None or said.output is None,
    )
