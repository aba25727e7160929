"""`restore(entries) -> RestoredState`: the pure fold from a log to what a Pod goes on with.

The same `History.apply` serves a live Pod (each acknowledged entry) and a restore (the stored ones), so memory and log
cannot differ. Only a `rewound` cannot be followed entry by entry: a live Pod restores anew after it. Domains are
unknown here: `extensions` is the raw list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from session_store.entries import (
    AssistantItems,
    ConfigChanged,
    Extension,
    Invoke,
    LogEntry,
    Question,
    Rewound,
    RunEnd,
    SegmentStart,
    SystemItems,
    ToolResults,
    ToolSpec,
    ToolStarted,
    UserInput,
)
from session_store.items import (
    AssistantMessage,
    HistoryItem,
    Json,
    SystemMessage,
    ToolResult,
    ToolResultGroup,
    UserMessage,
)
from session_store.status import StatusFold

ATTACHMENT_KINDS = frozenset({"file_attachment", "knowledge", "workflow"})
"""SystemItems that belong to a prompt: a withdrawn run takes them out of the history with it."""

CUT_OFF = "The call was cut off by an interruption; whether it took effect is not known."


@dataclass(slots=True)
class History:
    """The history that requests are built from, with the calls still open at its end."""

    config: dict[str, Json] = field(default_factory=dict)
    system_prompt: str = ""
    tools: tuple[ToolSpec, ...] = ()
    wire_version: int = 1
    items: list[HistoryItem] = field(default_factory=list)
    open_message: AssistantMessage | None = None
    open_results: dict[int, ToolResult] = field(default_factory=dict)
    put_off: frozenset[int] = frozenset()
    """Open calls that have not begun, because a person is asked about one of them first."""
    removals: int = 0
    """Counts the entries by which items leave the history (new segments, withdrawn runs, rewinds): whoever keeps
    encodings beside it starts anew then."""
    _run_start: int = 0
    _run_inputs: list[int] = field(default_factory=list)

    @property
    def open_calls(self) -> tuple[int, ...]:
        """Indexes of the calls of the last reply that have no result yet."""
        if self.open_message is None:
            return ()
        return tuple(i for i in range(len(self.open_message.calls)) if i not in self.open_results)

    def apply(self, entry: LogEntry) -> None:
        """Take one entry, in order of seq."""
        match entry:
            case SegmentStart():
                self._start_segment(entry)
            case ConfigChanged():
                self._change_config(entry)
            case Invoke():
                self._run_inputs = []
            case UserInput():
                self._add_input(UserMessage(entry.segments, entry.message_id, entry.sender))
            case SystemItems():
                for item in entry.items:
                    if item.kind in ATTACHMENT_KINDS:
                        self._add_input(SystemMessage(item))
                    else:
                        self._add(SystemMessage(item))
            case AssistantItems():
                self._add_reply(AssistantMessage(entry.seq, entry.request_id, entry.items))
            case ToolResults():
                self.put_off = frozenset()
                for result in entry.results:
                    self._add_result(result)
            case Question(kind="permission"):
                self.put_off = frozenset(self.open_calls)
            case ToolStarted(call=call):
                self.put_off -= {call.index}
            case RunEnd(outcome="withdrawn"):
                self._withdraw_run()
            case _:
                pass

    def close(self) -> None:
        """Answer what a damaged log left unanswered, so that the next request is valid (case M04)."""
        message = self.open_message
        if message is None:
            return
        for index in self.open_calls:
            call = message.calls[index]
            self.open_results[index] = ToolResult(
                message.seq, index, call.call_id, call.name, "interrupted", CUT_OFF, CUT_OFF
            )
        self._close_group()

    def _start_segment(self, entry: SegmentStart) -> None:
        self.config, self.system_prompt, self.tools = entry.config, entry.system_prompt, entry.tools
        self.wire_version = entry.wire_version
        self.removals += entry.seq > 1
        inputs = {_input_id(self.items[i]) for i in self._run_inputs}
        self.items = list(entry.history)
        # What the run that goes on was given must still leave with it, should it be withdrawn.
        self._run_inputs = [i for i, item in enumerate(self.items) if inputs and _input_id(item) in inputs]
        self.open_message, self.open_results = None, {}

    def _change_config(self, entry: ConfigChanged) -> None:
        if entry.config is not None:
            self.config = {**self.config, **entry.config}
        if entry.system_prompt is not None:
            self.system_prompt = entry.system_prompt
        if entry.tools is not None:
            self.tools = entry.tools

    def _add(self, item: HistoryItem) -> None:
        self.close()
        self.items.append(item)

    def _add_input(self, item: HistoryItem) -> None:
        self._add(item)
        self._run_inputs.append(len(self.items) - 1)

    def _add_reply(self, message: AssistantMessage) -> None:
        self._add(message)
        self.put_off = frozenset()
        if message.calls:
            self.open_message, self.open_results = message, {}

    def _add_result(self, result: ToolResult) -> None:
        message = self.open_message
        if message is None:
            return  # a stray result: no request may show it (case M04)
        index = result.index
        if result.call_seq != message.seq:
            index = self._index_by_call_id(result.call_id)
            result = replace(result, call_seq=message.seq, index=index)
        if not 0 <= index < len(message.calls) or index in self.open_results:
            return
        self.open_results[index] = result
        if len(self.open_results) == len(message.calls):
            self._close_group()

    def _index_by_call_id(self, call_id: str) -> int:
        """For logs made elsewhere, whose results do not carry the position: the first open call of that id."""
        message = self.open_message
        assert message is not None
        return next((i for i in self.open_calls if message.calls[i].call_id == call_id), -1)

    def _close_group(self) -> None:
        self.items.append(ToolResultGroup(tuple(self.open_results[i] for i in sorted(self.open_results))))
        self.open_message, self.open_results = None, {}

    def _withdraw_run(self) -> None:
        for position in reversed(self._run_inputs):
            del self.items[position]
        self.removals += 1
        self._run_inputs = []


def _input_id(item: HistoryItem) -> str | None:
    """Names a prompt or an attachment among the items of a history."""
    match item:
        case UserMessage(message_id=message_id):
            return message_id
        case SystemMessage(item=found) if found.kind in ATTACHMENT_KINDS:
            return f"{found.kind} {found.item_id}"
        case _:
            return None


@dataclass(slots=True)
class RestoredState:
    """All that a log says: the history, the status, and every extension `(domain, payload)` as it came."""

    history: History
    status: StatusFold
    extensions: list[tuple[str, dict[str, Json]]]
    head: int = 0


def restore(entries: Iterable[LogEntry]) -> RestoredState:
    """Fold a whole log. A `rewound` leaves out what follows its target, also across segments."""
    status = StatusFold()
    extensions: list[tuple[str, dict[str, Json]]] = []
    log = list(entries)
    removals = 0
    for entry in log:
        status.apply(entry)
        match entry:
            case Extension():
                extensions.append((entry.domain, entry.payload))
            case Rewound() | RunEnd(outcome="withdrawn"):
                removals += 1
            case SegmentStart():
                removals += entry.seq > 1
            case _:
                pass
    history = History()
    for entry in present(log):
        history.apply(entry)
    history.removals = removals
    return RestoredState(history, status, extensions, status.head)


def present(entries: Iterable[LogEntry]) -> list[LogEntry]:
    """The entries that the present history is made of: without what was rewound away, and without the rewinds."""
    kept: list[LogEntry] = []
    for entry in entries:
        if isinstance(entry, Rewound):
            while kept and kept[-1].seq >= entry.to:
                kept.pop()
        else:
            kept.append(entry)
    return kept
