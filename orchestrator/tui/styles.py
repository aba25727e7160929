"""What the names of styles look like."""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style

STYLES: Mapping[str, Style] = {
    "plain": Style(),
    "text": Style(),
    "dim": Style(color="#8a8f98"),
    "bold": Style(bold=True),
    "left": Style(color="#6b7078", strike=True),
    "user": Style(bold=True, color="#7fc8ff"),
    "call": Style(color="#c3b1ff"),
    "running": Style(color="#e5c07b", italic=True),
    "note": Style(color="#5fd7d7"),
    "ask": Style(bold=True, color="#e5c07b"),
    "red": Style(color="#ff7b72"),
    "green": Style(color="#7ee787"),
    "yellow": Style(color="#e5c07b"),
    "blue": Style(color="#7fc8ff"),
    "cyan": Style(color="#5fd7d7"),
}

STATUS_COLOURS: Mapping[str, str] = {
    "running": "#7ee787",
    "waiting_on_user": "#e5c07b",
    "waiting_on_children": "#5fd7d7",
    "paused": "#e5c07b",
    "errored": "#ff7b72",
    "ended": "#8a8f98",
}
