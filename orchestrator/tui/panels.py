"""The parts around the transcript."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from orchestrator.tui.words import tree_rows


class Lines(Static):
    """Lines that are there only while there is something to say."""

    DEFAULT_CSS = """
    Lines { height: auto; padding: 0 1; display: none; }
    """

    def __init__(self, name: str, *, always: bool = False) -> None:
        super().__init__("", id=name, markup=False)
        self._always = always
        self._said: Text | None = None

    @property
    def room(self) -> int:
        """Cells of a row."""
        width = self.app.size.width if self.parent is None else self.parent.size.width  # type: ignore[attr-defined]
        return max(int(width) - 3, 10)

    def say(self, text: Text | None) -> None:
        if text == self._said and self._said is not None:
            return
        self._said = text
        self.display = self._always or text is not None
        self.update(text if text is not None else "")


class PodTree(OptionList):
    """The Pods; the one that is shown is marked."""

    DEFAULT_CSS = """
    PodTree { width: 32; height: 1fr; border: none; border-right: solid $primary 40%; padding: 0; display: none;
        background: $background; }
    PodTree:focus { border: none; border-right: solid $primary; }
    """

    @dataclass
    class Chosen(Message):
        pod_id: str

    def __init__(self) -> None:
        super().__init__(id="pods", markup=False)
        self._shown: list[tuple[str, Text]] = []
        self._pods: Sequence[Mapping[str, Any]] = ()

    def show(self, pods: Sequence[Mapping[str, Any]], current: str | None) -> None:
        """Draw the Pods anew when something has changed; what is highlighted stays."""
        self._pods = pods
        rows = tree_rows(pods, current, 30)
        if rows == self._shown:
            return  # so what a person has highlighted stays
        at = self.highlighted if self.has_focus else None
        marked = self._shown[at][0] if at is not None and at < len(self._shown) else current
        self._shown = rows
        self.clear_options()
        self.add_options([Option(line, id=pod_id) for pod_id, line in rows])
        ids = [pod_id for pod_id, _ in rows]
        self.highlighted = ids.index(marked) if marked in ids else None

    def beside(self, current: str | None, step: int) -> str | None:
        """The Pod `step` rows from the current one."""
        ids = [pod_id for pod_id, _ in self._shown]
        if not ids:
            return None
        return ids[(ids.index(current) + step) % len(ids)] if current in ids else ids[0]

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option.id is not None:
            self.post_message(self.Chosen(event.option.id))


class Sheet(ModalScreen[None]):
    """A page to read; any of the keys to close it does."""

    DEFAULT_CSS = """
    Sheet { align: center middle; }
    Sheet VerticalScroll { width: 90%; max-width: 100; height: auto; max-height: 80%; border: round $primary;
        padding: 1 2; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q,f1,f2", "dismiss", show=False)]

    def __init__(self, title: str, text: Text) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        page = VerticalScroll(Static(self._text, markup=False))
        page.border_title = self._title
        page.border_subtitle = "esc closes"
        yield page
