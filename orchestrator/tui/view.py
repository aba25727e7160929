"""The transcript on the screen: only the rows in sight are drawn, and only blocks that changed are laid out again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from orchestrator.tui.blocks import Block
from orchestrator.tui.layout import Layout, Row, can_open
from orchestrator.tui.styles import STYLES


class TranscriptView(ScrollView, can_focus=True):
    """Follows the end while it stands there; elsewhere what is in sight stays in its place."""

    DEFAULT_CSS = """
    TranscriptView { height: 1fr; padding: 0 1; overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1;
        background: $background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "point(-1)", show=False),
        Binding("down", "point(1)", show=False),
        Binding("enter,space", "open_or_fold", show=False),
    ]

    class WantsOlder(Message):
        """The top is in sight, and there may be more above it."""

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self._blocks: Sequence[Block] = ()
        self._known: Sequence[str] = ()
        """Keys of the blocks that are laid out."""
        self._layout = Layout(80)
        self._opened: set[str] = set()
        self._ends: list[int] = []
        self._rows: list[tuple[Row, ...]] = []
        self._pointed: str | None = None
        self._following = True

    @property
    def allow_select(self) -> bool:
        return True

    @property
    def following(self) -> bool:
        """Whether the end is in sight and stays there."""
        return self._following

    @property
    def text_rows(self) -> list[str]:
        """Every row as plain text."""
        return ["".join(text for text, _ in row) for rows in self._rows for row in rows]

    def show(self, blocks: Sequence[Block]) -> None:
        """Show these blocks."""
        self._blocks = blocks
        self._lay_out()

    def toggle_details(self) -> bool:
        """Minor blocks too, and every block opened; or back. Whether they show now."""
        self._layout = Layout(self._layout.width, not self._layout.details)
        self._opened = {b.key for b in self._blocks if can_open(b)} if self._layout.details else set()
        self._lay_out()
        return self._layout.details

    def to_end(self) -> None:
        self._following = True
        self.scroll_end(animate=False, immediate=True)

    def on_resize(self, event: events.Resize) -> None:
        width = max(self.scrollable_content_region.width, 10)
        if width != self._layout.width:
            self._layout = Layout(width, self._layout.details)
            self._lay_out()
        elif self._following:
            self.call_after_refresh(self.to_end)

    def on_click(self, event: events.Click) -> None:
        place = self._place_of(self.scroll_offset.y + event.get_content_offset_capture(self).y)
        if place is not None and can_open(self._blocks[place[0]]) and place[1] <= self._head(place[0]):
            self._toggle(self._blocks[place[0]].key)

    def action_open_or_fold(self) -> None:
        if self._pointed is not None:
            self._toggle(self._pointed)

    def action_point(self, step: int) -> None:
        """Go to the next block that can be opened; without one just scroll."""
        keys = [b.key for b, rows in zip(self._blocks, self._rows, strict=True) if rows and can_open(b)]
        if not keys:
            self.scroll_relative(y=step, animate=False, immediate=True)
            return
        last = len(keys) - 1
        at = keys.index(self._pointed) + step if self._pointed in keys else last
        self._pointed = keys[min(max(at, 0), last)]
        self._bring_in_sight(self._pointed)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._following = new_value >= self.max_scroll_y - 0.5
        if new_value <= 0 < self.max_scroll_y and old_value > 0:
            self.post_message(self.WantsOlder())

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        at = self.scroll_offset.y + y
        place = self._place_of(at)
        if place is None:
            return Strip.blank(width, self.rich_style)
        block, row = self._blocks[place[0]], self._rows[place[0]][place[1]]
        style = self.rich_style
        pointed = self.has_focus and block.key == self._pointed and place[1] == self._head(place[0])
        segments = [
            Segment(text, style + STYLES[name] + (_POINTED if pointed else STYLES["plain"])) for text, name in row
        ]
        strip = self._selected(Strip(segments), at)
        return strip.crop_extend(0, width, style).apply_offsets(0, at)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return selection.extract("\n".join(self.text_rows)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def _selected(self, strip: Strip, at: int) -> Strip:
        selection = self.text_selection
        span = None if selection is None else selection.get_span(at)
        if span is None:
            return strip
        text = strip.text
        start, end = span[0], len(text) if span[1] == -1 else span[1]
        mark = self.screen.get_component_rich_style("screen--selection")
        cuts = [Strip([Segment(text[:start])]).cell_length, Strip([Segment(text[:end])]).cell_length]
        before, marked, after = strip.divide([*cuts, strip.cell_length]) if text else (strip, Strip([]), Strip([]))
        return Strip.join([before, marked.apply_style(mark), after])

    def _toggle(self, key: str) -> None:
        self._opened ^= {key}
        self._pointed = key
        self._lay_out(keep_following=False)
        self._bring_in_sight(key)

    def _place_of(self, at: int) -> tuple[int, int] | None:
        """Block and row of it at a row of the whole."""
        if at < 0 or not self._ends or at >= self._ends[-1]:
            return None
        index = bisect_right(self._ends, at)
        return index, at - (self._ends[index] - len(self._rows[index]))

    def _head(self, index: int) -> int:
        """The first row of a block that is not the empty one that sets it off."""
        return 0 if self._rows[index][0] else 1

    def _top(self) -> tuple[str, int] | None:
        """What stands at the top of the sight: a block's key and a row of it."""
        place = self._place_of(self.scroll_offset.y)
        return None if place is None else (self._known[place[0]], place[1])

    def _lay_out(self, keep_following: bool = True) -> None:
        top, following = self._top(), self._following and keep_following
        self._known = [b.key for b in self._blocks]
        self._rows = [self._layout.rows(b, b.key in self._opened) for b in self._blocks]
        self._ends = list(accumulate(len(rows) for rows in self._rows))
        self._layout.keep_only(self._known)
        height = self._ends[-1] if self._ends else 0
        self.virtual_size = Size(self._layout.width, height)
        if following:
            self.to_end()
        elif top is not None and top[0] in self._known:
            index = self._known.index(top[0])
            y = self._ends[index] - len(self._rows[index]) + min(top[1], max(len(self._rows[index]) - 1, 0))
            self.scroll_to(y=y, animate=False, immediate=True)
        self.refresh()

    def _bring_in_sight(self, key: str) -> None:
        """The first row of a block at any rate, and as many others as have room."""
        index = self._known.index(key)
        last = self._ends[index]
        first = last - len(self._rows[index])
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if not (top <= first and last <= top + height):
            self.scroll_to(y=first if first < top else min(first, last - height), animate=False, immediate=True)


_POINTED = STYLES["bold"] + STYLES["ask"]
