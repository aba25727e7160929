"""The box to write in. Every key that is typed goes into it; it gives focus away only when asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from orchestrator.tui.completion import CompletionList
from orchestrator.tui.composing import Earlier, Pastes

WhenBusy = Literal["queue", "steer", "interrupt"]


@dataclass(frozen=True, slots=True)
class Draft:
    """A prompt out of the box, with what its tokens stand for."""

    text: str
    pastes: Pastes = field(default_factory=Pastes)

    @property
    def segments(self) -> list[dict[str, str]]:
        return self.pastes.segments(self.text)


class PromptBox(TextArea):
    DEFAULT_CSS = """
    PromptBox { height: auto; min-height: 3; max-height: 12; border: round $primary 60%; padding: 0 1; }
    PromptBox:focus { border: round $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "send('steer')", show=False),
        Binding("ctrl+g", "send('interrupt')", show=False),
        Binding("ctrl+j,shift+enter", "new_line", show=False),
        Binding("ctrl+c,super+c", "copy_or_clear", show=False),
        Binding("ctrl+d", "delete_or_leave", show=False),
    ]

    @dataclass
    class Sent(Message):
        """Enter, or a key that sends. The draft is out of the box already: what is typed next is another prompt."""

        draft: Draft
        when_busy: WhenBusy

    @dataclass
    class Moved(Message):
        """Up (-1) or down (1) where the box has no row to go to; `consumed` by whoever needed it."""

        step: int

    class Leave(Message):
        """Ctrl+D in an empty box."""

    def __init__(self, completions: CompletionList) -> None:
        super().__init__(id="prompt", soft_wrap=True, show_line_numbers=False, tab_behavior="focus", compact=False)
        self.pastes = Pastes()
        self.earlier = Earlier()
        self.completions = completions
        self.choosing = False
        """A question with choices is open: up and down mark one of them instead of bringing earlier prompts."""

    def put(self, text: str) -> None:
        """Replace what is in the box, the cursor behind it."""
        self.text = text
        self.move_cursor(self.document.end)

    @property
    def before_cursor(self) -> str:
        return self.get_text_range((0, 0), self.cursor_location)

    def complete(self, start: int, text: str) -> None:
        """Put `text` in the place of what stands between index `start` and the cursor."""
        before = self.before_cursor[:start]
        place = (before.count("\n"), len(before) - before.rfind("\n") - 1)
        written = self.replace(text, place, self.cursor_location, maintain_selection_offset=False)
        self.move_cursor(written.end_location)

    def take(self) -> Draft:
        """What is in the box, which is empty then."""
        draft = Draft(self.text, self.pastes)
        if not draft.text:
            return draft
        self.earlier.add(self.pastes.expanded(self.text))
        self.pastes = Pastes()
        self.put("")
        return draft

    def restore(self, draft: Draft) -> None:
        """Give a prompt back, before what has been typed meanwhile."""
        if not self.text.strip():
            self.pastes = draft.pastes
            self.put(draft.text)
        else:
            self.put(f"{draft.pastes.expanded(draft.text)}\n{self.text}")

    async def _on_key(self, event: events.Key) -> None:
        if self.completions.display and self._completes(event.key):
            _take(event)
            return
        if event.key == "enter":
            _take(event)
            self.action_send("queue")
            return
        if event.key in ("up", "down") and self._walks(event.key):
            _take(event)
            return
        # Left to bubble, a key with an action would be carried out after the characters typed behind it.
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            _take(event)
            await self.app.run_action(binding.action, self)
            return

    # Textual calls these handlers of every class on the way up, so TextArea's own follow unless they are prevented.

    async def _on_paste(self, event: events.Paste) -> None:
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")  # terminals send returns
        _take(event)
        self._write(self.pastes.token(text) or text)

    def _write(self, text: str) -> None:
        """At the cursor, in the place of what is marked."""
        written = self.replace(text, *self.selection, maintain_selection_offset=False)
        self.move_cursor(written.end_location)

    def _completes(self, key: str) -> bool:
        """Whether the key is one for the list of completions. At once: the next key may follow before any message."""
        match key:
            case "up" | "down":
                self.completions.move(-1 if key == "up" else 1)
            case "escape":
                self.completions.refuse()
            case "tab" | "enter":
                taken = self.completions.taken()
                if taken is not None:
                    self.complete(*taken)
            case _:
                return False
        return True

    def _walks(self, key: str) -> bool:
        """Up at the first row and down at the last leave the text: to the choices, or to earlier prompts."""
        row = self.wrapped_document.location_to_offset(self.cursor_location).y
        if row != (0 if key == "up" else self.wrapped_document.height - 1):
            return False
        if self.choosing:
            self.post_message(self.Moved(-1 if key == "up" else 1))
            return True
        earlier = self.earlier.back(self.text) if key == "up" else self.earlier.forth()
        if earlier is not None:
            self.put(earlier)
        return earlier is not None

    def action_send(self, when_busy: WhenBusy) -> None:
        self.post_message(self.Sent(self.take(), when_busy))

    def action_new_line(self) -> None:
        self._write("\n")

    def action_copy_or_clear(self) -> None:
        """Copy what is marked; without a mark clear the box, whose text up brings back."""
        if self.selected_text:
            self.action_copy()
        elif self.text:
            self.earlier.add(self.text)
            self.put("")
        else:
            self.app.bell()

    def action_delete_or_leave(self) -> None:
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.Leave())

    def action_delete_left(self) -> None:
        row, column = self.cursor_location
        length = self.pastes.token_before(self.document.get_line(row)[:column])
        if length and not self.selected_text:
            self.delete((row, column - length), (row, column))
        else:
            super().action_delete_left()


def _take(event: events.Event) -> None:
    event.stop()
    event.prevent_default()
