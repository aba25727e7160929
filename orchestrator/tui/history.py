"""One Pod's events folded to blocks: committed entries in order, then what is in the making. Pure.

Events are those that `PodFollowing` lets through: each once, over any number of connections. Live text stands at the
end until the entry that commits it takes its place. Memory is bounded: of entries the youngest are kept (older ones can
be put before them again, a page at a time), of a tool's output the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from actors.protocol.live import TOOL_BLOCK, Delta, Discard, Retry
from actors.protocol.tasks import WRITING_TOOLS
from orchestrator.cli.cells import duration
from orchestrator.cli.story import Entry
from orchestrator.events import (
    AlertEvent,
    EntryEvent,
    PodStreamEvent,
    Resync,
    StatusEvent,
    SystemItemEvent,
    UnknownEvent,
)
from orchestrator.tui.blocks import (
    AlertNote,
    AssistantText,
    Block,
    Live,
    Mark,
    OpenQuestion,
    ToolCall,
    choices_of,
)
from orchestrator.tui.committed import Committed, Stored, call_key

KEEP: Final = 2_000
"""Entries that `trim` leaves."""
KEEP_AT_MOST: Final = 20_000
"""Entries above which the oldest go, whoever reads them."""
OUTPUT_KEPT: Final = 16_384
"""Code points of a running tool's output."""
ALERTS_KEPT: Final = 512
"""As many as the gateway keeps."""


class History:
    """`status` is empty until the stream has told it. `resync` is the last one that was told, until it is taken up."""

    def __init__(self) -> None:
        self.status = ""
        self.generation = 0
        self.alerts: dict[str, AlertNote] = {}
        self.pending: dict[str, tuple[str, str]] = {}
        """Prompts of this client that no entry has taken up yet, by message id: what they wait for, and their text."""
        self.given_back: list[str] = []
        """Texts of own prompts that were withdrawn; whoever shows them again takes them out."""
        self.answered: str | None = None
        """The question that this client has answered; its end comes with the log."""
        self.plans = 0
        """Grows with every entry that may have changed the tasks."""
        self.prices: Mapping[str, float] = {}
        self.model = ""
        self._question: OpenQuestion | None = None
        self._stored: deque[Stored] = deque()
        self._committed = Committed()
        self._items: list[SystemItemEvent] = []
        self._live: dict[str, AssistantText] = {}
        self._requests: dict[str, str] = {}
        self._note: Live | None = None
        self.first = 0
        self.last = 0

    @property
    def question(self) -> OpenQuestion | None:
        """The question that waits for an answer."""
        asked = self._question
        return None if asked is None or asked.question_id == self.answered else asked

    def blocks(self) -> list[Block]:
        """All blocks from top to bottom."""
        waiting = [Live(f"pending:{ident}", f"{what}: {text}") for ident, (what, text) in self.pending.items()]
        return [*self._committed, *self._live.values(), *([self._note] if self._note else []), *waiting]

    def open_with(self, pod: Mapping[str, Any], entries: Sequence[Entry]) -> None:
        """Begin with the Pod as it is shown, and its youngest entries."""
        self.status, self.generation = str(pod.get("status") or ""), int(pod.get("generation") or 0)
        question = pod.get("question")
        if isinstance(question, Mapping):
            self._ask(question)
        for entry in entries:
            self._entry(entry)
        if not entries:
            self.last = int(pod.get("head_seq") or 0)

    def prepend(self, entries: Sequence[Entry]) -> None:
        """Put an older page before what is here. Later entries say what became of it, so all are folded again."""
        if not entries:
            return
        self._stored.extendleft(reversed(entries))
        self.first = int(entries[0]["seq"])
        running = {b.key: b for b in self._committed if isinstance(b, ToolCall) and b.output}
        self._committed = Committed()
        for stored in self._stored:
            self._committed.take(stored)
        for key, call in running.items():
            block = self._committed.get(key)
            if isinstance(block, ToolCall) and block.status is None:
                self._committed.put(replace(block, output=call.output, output_length=call.output_length))
        self.learn(entries)

    def learn(self, entries: Iterable[Entry]) -> None:
        """Settings from entries that are not shown; what is known from later ones counts more."""
        for entry in entries:
            if not self.model:
                self._read_settings(entry)

    def trim(self, keep: int = KEEP) -> None:
        """Forget the oldest entries beyond `keep`."""
        if len(self._stored) <= keep:
            return
        while len(self._stored) > keep:
            self._stored.popleft()
        seqs = (e["seq"] for e in self._stored if not isinstance(e, UnknownEvent))
        self.first = int(next(seqs, self.last))
        self._committed.drop_before(self.first)

    def take(self, event: PodStreamEvent) -> None:
        match event:
            case EntryEvent():
                self._entry(event.entry)
            case SystemItemEvent():
                self._system_item(event)
            case Delta():
                self._delta(event)
            case Discard():
                self._discard(event.request_id)
            case Retry():
                words = f"asks the model again in {duration(event.wait)}: {event.reason}"
                self._note = Live("live:retry", words)
            case StatusEvent():
                self.status, self.generation = event.status, event.generation
            case AlertEvent():
                self.alerts.setdefault(event.alert_id, AlertNote(event.alert_id, event.level, event.message))
                while len(self.alerts) > ALERTS_KEPT:
                    del self.alerts[next(iter(self.alerts))]
            case Resync():
                self._live.clear()
                self._requests.clear()
                self._note = None
            case UnknownEvent():
                self._stored.append(event)
                self._committed.take(event)

    def takes(self, events: Iterable[PodStreamEvent]) -> None:
        for event in events:
            self.take(event)

    def _entry(self, entry: Entry) -> None:
        seq = int(entry["seq"])
        if seq <= self.last:
            return
        if self.last and seq > self.last + 1 and self._stored:
            words = f"entries {self.last + 1} to {seq - 1} are not shown here"
            self._committed.put(Mark(f"{seq}:gap", seq, "gap", words, "yellow"))
        self.last = seq
        self.first = self.first or seq
        self._stored.append(entry)
        self._committed.take(entry)
        self._follow(entry)
        if len(self._stored) > KEEP_AT_MOST:
            self.trim(KEEP_AT_MOST * 3 // 4)

    def _follow(self, entry: Entry) -> None:
        """What an entry changes beyond its own blocks."""
        match entry.get("type"):
            case "tool_results" if any(result.get("name") in WRITING_TOOLS for result in entry.get("results") or ()):
                self.plans += 1
            case "rewound":
                self.plans += 1
            case "system_items" if any(item.get("kind") == "task_snapshot" for item in entry.get("items") or ()):
                self.plans += 1
            case "assistant_items":
                self._end_request(str(entry.get("request_id")))
            case "user_input":
                self.pending.pop(str(entry.get("message_id")), None)
                self._note = None
            case "withdrawn":
                self._give_back(str(entry.get("message_id")))
            case "question":
                self._ask(entry)
            case "question_closed":
                if self._question is not None and self._question.question_id == entry.get("question_id"):
                    self._question = None
            case "run_end" | "pod_end":
                self._note = None
            case "segment_start" | "config_changed":
                self._read_settings(entry)
            case _:
                pass

    def _give_back(self, message_id: str) -> None:
        waiting = self.pending.pop(message_id, None)
        if waiting is not None:
            self.given_back.append(waiting[1])

    def _ask(self, told: Mapping[str, Any]) -> None:
        """`told`: its entry, or as the gateway shows it."""
        ident, kind, choices = str(told.get("question_id")), str(told.get("kind")), choices_of(told.get("choices"))
        self._question = OpenQuestion(ident, kind, str(told.get("question")), choices)

    def _read_settings(self, entry: Entry) -> None:
        config = entry.get("config")
        model = config.get("model") if isinstance(config, Mapping) else None
        if isinstance(model, Mapping):
            prices = model.get("prices")
            self.model = str(model.get("name") or "")
            self.prices = prices if isinstance(prices, Mapping) else {}

    def _system_item(self, event: SystemItemEvent) -> None:
        """Items wait for the last of their entry, and are one entry then."""
        if event.seq <= self.last:
            return
        self._items.append(event)
        if not event.last:
            return
        items = [{"kind": i.kind, "payload": i.payload, "body": i.body} for i in self._items if i.seq == event.seq]
        self._items.clear()
        self._entry({"seq": event.seq, "ts": event.ts, "type": "system_items", "items": items})

    def _delta(self, delta: Delta) -> None:
        if delta.block.startswith(TOOL_BLOCK):
            self._output(delta)
            return
        self._note = None
        known = self._live.get(delta.block)
        have = "" if known is None else known.text
        if delta.offset > len(have):
            return  # text is missing: the entry brings the whole
        text = have + delta.text[len(have) - delta.offset :]
        self._live[delta.block] = AssistantText(f"live:{delta.block}", 0, text, live=True)
        self._requests[delta.block] = delta.request_id

    def _output(self, delta: Delta) -> None:
        seq, _, index = delta.block.removeprefix(TOOL_BLOCK).partition(".")
        if not (seq.isdecimal() and index.isdecimal()):
            return  # no call is named like that; its result would come all the same
        call = self._committed.get(call_key(seq, index))
        if not isinstance(call, ToolCall) or call.status is not None or delta.offset > call.output_length:
            return
        new = delta.text[call.output_length - delta.offset :]
        output = (call.output + new)[-OUTPUT_KEPT:]
        self._committed.put(replace(call, output=output, output_length=call.output_length + len(new)))

    def _discard(self, request_id: str) -> None:
        if self._end_request(request_id):
            self._note = Live("live:discard", "this reply broke off")

    def _end_request(self, request_id: str) -> bool:
        """Whether it had live text."""
        gone = [block for block, request in self._requests.items() if request == request_id]
        for block in gone:
            self._live.pop(block, None)
            del self._requests[block]
        if gone:
            self._note = None
        return bool(gone)


def cost_of(usage: Mapping[str, Any], prices: Mapping[str, float]) -> float | None:
    """Money for what a Pod used (`usage` as the gateway shows it) at prices per million tokens; None without prices."""
    if not prices:
        return None
    cached = int(usage.get("cache_read") or 0), int(usage.get("cache_write") or 0)
    plain = max(int(usage.get("input") or 0) - sum(cached), 0)
    tokens = {
        "input": plain,
        "cache_read": cached[0],
        "cache_write": cached[1],
        "output": int(usage.get("output") or 0),
    }
    return sum(number * float(prices.get(kind) or 0) for kind, number in tokens.items()) / 1e6
