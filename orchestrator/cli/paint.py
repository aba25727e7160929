"""Colours and the width of the screen, and output that survives a closed pipe."""

from __future__ import annotations

import codecs
import json
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO

from orchestrator.gateway.sse import json_text

Style = Literal["plain", "dim", "bold", "red", "green", "yellow", "blue", "cyan"]
_CODES: dict[Style, str] = {
    "plain": "",
    "dim": "2",
    "bold": "1",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}
STATUS_STYLES: Mapping[str, Style] = {
    "running": "green",
    "waiting_on_user": "yellow",
    "waiting_on_children": "cyan",
    "paused": "yellow",
    "errored": "red",
    "ended": "dim",
}
WIDE = 4000
"""Width for output that is not a terminal: long lines are for the reader there to cut."""


class Screen:
    """Where a command prints. Colours only on a terminal that takes them (`NO_COLOR`, `TERM=dumb`)."""

    def __init__(self, out: TextIO, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self.out = out
        self.terminal = out.isatty()
        self.colours = self.terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        self.width = shutil.get_terminal_size((100, 24)).columns if self.terminal else WIDE

    def paint(self, text: str, style: Style) -> str:
        code = _CODES[style]
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours and code and text else text

    def line(self, text: str = "", style: Style = "plain") -> None:
        self.out.write(self.paint(text, style) + "\n")

    def write(self, text: str) -> None:
        self.out.write(text)

    def json(self, value: Any) -> None:
        """One line of JSON, whole in any encoding."""
        utf8 = codecs.lookup(self.out.encoding or "utf-8").name.startswith("utf")
        self.out.write((json_text(value) if utf8 else json.dumps(value, separators=(",", ":"))) + "\n")

    def flush(self) -> None:
        self.out.flush()


def screen() -> Screen:
    """The screen of this process. Characters that the terminal's encoding lacks are replaced, not fatal."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    return Screen(sys.stdout)
