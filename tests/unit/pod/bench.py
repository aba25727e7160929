"""One Pod's turn machine on a bench: stimuli by hand, a real store in memory, and the log as a short story.

After every stimulus the machine's memory is compared with the log (law 1).
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from actors.compactor.driver import shorter
from actors.compactor.plan import plan
from actors.pod import instructions as do
from actors.pod import stimuli as st
from actors.pod.compacting import compaction_order
from actors.pod.facts import pod_facts
from actors.pod.transitions import Phase
from actors.pod.turn import TurnMachine
from actors.protocol.compaction import CompactionError, read_record
from actors.protocol.config import CompactionRule, ModelSpec, PodConfig, ReminderRule, RunLimits
from actors.protocol.model import ModelReply, StopReason, Usage
from actors.protocol.references import Resolved, Unresolved
from actors.protocol.system_items.workflow import WORKFLOW, Workflow
from actors.protocol.tasks import TASK_TOOLS, TODO_TOOLS, Face
from actors.protocol.tools import ToolOutcome
from session_store.backends.memory import MemoryStore
from session_store.entries import (
    AssistantItems,
    Extension,
    Invoke,
    LogEntry,
    QuestionClosed,
    Rewound,
    RunEnd,
    SegmentStart,
    SystemItems,
    ToolResults,
    UserInput,
    Withdrawn,
)
from session_store.errors import Refused
from session_store.items import (
    AssistantItem,
    AssistantMessage,
    HistoryItem,
    Problem,
    SystemMessage,
    Text,
    ToolCall,
    ToolResultGroup,
    UserMessage,
)
from session_store.messages import Message
from session_store.reading import read_log
from session_store.requests import (
    Annotate,
    Append,
    Appended,
    ClaimDirectory,
    Create,
    Deliver,
    Open,
    Parent,
    Pending,
    Query,
    Release,
)
from session_store.restore import restore
from session_store.rows import PodRow

POD, PARENT = "pod-1", "parent-1"
IDEMPOTENT = ("Look", "SpawnPod", "WaitForPods", "SendToPod", "StopPod", "clarify", *TASK_TOOLS, *TODO_TOOLS)
DONE = ToolOutcome("ok", "Done.")
ASKED = ToolOutcome("ok", "Asked.", None, {"question": {"question": "Which?", "choices": [{"label": "left"}]}})


def call(name: str, call_id: str = "", **arguments: Any) -> ToolCall:
    return ToolCall(call_id or name, name, arguments)


class Bench:
    """`out` is what the machine said since the last action; appends are carried out at once unless `hold`."""

    def __init__(
        self,
        *,
        parent: bool = False,
        limits: RunLimits | None = None,
        max_wakes: int = 1000,
        log: tuple[LogEntry, ...] = (),
        opened: bool = True,
        planning: Face = "none",
        reminder: ReminderRule | None = None,
        compaction: CompactionRule | None = None,
    ) -> None:
        self.now = 1_000_000
        self.store = MemoryStore(lambda: self.now)
        self.directory = self.store.execute(ClaimDirectory()).epoch
        self.hold, self.checked = False, True
        self.out: list[do.Instruction] = []
        self.moves: set[tuple[Phase, type[Any], Phase]] = set()
        self._count = 0
        above = self._make_parent() if parent else None
        self.config = PodConfig(
            "worker",
            PARENT if parent else POD,
            ModelSpec("m", "scripted"),
            "",
            parent_id=PARENT if parent else None,
            limits=limits or RunLimits(),
            max_wakes=max_wakes,
            planning=planning,
            reminder=reminder or ReminderRule(),
            compaction=compaction or CompactionRule(),
        )
        start = SegmentStart(POD, self.config.plain(), "Work.", (), 1)
        self.store.execute(Create(POD, "t", "make", start, (), "worker", above))
        if log:
            lease = self.store.execute(Open(POD, self.directory))
            self.store.execute(Append(POD, lease.epoch, lease.head, "log", log))
        self.reopen(feed=opened)

    def _make_parent(self) -> Parent:
        config = PodConfig("boss", PARENT, ModelSpec("m", "scripted"), "")
        self.store.execute(Create(PARENT, "t", "make-parent", SegmentStart(PARENT, config.plain(), "", (), 1)))
        lease = self.store.execute(Open(PARENT, self.directory))
        self.store.execute(Append(PARENT, lease.epoch, lease.head, "b", (Invoke("parent-run", "prompt"),)))
        return Parent(PARENT, lease.epoch, "parent-run")

    # --- the machine ---

    def reopen(self, feed: bool = True) -> None:
        """A new incarnation with nothing but the store: as after a kill."""
        lease = self.store.execute(Open(POD, self.directory))
        entries = self.entries
        facts = pod_facts(entries, self.config.parent_id)
        self.epoch = lease.epoch
        self.machine = TurnMachine(self.config, restore(entries), facts, lease, lambda name: name in IDEMPOTENT)
        self.flight: do.Append | None = None
        self.restoring = False
        self.request: do.SendRequest | None = None
        self.resolving: do.ResolveReferences | None = None
        self.fixing: do.FixExtraction | None = None
        self.compacting: do.Compact | None = None
        self.aborted = False
        self.running: tuple[int, ...] = ()
        self.out = []
        if feed:
            self.feed(st.Opened())

    def feed(self, stimulus: st.Stimulus) -> list[do.Instruction]:
        """One stimulus, and what follows from appends that are carried out at once."""
        self.out = []
        self._feed(stimulus)
        return self._go_on()

    def _go_on(self) -> list[do.Instruction]:
        while (self.flight is not None or self.restoring) and not self.hold:
            self._restore() if self.restoring else self._commit()
        return self.out

    def _feed(self, stimulus: st.Stimulus) -> None:
        before = self.machine.phase
        said = self.machine.handle(stimulus)
        self.moves.add((before, type(stimulus), self.machine.phase))
        for instruction in said:
            match instruction:
                case do.Append():
                    assert self.flight is None, "two appends in flight"
                    self.flight = instruction
                case do.SendRequest():
                    self.request = instruction
                case do.ResolveReferences():
                    self.resolving = instruction
                case do.FixExtraction():
                    self.fixing, self.aborted = instruction, False
                case do.Compact():
                    self.compacting = instruction
                case do.AbortCompaction():
                    self.aborted = True
                case do.RunCalls(_, indexes):
                    self.running += indexes
                case do.Restore():
                    self.restoring = True
                case _:
                    pass
        self.out.extend(said)
        if self.checked:
            self.check_memory()

    def commit(self) -> list[do.Instruction]:
        """Carry out the append in flight, and what follows unless `hold`."""
        self.out = []
        self._commit()
        return self._go_on()

    def restore(self) -> list[do.Instruction]:
        """Give the machine the log folded anew, as it asked, and what follows unless `hold`."""
        self.out = []
        self._restore()
        return self._go_on()

    def _restore(self) -> None:
        self.restoring = False
        self._feed(st.Restored(restore(self.entries), pod_facts(self.entries, self.config.parent_id)))

    def _commit(self) -> None:
        flight = self.take_flight()
        try:
            reply = self._execute(flight)
        except Refused as refused:
            self._feed(st.AppendRefused(flight.batch_id, refused.code, refused.message))
            return
        self._feed(st.Appended(flight.batch_id, reply))

    def fail_append(self) -> list[do.Instruction]:
        return self.feed(st.AppendFailed(self.take_flight().batch_id, "disk full"))

    def take_flight(self) -> do.Append:
        """The append in flight, which the store will not see."""
        flight, self.flight = self.flight, None
        assert flight is not None
        return flight

    def commit_unheard(self) -> None:
        """The append in flight takes place; nobody hears of it."""
        self._execute(self.take_flight())

    def _execute(self, flight: do.Append) -> Appended:
        values = [getattr(flight, f.name) for f in fields(flight)]
        return self.store.execute(Append(POD, self.epoch, values[1], values[0], *values[2:]))

    def write(self, *entries: LogEntry) -> None:
        """Entries as the incarnation that holds the lease would commit them."""
        self.store.execute(Append(POD, self.epoch, self.row.head, "written", entries))

    def annotate(self) -> None:
        self.store.execute(Annotate(POD, Extension("d", {}), "key", self.row.head))

    def check_memory(self) -> None:
        """Law 1: restore(log) equals what the machine holds."""
        state = self.machine.state
        if self.restoring:
            return  # it is about to be made anew
        known = [e for e in self.entries if e.seq <= state.head]
        if len(known) < len([e for e in self.entries if not isinstance(e, Extension)]):
            return  # another incarnation wrote
        restored, facts = restore(known), pod_facts(known, self.config.parent_id)
        assert state.history == restored.history
        assert state.facts == facts
        for f in fields(state.fold):
            if f.name not in ("head", "updated_at"):
                assert getattr(state.fold, f.name) == getattr(restored.status, f.name), f.name

    # --- what comes in ---

    def deliver(self, message: Message) -> None:
        """Into the inbox, without a hint."""
        self.store.execute(Deliver(POD, message))

    def hint(self) -> list[do.Instruction]:
        reply = self.store.execute(Pending(POD, self.machine.state.cursor))
        return self.feed(st.MessagesArrived(reply.messages))

    def say(self, text: str, sender: str = "user", **body: Any) -> list[do.Instruction]:
        """A prompt, and the hint; its message id is the text."""
        self.deliver(prompt(text, sender, **body))
        return self.hint()

    def control(self, kind: Any, sender: str = "user", **body: Any) -> list[do.Instruction]:
        self._count += 1
        self.deliver(Message(f"{kind}-{self._count}", kind, sender, body))
        return self.hint()

    def rewind(self, to: int) -> list[do.Instruction]:
        """A rewind as the store takes it now, and the hint. Raises `Refused`."""
        self._count += 1
        body = {"to": to, "expected_head": self.row.head}
        self.deliver(Message(f"rewind-{self._count}", "rewind", "user", body))
        return self.hint()

    def seq(self, text: str) -> int:
        """Seq of the entry that tells so in the story, the last of several."""
        return [e.seq for e in self.entries if short(e) == text][-1]

    def shown(self) -> list[str]:
        """What the next request would hold, in short."""
        return [_item(item) for item in self.machine.state.history.items]

    def notify(self, text: str, wake: bool = True, sender: str = "user") -> list[do.Instruction]:
        self.deliver(Message(text, "notify", sender, {"message": text}, wake))
        return self.hint()

    def event(self, pod: str, seq: int, *, kind: str = "turn_ended", wake: bool = True, **more: Any) -> None:
        """A child's event into the inbox, without a hint."""
        if kind == "turn_ended":
            more.setdefault("outcome", "finished")
        event = {"kind": kind, "event_id": f"{pod}:{seq}", "pod_id": pod, "pod_name": pod, "generation": 1, **more}
        self.deliver(Message(f"{pod}:{seq}", "pod_event", pod, {"event": event}, wake))

    # --- what is answered ---

    def reply(self, *items: AssistantItem | str, stop: StopReason = "end", tokens: int = 10) -> list[do.Instruction]:
        """The model's reply to the request in flight; plain strings are text."""
        made = tuple(Text(i) if isinstance(i, str) else i for i in items)
        return self.feed(st.ReplyCompleted(self._asked(), ModelReply(made, Usage(tokens, 0, 0, 5), stop, 1, "m")))

    def resolved(self, *slugs: str, literal: tuple[Unresolved, ...] = (), bad: str = "") -> list[do.Instruction]:
        """What the lookup in flight came to: a workflow for each slug, or `bad`: why the prompt is refused."""
        assert self.resolving is not None
        message_id = self.resolving.message_id
        items = (WORKFLOW.item(f"{message_id}:{n}", Workflow(slug, "do")) for n, slug in enumerate(slugs, 1))
        found = Resolved(tuple(items), literal, Unresolved(0, bad) if bad else None)
        return self.feed(st.ReferencesResolved(message_id, found))

    def abort_resolving(self) -> list[do.Instruction]:
        assert self.resolving is not None
        return self.feed(st.ResolvingAborted(self.resolving.message_id))

    def fixed(self) -> list[do.Instruction]:
        """The extractor has taken its range."""
        assert self.fixing is not None
        return self.feed(st.ExtractionFixed(self.fixing.compaction_id))

    def compacted(self, text: str = "In short.") -> list[do.Instruction]:
        """What the compaction in flight comes to with this summary, by the real plan."""
        assert self.compacting is not None
        order = compaction_order(self.machine.state, self.compacting)
        try:
            planned = plan(order, self.config.compaction.retained_tokens)
            made = shorter(order, planned, text, ())
        except CompactionError as error:
            return self.feed(st.CompactionFailed(order.compaction_id, error.type, error.message))
        return self.feed(st.Compacted(order.compaction_id, made))

    def compact_failed(self, error: str = "timeout") -> list[do.Instruction]:
        assert self.compacting is not None
        return self.feed(st.CompactionFailed(self.compacting.compaction_id, error, "no"))

    def abort_compaction(self) -> list[do.Instruction]:
        assert self.fixing is not None
        return self.feed(st.CompactionAborted(self.fixing.compaction_id))

    def order_compaction(self) -> list[do.Instruction]:
        """A person's order as the store takes it now, and the hint. Raises `Refused`."""
        self._count += 1
        self.deliver(Message(f"compact-{self._count}", "compact", "user"))
        return self.hint()

    def break_reply(self, *kept: str) -> list[do.Instruction]:
        items = tuple(Text(t) for t in kept)
        return self.feed(st.RequestFailed(self._asked(), "broken_stream", "cut", broken=True, kept=items))

    def fail_request(self, error_type: str = "bad_request") -> list[do.Instruction]:
        return self.feed(st.RequestFailed(self._asked(), error_type, "no"))

    def abort_request(self, *kept: str) -> list[do.Instruction]:
        return self.feed(st.RequestAborted(self._asked(), tuple(Text(t) for t in kept)))

    def finish(self, *indexes: int, outcome: ToolOutcome = DONE) -> list[do.Instruction]:
        """These running calls end, at one moment."""
        self.running = tuple(i for i in self.running if i not in indexes)
        return self.feed(st.CallsFinished(tuple((i, outcome) for i in indexes)))

    def late(self) -> list[do.Instruction]:
        return self.feed(st.DeadlinePassed(self.machine.state.fold.run_id or ""))

    def halt(self, reason: str = "enough") -> list[do.Instruction]:
        return self.feed(st.RunHalted(self.machine.state.fold.run_id or "", Problem("hook", reason)))

    def release(self) -> list[do.Instruction]:
        """Carry out the release asked for."""
        try:
            self.store.execute(Release(POD, self.epoch))
        except Refused as refused:
            messages = self.store.execute(Pending(POD, self.machine.state.cursor)).messages
            return self.feed(st.ReleaseRefused(refused.code == "stale_epoch", messages))
        return self.feed(st.Released())

    def _asked(self) -> str:
        assert self.request is not None
        return self.request.request_id

    # --- what came of it ---

    @property
    def phase(self) -> Phase:
        return self.machine.phase

    @property
    def said(self) -> list[str]:
        """Names of the last instructions, appends aside."""
        return [type(i).__name__ for i in self.out if not isinstance(i, do.Append)]

    @property
    def entries(self) -> tuple[LogEntry, ...]:
        return read_log(self.store, POD)

    @property
    def story(self) -> list[str]:
        """The log in short, from the first run on; usage and segment left out."""
        return [text for e in self.entries if (text := short(e))]

    @property
    def row(self) -> PodRow:
        return self.store.execute(Query(ids=(POD,))).rows[0]

    @property
    def queue(self) -> list[str]:
        return [m.message_id for m in self.pending()]

    def pending(self) -> tuple[Message, ...]:
        return self.store.execute(Pending(POD)).messages

    def wanted(self) -> bool:
        """Whether the catalogue says that the session wants a Pod."""
        return bool(self.store.execute(Query(ids=(POD,), needs_owner=True)).rows)

    @property
    def told(self) -> list[tuple[str, str | None]]:
        """(kind, outcome) of the events in the parent's inbox."""
        return [(e["kind"], e.get("outcome")) for e in self.told_events]

    @property
    def told_events(self) -> list[dict[str, Any]]:
        return [m.body["event"] for m in self.told_messages]

    @property
    def told_messages(self) -> list[Message]:
        return [m for m in self.store.execute(Pending(PARENT)).messages if m.kind == "pod_event"]

    def working(self, text: str = "go", sender: str = "user") -> Bench:
        """This bench, with a run whose first request is in flight."""
        self.say(text, sender)
        assert self.phase is Phase.REQUESTING
        return self

    def calling(self, *calls: ToolCall, sender: str = "user") -> Bench:
        """This bench, with these calls running."""
        self.working(sender=sender).reply(*calls, stop="tool_calls")
        assert self.phase is Phase.CALLING
        return self

    def spawned(self, *pods: str, sender: str = "user", detached: bool = False) -> Bench:
        """This bench, in mid-run, with these children, its next request in flight."""
        self.calling(*(call("SpawnPod", p) for p in pods), sender=sender)
        for index, pod in enumerate(pods):
            data = {"pod_id": pod, "name": pod, "detached": detached}
            self.finish(index, outcome=ToolOutcome("ok", "Spawned.", None, data))
        return self

    def waiting(self, *pods: str, mode: str = "all", sender: str = "user") -> Bench:
        """This bench, at rest, waiting for these children."""
        self.spawned(*pods, sender=sender).reply(call("WaitForPods"), stop="tool_calls")
        self.finish(0, outcome=ToolOutcome("ok", "Waiting.", None, {"awaiting": list(pods), "mode": mode}))
        assert self.row.status == "waiting_on_children"
        return self

    def waiting_again(self, *pods: str) -> Bench:
        """This bench, at rest before, now waiting for these children, of which the first was spawned before."""
        self.working("wait").reply(*(call("SpawnPod", p) for p in pods[1:]), stop="tool_calls")
        for index, pod in enumerate(pods[1:]):
            self.finish(index, outcome=ToolOutcome("ok", "Spawned.", None, {"pod_id": pod, "name": pod}))
        self.reply(call("WaitForPods"), stop="tool_calls")
        self.finish(0, outcome=ToolOutcome("ok", "Waiting.", None, {"awaiting": list(pods), "mode": "all"}))
        return self


def prompt(text: str, sender: str = "user", **body: Any) -> Message:
    return Message(text, "prompt", sender, {"segments": [{"type": "text", "text": text}], **body})


def referring(text: str, sender: str = "user", **body: Any) -> Message:
    """A prompt `/text`; its message id is the text."""
    segment = {"type": "workflow_invoke", "text": f"/{text}", "data": {"slug": text}}
    return Message(text, "prompt", sender, {"segments": [segment], **body})


def short(entry: LogEntry) -> str | None:
    match entry:
        case Invoke():
            return f"invoke {entry.trigger}"
        case UserInput():
            return f"user {entry.segments[0].text}" + (" (answer)" if entry.answers else "")
        case AssistantItems():
            return "assistant " + " ".join(f"<{i.name}>" if i.type == "tool_call" else i.text for i in entry.items)
        case ToolResults():
            return "results " + " ".join(f"{r.name}={r.status}" for r in entry.results)
        case SystemItems():
            item = entry.items[0]
            stale = " stale" if (item.payload.get("event") or {}).get("stale") else ""
            return f"{item.kind} {item.item_id}{stale}"
        case RunEnd():
            return f"end {entry.outcome}" + (f" ({entry.error.type})" if entry.error else "")
        case Withdrawn():
            return f"withdrawn {entry.message_id}"
        case QuestionClosed():
            return f"closed {entry.how}"
        case Rewound():
            return f"rewound {entry.to}"
        case Extension():
            record = read_record(entry)
            if record is None:
                return None
            return f"compaction {record.trigger}" + (f" failed ({record.error.type})" if record.error else "")
        case SegmentStart():
            return None
        case _:
            return None if entry.type == "llm_usage" else entry.type


def _item(item: HistoryItem) -> str:
    match item:
        case UserMessage():
            return f"user {item.text}"
        case AssistantMessage():
            return f"assistant {item.text or ' '.join(f'<{c.name}>' for c in item.calls)}"
        case ToolResultGroup():
            return "results " + " ".join(f"{r.name}={r.status}" for r in item.results)
        case SystemMessage():
            return f"{item.item.kind} {item.item.item_id}"
