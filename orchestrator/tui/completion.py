"""The list over the box that completes `@path`, `#slug` and `/slug` while they are typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from orchestrator.cli.cells import one_line
from orchestrator.sigils import Typing, written
from orchestrator.tui.styles import STYLES

Found = Sequence[Mapping[str, Any]]
"""Completions as the gateway tells them: `{text, target, kind, description?}`."""


class CompletionList(OptionList, can_focus=False):
    """Shown while there is something to take. The box keeps the focus and hands it the keys."""

    DEFAULT_CSS = """
    CompletionList { height: auto; max-height: 8; border: none; padding: 0 1; display: none; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__(id="completions", markup=False)
        self._typing: Typing | None = None
        self._found: Found = ()
        self._refused: int | None = None
        """The place of a reference for which the list was closed."""

    def wants(self, typing: Typing | None) -> bool:
        """What is being typed now; whether to ask for completions of it."""
        if typing is None:
            self._refused = None
        if typing is None or typing.start == self._refused:
            self._close()
            return False
        self._typing = typing
        return True

    def show(self, typing: Typing, found: Found) -> None:
        """What may be meant, unless something else is typed by now."""
        if typing != self._typing:
            return
        whole = typing.sigil + typing.prefix
        found = [one for one in found if isinstance(one.get("target"), str)]
        if not found or [written(typing.sigil, one["target"]) for one in found] == [whole]:
            self._close()
            return
        self._found = found
        self.clear_options()
        self.add_options([Option(_line(typing, one, max(self.app.size.width - 4, 10))) for one in found])
        self.highlighted = 0
        self.display = True

    def move(self, step: int) -> None:
        if self._found:
            self.highlighted = ((self.highlighted or 0) + step) % len(self._found)

    def taken(self) -> tuple[int, str] | None:
        """Where the reference begins, and the text that takes its place; the list closes."""
        typing, at = self._typing, self.highlighted
        if typing is None or at is None or at >= len(self._found):
            return None
        one = self._found[at]
        text = written(typing.sigil, one["target"])
        self._close()
        # A folder goes on being typed.
        return typing.start, text if one.get("kind") == "folder" else f"{text} "

    def refuse(self) -> None:
        """Close it, and leave it closed for the reference that is being typed."""
        if self._typing is not None:
            self._refused = self._typing.start
        self._close()

    def _close(self) -> None:
        self._typing, self._found = None, ()
        self.display = False


def _line(typing: Typing, one: Mapping[str, Any], width: int) -> Text:
    name = one_line(written(typing.sigil, one["target"]), width)
    line = Text(name, style=STYLES["bold"])
    room = width - line.cell_len - 2
    if one.get("description") and room > 8:
        line.append("  " + one_line(str(one["description"]), room), STYLES["dim"])
    return line
