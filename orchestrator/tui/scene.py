"""Where everything stands on the screen, and what it shows of one moment."""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen

from orchestrator.tui.attachment import Attachment
from orchestrator.tui.completion import CompletionList
from orchestrator.tui.composing import choice_number
from orchestrator.tui.desk import Look
from orchestrator.tui.panels import Lines, PodTree
from orchestrator.tui.prompt_box import PromptBox
from orchestrator.tui.view import TranscriptView
from orchestrator.tui.words import Standing, alert_line, head_line, hint_line, placeholder, question_lines, task_lines

WIDE = 100
"""Columns from which the Pods stand at the side by themselves, when there are several."""


class Scene(Screen[None]):
    """`marked` is the choice that is marked in the form of an open question."""

    DEFAULT_CSS = """
    Scene { layout: vertical; }
    #head, #hint { height: 1; }
    #head { background: $surface; }
    #alerts { background: $surface; }
    #question { border-left: outer $warning; background: $surface; max-height: 20; }
    #tasks { background: $surface; max-height: 10; }
    #body { height: 1fr; }
    #main { width: 1fr; height: 1fr; }
    """
    AUTO_FOCUS = "#prompt"

    def __init__(self, workspace: str) -> None:
        super().__init__()
        self.workspace = workspace
        self.head = Lines("head", always=True)
        self.pods = PodTree()
        self.view = TranscriptView()
        self.tasks = Lines("tasks")
        self.alerts = Lines("alerts")
        self.form = Lines("question")
        self.completions = CompletionList()
        self.box = PromptBox(self.completions)
        self.hint = Lines("hint", always=True)
        self.marked: int | None = None
        self.tasks_shown = True
        self._attached: Attachment | None = None
        self._seen = Look(())
        self._said: str | None = None
        self._asked: str | None = None
        self._side: bool | None = None

    def compose(self) -> ComposeResult:
        yield self.head
        with Horizontal(id="body"):
            yield self.pods
            with Vertical(id="main"):
                yield self.view
                yield self.tasks
        yield self.alerts
        yield self.form
        yield self.completions
        yield self.box
        yield self.hint

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(lambda: self.draw(self._attached, self._seen, self._said))

    def draw(self, attachment: Attachment | None, look: Look, note: str | None) -> None:
        """Everything but the transcript. `note` is a word of this client."""
        self._attached, self._seen, self._said = attachment, look, note
        history = None if attachment is None else attachment.history
        status, question = ("", None) if history is None else (history.status, history.question)
        self.head.say(head_line(self._standing(), self.head.room))
        self.hint.say(hint_line(status, question, self.hint.room))
        note = note or (None if attachment is None else attachment.away) or self._asked_elsewhere()
        notes = [] if history is None else list(history.alerts.values())
        self.alerts.say(alert_line(notes, note, self.alerts.room))
        self.box.placeholder = placeholder(None if attachment is None else attachment.pod, question, self.workspace)
        self.tasks.say(task_lines(look.tasks or (), self.tasks.room) if self.tasks_shown else None)
        self.draw_question()
        self._draw_side()

    def draw_question(self) -> None:
        """The form, with the choice that the arrows or a number in the box mark."""
        question = None if self._attached is None else self._attached.history.question
        ident = None if question is None else question.question_id
        if ident != self._asked:
            self._asked, self.marked = ident, None
        self.box.choosing = question is not None and bool(question.choices)
        if question is None:
            self.form.say(None)
            return
        number = choice_number(self.box.text, len(question.choices))
        self.form.say(question_lines(question, self.marked if number is None else number, self.form.room))

    def toggle_pods(self) -> None:
        """To the Pods at the side; from there back, without them."""
        self._side = not (self.pods.display and self.pods.has_focus)
        self._draw_side()
        if self._side:
            self.pods.focus()
        else:
            self.box.focus()

    @on(PromptBox.Moved)
    def _moved(self, event: PromptBox.Moved) -> None:
        question = None if self._attached is None else self._attached.history.question
        if question is None or not question.choices:
            return
        number = choice_number(self.box.text, len(question.choices))
        at = self.marked if number is None else number
        if number is not None:
            self.box.put("")
        last = len(question.choices) - 1
        self.marked = (0 if event.step > 0 else last) if at is None else min(max(at + event.step, 0), last)
        self.draw_question()

    def _standing(self) -> Standing:
        if self._attached is None:
            return Standing(None, "")
        history = self._attached.history
        pod, away = self._attached.pod, self._attached.away
        return Standing(pod, history.status, history.model, history.prices, away)

    def _draw_side(self) -> None:
        self.pods.show(self._seen.pods, None if self._attached is None else self._attached.pod_id)
        several = len(self._seen.pods) > 1 and self.size.width >= WIDE
        self.pods.display = several if self._side is None else self._side

    def _asked_elsewhere(self) -> str | None:
        """Another Pod of the tree that waits for a person."""
        here = None if self._attached is None else self._attached.pod_id
        for pod in self._seen.pods:
            if pod["id"] != here and pod.get("question"):
                return f"{pod.get('name')} asks: {pod['question'].get('question')} (ctrl+t shows it)"
        return None
