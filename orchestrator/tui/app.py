"""The screen of `polypod attach`: a transcript that lives, a box to write in, the tree of Pods at the side.

What comes waits in a queue and is taken up `FRAMES` times a second, for a bounded time; so a fast stream never keeps a
key waiting. Calls to the gateway are made by threads (`Asking`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual import events, on
from textual.app import App
from textual.binding import Binding, BindingType

from orchestrator.cli.failure import CommandError
from orchestrator.sigils import typing_at_end
from orchestrator.tui.asking import Asking
from orchestrator.tui.attachment import Attachment
from orchestrator.tui.blocks import UserPrompt
from orchestrator.tui.composing import answer_of
from orchestrator.tui.desk import Desk, Look, Opened, new_message_id
from orchestrator.tui.panels import PodTree, Sheet
from orchestrator.tui.prompt_box import Draft, PromptBox, WhenBusy
from orchestrator.tui.scene import Scene
from orchestrator.tui.view import TranscriptView
from orchestrator.tui.words import KEYS

FRAMES = 25
BUDGET = 0.015
"""Seconds that one look into the queue may take."""
LOOK_EVERY = 1.0
NOTE_SECONDS = 6.0
_WAITS: Mapping[WhenBusy, str] = {
    "queue": "waits its turn",
    "steer": "goes in at the next step",
    "interrupt": "comes as soon as the run is cut short",
}
AGAIN_SECONDS = 2.0
"""Within which the second Esc cancels."""


class AttachApp(App[None]):
    """`pod_id` None: the first prompt makes a new Pod. `leave_words` is what the command says when it has ended."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+p", "pause", priority=True, show=False),
        Binding("ctrl+t", "pods", priority=True, show=False),
        Binding("ctrl+n", "new_pod", priority=True, show=False),
        Binding("ctrl+o", "details", priority=True, show=False),
        Binding("ctrl+l", "tasks", priority=True, show=False),
        Binding("ctrl+up,ctrl+pageup", "beside(-1)", priority=True, show=False),
        Binding("ctrl+down,ctrl+pagedown", "beside(1)", priority=True, show=False),
        Binding("pageup", "page(-1)", priority=True, show=False),
        Binding("pagedown", "page(1)", priority=True, show=False),
        Binding("ctrl+home", "top", priority=True, show=False),
        Binding("ctrl+end", "end", priority=True, show=False),
        Binding("f1", "keys", show=False),
        Binding("f2", "alerts", show=False),
        Binding("escape", "escape", show=False),
        Binding("q", "quit", show=False),
    ]

    def __init__(self, desk: Desk, opened: Opened | None, frames: float = FRAMES) -> None:
        super().__init__()
        self._desk = desk
        self._asking = Asking(self, self.say)
        self._frames = frames
        self._opened = opened
        self._attachment: Attachment | None = None
        self._look = Look(())
        self._note: tuple[str, float] | None = None
        self.planned: int | None = None
        """`History.plans` for which the tasks are known."""
        self._scene = Scene(desk.workspace)
        self._escaped = 0.0
        self._unsure: dict[str, str] = {}
        """Ids of prompts that may have arrived although no answer came; the same text again goes under its id."""

    def get_default_screen(self) -> Scene:
        return self._scene

    def on_mount(self) -> None:
        self._scene.box.focus()
        if self._opened is not None:
            self._enter(self._opened)
        self.set_interval(1 / self._frames, self._frame)
        self.set_interval(LOOK_EVERY, self._look_around)
        self._look_around()
        self._draw()

    async def on_event(self, event: events.Event) -> None:
        # Alt with another key may arrive as Esc and that key: only two Escs in a row cancel.
        if isinstance(event, events.Key) and event.key != "escape":
            self._escaped = 0.0
        await super().on_event(event)

    def on_unmount(self) -> None:
        if self._attachment is not None:
            self._attachment.close()

    @property
    def attachment(self) -> Attachment | None:
        return self._attachment

    def say(self, words: str) -> None:
        """A word of this client, for a while."""
        self._note = (words, time.monotonic() + NOTE_SECONDS)
        self._draw()

    # What comes.

    def _enter(self, opened: Opened) -> None:
        if self._attachment is not None:
            self._attachment.close()
        self._attachment = Attachment(opened.pod, opened.entries, self._desk.reach)
        self._look = Look(
            (opened.pod,) if not any(p["id"] == opened.pod["id"] for p in self._look.pods) else self._look.pods
        )
        self.planned = self._note = None
        self._scene.marked = None
        self._scene.view.show(self._attachment.history.blocks())
        self._scene.view.to_end()
        prompts = [b.text for b in self._attachment.history.blocks() if isinstance(b, UserPrompt)]
        self._scene.box.earlier.seed(prompts)
        if self._attachment.history.first > 1:
            pod_id = self._attachment.pod_id
            self._asking.ask(lambda: self._desk.first(pod_id), lambda page: self._learn(pod_id, page))
        self._look_around()

    def _learn(self, pod_id: str, page: Sequence[Mapping[str, Any]]) -> None:
        """The settings of a Pod whose first entry is not in sight."""
        if self._attachment is not None and self._attachment.pod_id == pod_id:
            self._attachment.history.learn(page)

    @property
    def _root_id(self) -> str | None:
        return None if self._attachment is None else str(self._attachment.pod["root_id"])

    def _frame(self) -> None:
        attachment = self._attachment
        if attachment is None:
            self._expire()
            return
        away = attachment.away
        if not attachment.drain(BUDGET):
            self._expire()
            return
        if attachment.resync is not None:
            attachment.resync = None
            self._show(attachment.pod_id, "the stream went on without what was between; the Pod was opened anew")
            return
        if away is not None and attachment.away is None:
            self._look_around()
        for _ in range(len(attachment.history.given_back)):
            self._scene.box.earlier.add(attachment.history.given_back.pop())
            self.say("a prompt of yours was withdrawn; up brings it back")
        if self._scene.view.following:
            attachment.history.trim()
        self._scene.view.show(attachment.history.blocks())
        self._draw()

    def _expire(self) -> None:
        if self._note is not None and time.monotonic() > self._note[1]:
            self._note = None
            self._draw()

    def _look_around(self) -> None:
        attachment, root = self._attachment, self._root_id
        plans = None if attachment is None else attachment.history.plans
        tasks_of = attachment.pod_id if attachment is not None and plans != self.planned else None

        def came(look: Look) -> None:
            if attachment is self._attachment:
                self.planned = plans
                self._looked(look)

        self._asking.ask(lambda: self._desk.look(root, tasks_of), came, alone="look", quiet=True)

    def _looked(self, look: Look) -> None:
        self._look = Look(look.pods, self._look.tasks if look.tasks is None else look.tasks)
        if self._attachment is not None:
            current = [pod for pod in look.pods if pod["id"] == self._attachment.pod_id]
            self._attachment.pod = current[0] if current else self._attachment.pod
        self._draw()

    def _draw(self) -> None:
        """Everything but the transcript."""
        self._scene.draw(self._attachment, self._look, None if self._note is None else self._note[0])

    # What a person does.

    @on(PromptBox.Sent)
    def _sent(self, event: PromptBox.Sent) -> None:
        question = None if self._attachment is None else self._attachment.history.question
        if question is not None and event.when_busy == "queue":
            self._answer(event.draft)
        elif event.draft.text.strip():
            self._send(event.draft, event.when_busy)

    def _send(self, draft: Draft, when_busy: WhenBusy) -> None:
        segments, attachment = draft.segments, self._attachment
        message_id = self._unsure.pop(draft.text, None) or new_message_id()

        def failed(error: CommandError) -> None:
            self._unsure = {draft.text: message_id}
            if attachment is not None:
                attachment.history.pending.pop(message_id, None)
                self._scene.view.show(attachment.history.blocks())
            self._scene.box.restore(draft)

        if attachment is None:
            self._asking.ask(lambda: self._desk.create(segments, message_id), self._show, failed=failed)
            return
        pod_id = attachment.pod_id
        attachment.history.pending[message_id] = _WAITS[when_busy], draft.pastes.expanded(draft.text)
        self._scene.view.show(attachment.history.blocks())
        self._scene.view.to_end()
        self._asking.ask(lambda: self._desk.send(pod_id, segments, message_id, when_busy), _nothing, failed=failed)

    def _answer(self, draft: Draft) -> None:
        attachment = self._attachment
        question = None if attachment is None else attachment.history.question
        if attachment is None or question is None:
            return
        labels = [label for label, _ in question.choices]
        answer = answer_of(labels, question.kind, self._scene.marked, draft.text)
        if answer.problem is not None:
            self._scene.box.restore(draft)
            self.say(answer.problem)
            return
        pod_id = attachment.pod_id
        text = draft.pastes.expanded(answer.text) if answer.text else None
        attachment.history.answered = question.question_id
        self._draw()

        def failed(error: CommandError) -> None:
            attachment.history.answered = None
            self._scene.box.restore(draft)

        self._asking.ask(
            lambda: self._desk.answer(pod_id, question.question_id, answer.choice, text), _nothing, failed=failed
        )

    @on(PromptBox.Changed)
    def _typed(self, event: PromptBox.Changed) -> None:
        """A choice that a number names is marked; a reference that begins is completed."""
        self._scene.draw_question()
        box, completions, attachment = self._scene.box, self._scene.completions, self._attachment
        typing = None if attachment is None else typing_at_end(box.before_cursor)
        if not completions.wants(typing) or typing is None or attachment is None:
            return
        pod_id = attachment.pod_id
        self._asking.ask(
            lambda: self._desk.complete(pod_id, typing.sigil, typing.prefix),
            lambda found: completions.show(typing, found),
            quiet=True,
        )

    @on(PromptBox.Leave)
    def _leave(self) -> None:
        self.exit()

    @on(PodTree.Chosen)
    def _chosen(self, event: PodTree.Chosen) -> None:
        self._show(event.pod_id)
        self._scene.box.focus()

    @on(TranscriptView.WantsOlder)
    def _wants_older(self) -> None:
        attachment = self._attachment
        if attachment is None or attachment.history.first <= 1:
            return
        pod_id, first = attachment.pod_id, attachment.history.first

        def came(page: Sequence[Mapping[str, Any]]) -> None:
            if self._attachment is attachment and attachment.history.first == first:
                attachment.history.prepend(page)
                self._scene.view.show(attachment.history.blocks())

        self._asking.ask(lambda: self._desk.older(pod_id, first), came, alone="older")

    def _show(self, pod_id: str, words: str | None = None) -> None:
        """Attach to this Pod instead."""

        def came(opened: Opened) -> None:
            self._enter(opened)
            self.say(words) if words else self._draw()

        self._asking.ask(lambda: self._desk.open(pod_id), came, alone="open")

    def _control(self, action: str) -> None:
        attachment = self._attachment
        if attachment is None:
            return

        def came(reply: Mapping[str, Any]) -> None:
            if not reply.get("changed", True):
                self.say(str(reply.get("detail") or f"nothing to {action}"))
            for prompt in reversed(reply.get("withdrawn") or ()):
                self._scene.box.restore(
                    Draft("\n".join(str(s.get("text") or "") for s in prompt.get("segments") or ()))
                )

        pod_id = attachment.pod_id
        self._asking.ask(lambda: self._desk.control(pod_id, action), came)

    def action_pause(self) -> None:
        status = "" if self._attachment is None else self._attachment.history.status
        owned = self._attachment is not None and self._attachment.pod.get("owner") is not None
        self._control("pause" if status == "running" and owned else "resume")

    def action_escape(self) -> None:
        """Esc unmarks a choice; twice it cancels."""
        now = time.monotonic()
        if self._scene.marked is not None:
            self._scene.marked = None
            self._scene.draw_question()
        elif self.focused is not self._scene.box:
            self._scene.box.focus()
        elif self._attachment is None or self._attachment.history.status in ("idle", "ended", ""):
            return
        elif now - self._escaped < AGAIN_SECONDS:
            self._escaped = 0.0
            self.say("cancelling")
            self._control("cancel")
        else:
            self._escaped = now
            self.say("esc again cancels the run and those below it")

    def action_pods(self) -> None:
        self._scene.toggle_pods()

    def action_beside(self, step: int) -> None:
        current = None if self._attachment is None else self._attachment.pod_id
        beside = self._scene.pods.beside(current, step)
        if beside is not None and beside != current:
            self._show(beside)

    def action_new_pod(self) -> None:
        if self._attachment is not None:
            self._attachment.close()
        self._attachment = None
        self._scene.view.show(())
        self._scene.box.focus()
        self._look_around()
        self.say("write the task of a new Pod; ctrl+t goes back to the others")

    def action_details(self) -> None:
        shown = self._scene.view.toggle_details()
        self.say("details show; ctrl+o folds them" if shown else "details are folded")

    def action_tasks(self) -> None:
        self._scene.tasks_shown = not self._scene.tasks_shown
        self._draw()

    def action_page(self, step: int) -> None:
        (self._scene.view.scroll_page_up if step < 0 else self._scene.view.scroll_page_down)(animate=False)

    def action_top(self) -> None:
        self._scene.view.scroll_home(animate=False)

    def action_end(self) -> None:
        self._scene.view.to_end()

    def action_keys(self) -> None:
        self.push_screen(Sheet("Keys", Text(KEYS)))

    def action_alerts(self) -> None:
        notes = [] if self._attachment is None else list(self._attachment.history.alerts.values())
        words = "\n".join(f"{note.level}: {note.message}" for note in notes) or "no alerts"
        self.push_screen(Sheet("Alerts", Text(words)))


def _nothing(reply: object) -> None:
    """What comes of the call comes by the stream."""
