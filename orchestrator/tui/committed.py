"""Committed entries as blocks. Pure.

An entry adds blocks at the end and may change earlier ones: a result goes into its call, an answer into its question, a
rewind marks what it left. What an entry refers to may be missing (an older page is not loaded): then it stands alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from orchestrator.cli.story import Entry, Told, call_words, problem_words, segments_text, tell
from orchestrator.events import UnknownEvent
from orchestrator.tui.blocks import (
    AssistantText,
    Block,
    Mark,
    Question,
    Reasoning,
    RunEnd,
    SystemNote,
    ToolCall,
    Unknown,
    Usage,
    UserPrompt,
    choices_of,
)

CALL_WIDTH = 400
"""Cells of a call's one line; its arguments are whole in `detail`."""
Stored = Entry | UnknownEvent
"""What a transcript keeps: entries as JSON, and events that no version here knows."""


class Committed:
    """The blocks of a range of entries, in order."""

    def __init__(self) -> None:
        self._blocks: dict[str, Block] = {}
        self._asked: dict[str, str] = {}
        self._run_start: str | None = None
        self._events = 0

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks.values())

    def __len__(self) -> int:
        return len(self._blocks)

    def get(self, key: str) -> Block | None:
        return self._blocks.get(key)

    def put(self, block: Block) -> None:
        """Add a block at the end, or put it in the place of the one with its key."""
        self._blocks[block.key] = block

    def drop_before(self, seq: int) -> None:
        """Forget the blocks of entries before `seq`."""
        for key in [b.key for b in self._until(seq)]:
            del self._blocks[key]

    def take(self, entry: Stored) -> None:
        """Never raises for an entry's shape: one that cannot be read is shown as what it is."""
        if isinstance(entry, UnknownEvent):
            self._unknown_event(entry)
            return
        taker = _TAKERS.get(str(entry.get("type")))
        try:
            if taker is not None:
                taker(self, entry)
                return
        except (KeyError, TypeError, ValueError, AttributeError):
            pass  # a known type in a shape that is not known: shown below like an unknown one
        self.put(_unknown(entry))

    def _until(self, seq: int) -> Iterator[Block]:
        for block in self._blocks.values():
            if block.seq >= seq:
                return
            yield block

    def _unknown_event(self, event: UnknownEvent) -> None:
        self._events += 1
        words = f"event {event.name}: {event.problem or 'a kind this version does not know'}: {_json(event.data)}"
        self.put(Unknown(f"event:{self._events}", 0, event.name, words))

    def _assistant_items(self, entry: Entry) -> None:
        seq, index = _seq(entry), 0
        made: list[Block] = []
        for place, item in enumerate(entry["items"]):
            key = f"{seq}:{place}"
            match item.get("type"):
                case "text":
                    made.append(AssistantText(key, seq, str(item["text"])))
                case "reasoning":
                    made.append(Reasoning(key, seq, str(item.get("text") or "")))
                case "tool_call":
                    made.append(_call(call_key(seq, index), seq, item))
                    index += 1
                case other:
                    made.append(Unknown(key, seq, str(other), f"{other}: {_json(item)}"))
        for block in made:
            self.put(block)

    def _tool_started(self, entry: Entry) -> None:
        ref = entry["call"]
        call = self._blocks.get(call_key(ref["call_seq"], ref["index"]))
        if isinstance(call, ToolCall) and call.status is None:
            self.put(replace(call, summary="allowed, runs"))
        else:
            self._mark(entry)

    def _tool_results(self, entry: Entry) -> None:
        for result in entry["results"]:
            key = call_key(result["call_seq"], result["index"])
            call = self._blocks.get(key)
            if not isinstance(call, ToolCall):
                call = ToolCall(key, _seq(entry), str(result["name"]), str(result["name"]), "")
            status, summary, content = str(result["status"]), str(result["summary"]), result.get("content")
            content = None if content is None else str(content)
            self.put(replace(call, status=status, summary=summary, content=content, output=""))

    def _system_items(self, entry: Entry) -> None:
        seq = _seq(entry)
        for place, (item, told) in enumerate(zip(entry["items"], tell(entry), strict=True)):
            kind, body = str(item.get("kind")), str(item.get("body") or "")
            self.put(SystemNote(f"{seq}:{place}", seq, kind, told.mark, told.text, body))

    def _question(self, entry: Entry) -> None:
        seq = _seq(entry)
        asked = entry.get("call")
        call = self._blocks.get(call_key(asked["call_seq"], asked["index"])) if asked else None
        if isinstance(call, ToolCall) and call.status is None:
            self.put(replace(call, summary="waits for permission"))
        ident, kind, choices = str(entry["question_id"]), str(entry["kind"]), choices_of(entry.get("choices"))
        self._asked[ident] = f"{seq}:0"
        self.put(Question(f"{seq}:0", seq, ident, kind, str(entry["question"]), choices))

    def _question_closed(self, entry: Entry) -> None:
        asked = self._blocks.get(self._asked.get(str(entry["question_id"]), ""))
        answer = " ".join(str(entry[k]) for k in ("choice", "text") if entry.get(k))
        if isinstance(asked, Question):
            self.put(replace(asked, closed=f"{entry['how']} by {entry.get('by')}{': ' + answer if answer else ''}"))
        else:
            self._mark(entry)

    def _user_input(self, entry: Entry) -> None:
        text, sender = segments_text(entry["segments"]), str(entry.get("from") or "user")
        answers = str(entry["answers"]) if entry.get("answers") else None
        seq = _seq(entry)
        self.put(UserPrompt(f"{seq}:0", seq, text, sender, str(entry.get("message_id") or ""), answers))

    def _invoke(self, entry: Entry) -> None:
        self._mark(entry)
        self._run_start = f"{_seq(entry)}:0"

    def _run_end(self, entry: Entry) -> None:
        outcome = str(entry["outcome"])
        if outcome == "withdrawn":
            self._leave_prompts()
        words = outcome.replace("_", " ")
        if entry.get("error"):
            words += f": {problem_words(entry['error'])}"
        if entry.get("waits_for"):
            words += f" ({entry.get('mode', 'all')} of {len(entry['waits_for'])})"
        self.put(RunEnd(f"{_seq(entry)}:0", _seq(entry), outcome, words))

    def _leave_prompts(self) -> None:
        """The prompts of the run that ends were given back."""
        start = self._blocks.get(self._run_start or "")
        since = 0 if start is None else start.seq
        run = takewhile(lambda block: block.seq > since or not block.seq, reversed(self._blocks.values()))
        for block in [b for b in run if isinstance(b, UserPrompt)]:
            self.put(replace(block, left=True))

    def _rewound(self, entry: Entry) -> None:
        to = int(entry["to"])
        gone = takewhile(lambda block: block.seq >= to or not block.seq, reversed(self._blocks.values()))
        for block in [b for b in gone if b.seq and not b.left]:
            self.put(replace(block, left=True))
        self._mark(entry)

    def _llm_usage(self, entry: Entry) -> None:
        self.put(Usage(f"{_seq(entry)}:0", _seq(entry), _words(tell(entry))))

    def _mark(self, entry: Entry) -> None:
        told = tell(entry)
        if told:
            kind = "compaction" if entry.get("domain") == "compaction" else str(entry["type"])
            self.put(Mark(f"{_seq(entry)}:0", _seq(entry), kind, _words(told), told[0].style))


_TAKERS: Mapping[str, Callable[[Committed, Entry], None]] = {
    "segment_start": Committed._mark,
    "invoke": Committed._invoke,
    "user_input": Committed._user_input,
    "assistant_items": Committed._assistant_items,
    "tool_started": Committed._tool_started,
    "tool_results": Committed._tool_results,
    "system_items": Committed._system_items,
    "question": Committed._question,
    "question_closed": Committed._question_closed,
    "llm_usage": Committed._llm_usage,
    "run_end": Committed._run_end,
    "withdrawn": Committed._mark,
    "config_changed": Committed._mark,
    "rewound": Committed._rewound,
    "extension": Committed._mark,
    "segment_end": Committed._mark,
    "pod_end": Committed._mark,
}


def call_key(seq: Any, index: Any) -> str:
    """The key of a call's block: its assistant entry and its place among the calls there."""
    return f"call:{int(seq)}.{int(index)}"


def _call(key: str, seq: int, item: Entry) -> ToolCall:
    arguments = item.get("arguments")
    detail = _json(arguments, indent=1) if isinstance(arguments, Mapping) else str(item.get("raw") or "")
    problem = str(item["problem"]) if item.get("problem") else None
    return ToolCall(key, seq, str(item["name"]), call_words(item, CALL_WIDTH), detail, problem)


def _unknown(entry: Entry) -> Unknown:
    told = tell({**entry, "type": entry.get("type")})
    seq = _seq(entry)
    return Unknown(f"{seq}:0", seq, str(entry.get("type")), _words(told))


def _words(told: list[Told]) -> str:
    return "\n".join(one.text for one in told)


def _seq(entry: Entry) -> int:
    seq = entry.get("seq")
    return seq if isinstance(seq, int) else 0


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
