"""What one incarnation of a Pod knows: the folds of what is committed, and the inbox it has seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from actors.pod.facts import PodFacts
from actors.pod.interceptors import INTERCEPTORS, Interceptor
from actors.pod.stimuli import ReferencesResolved
from actors.protocol.config import PodConfig
from actors.protocol.references import Resolved
from session_store.entries import LogEntry
from session_store.items import Problem
from session_store.messages import Message
from session_store.restore import History
from session_store.status import StatusFold, answers, is_control, rewind_of, starts_run

Order: TypeAlias = Literal["stop", "cancel", "interrupt", "pause"]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a Pod is, as its events say it."""

    session: str
    name: str
    parent_id: str | None
    generation: int


@dataclass(slots=True)
class PodState:
    """The folds change only by `apply`, with committed entries; the inbox by `note` and `forget`."""

    config: PodConfig
    who: Identity
    history: History
    fold: StatusFold
    facts: PodFacts
    head: int
    cursor: int = 0
    """The highest inbox position seen."""
    inbox: dict[str, Message] = field(default_factory=dict)
    interceptors: tuple[Interceptor, ...] = INTERCEPTORS
    lookup: ReferencesResolved | None = None
    """What the references of one prompt came to; only until it is committed."""

    def apply(self, entry: LogEntry) -> None:
        self.fold.apply(entry)
        self.history.apply(entry)
        self.facts.apply(entry)

    def note(self, messages: Iterable[Message]) -> None:
        """Take messages into view; ones already consumed do not come again (the cursor is past them)."""
        for message in messages:
            if message.position > self.cursor:
                self.inbox[message.message_id] = message
                self.cursor = message.position

    def forget(self, message_ids: Iterable[str]) -> None:
        for message_id in message_ids:
            self.inbox.pop(message_id, None)
            if self.lookup is not None and self.lookup.message_id == message_id:
                self.lookup = None

    @property
    def messages(self) -> list[Message]:
        """Unconsumed messages in inbox order."""
        return list(self.inbox.values())

    @property
    def running(self) -> bool:
        """Whether a run is open, or a paused one is being resumed."""
        fold = self.fold
        resumed = fold.outcome == "paused" and self.rewind is None and starts_run(fold, self.messages)
        return fold.run_open or resumed

    @property
    def rewind(self) -> Message | None:
        """The rewind that is to take place before anything else begins."""
        return rewind_of(self.inbox.values())

    def aimed(self, kind: str) -> Message | None:
        """The youngest control message of `kind` that is aimed at the current run."""
        found = None
        for message in self.inbox.values():
            if message.kind == kind and message.body.get("run_id") in (None, self.fold.run_id):
                found = message
        return found

    def order(self) -> Order | None:
        """What a person, parent or the queue orders the current run to do. Stop beats cancel beats the others."""
        if any(m.kind == "stop" for m in self.inbox.values()):
            return "stop"
        if self.aimed("cancel") is not None:
            return "cancel"
        if any(m.kind == "prompt" and m.body.get("when_busy") == "interrupt" for m in self.inbox.values()):
            return "interrupt"
        pause, resume = self.aimed("pause"), self.aimed("resume")
        if pause is not None and (resume is None or resume.position < pause.position):
            return "pause"
        return None

    def steers(self) -> list[Message]:
        """Prompts that go into the running run."""
        return [m for m in self.inbox.values() if m.kind == "prompt" and m.body.get("when_busy") == "steer"]

    def leading(self) -> Message | None:
        """The prompt, answer or `resume` that opens the next run; None when notices or PodEvents do."""
        prompts = [m for m in self.messages if m.kind == "prompt"]
        answer = next((m for m in self.messages if answers(self.fold, m)), None)
        if answer is not None and (not prompts or answer.position <= prompts[0].position):
            return answer  # the store took it for the question: whatever came later comes after it
        urgent = [m for m in prompts if m.body.get("when_busy") == "interrupt"]
        if urgent:
            return urgent[0]
        if prompts:
            return prompts[0]
        return self.aimed("resume") if self.fold.outcome == "errored" else None

    def looked_up(self, message: Message) -> Resolved | None:
        """What the references of this prompt came to, if they are looked up."""
        found = self.lookup
        return found.resolved if found is not None and found.message_id == message.message_id else None

    def controls(self) -> list[Message]:
        return [m for m in self.inbox.values() if is_control(m)]

    def cancelled_rest(self) -> Message | None:
        """The cancel that ends what the resting Pod waits for.

        It was aimed at that rest if nothing before it in the inbox starts a run. One that came down from above also
        ends a finished run whose children are at work: so it has concluded, and its parent hears of it.
        """
        cancel, fold = self.aimed("cancel"), self.fold
        if cancel is None or not (fold.suspended or not self._starts_before(cancel)):
            return None
        return cancel if fold.waiting or (cancel.body.get("cascade") and self.facts.work_open) else None

    def void_controls(self) -> list[Message]:
        """Controls, except stop, that came when nothing went on or was about to: they change nothing, ever.

        What was aimed at a run that asks for a permission holds when it goes on.
        """
        asks = self.fold.suspended and self.fold.outcome != "paused"
        return [
            m
            for m in self.controls()
            if m.kind != "stop"
            and not self._starts_before(m)
            and not (asks and m.kind in ("pause", "resume") and m.body.get("run_id") == self.fold.run_id)
        ]

    def _starts_before(self, control: Message) -> bool:
        """Whether the messages up to this control message start a run in this rest."""
        return starts_run(self.fold, [m for m in self.messages if m.position <= control.position])

    def spent(self, over_wakes: bool) -> Problem | None:
        """The limit that forbids another request of this run, if any."""
        limits, facts = self.config.limits, self.facts
        if over_wakes:
            return Problem("wakes", f"The tree was woken {self.config.max_wakes} times since a person's last message.")
        if limits.requests is not None and facts.run_requests >= limits.requests:
            return Problem("requests", f"The run made {facts.run_requests} requests; its limit is {limits.requests}.")
        if limits.tokens is not None and facts.run_tokens >= limits.tokens:
            return Problem("tokens", f"The run used {facts.run_tokens} tokens; its limit is {limits.tokens}.")
        return None
