"""Server-sent events from bytes or lines, as the standard reads them. Pure.

One parser for all clients of ours; whoever has bytes feeds them as they come, cut anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from orchestrator.events import Wire

PLACE = ""
"""The name of what has an id but no data: it moves the cursor and is no event."""
LONGEST = 64 << 20
"""Bytes of one line."""


class EventTooLong(Exception):
    """A line that no polypod sends: whatever is at the other end is not one."""


class EventLines:
    """One connection's parser. Comments, and fields that it does not know, are left out."""

    def __init__(self) -> None:
        self._name = "message"
        self._id: str | None = None
        self._data: list[str] = []
        self._rest = bytearray()
        self._searched = 0

    def feed(self, chunk: bytes) -> Iterator[Wire]:
        """The events that are whole with these bytes. Raises `EventTooLong`."""
        self._rest += chunk
        start = 0
        while (end := self._rest.find(b"\n", max(start, self._searched))) >= 0:
            line = self._rest[start:end].decode("utf-8", "replace").removesuffix("\r")
            start = end + 1
            if (wire := self.line(line)) is not None:
                yield wire
        del self._rest[:start]
        self._searched = len(self._rest)
        if len(self._rest) > LONGEST:
            raise EventTooLong(f"a line of more than {LONGEST} bytes")

    def line(self, line: str) -> Wire | None:
        """The event that this line (without its end) completes."""
        if not line:
            return self._complete()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "id":
                self._id = value
            case _:
                pass  # a comment (keep-alive), or a field of a newer server
        return None

    def _complete(self) -> Wire | None:
        name, ident, data = self._name, self._id, self._data
        self._name, self._id, self._data = "message", None, []
        if data:
            return Wire(name, ident, _parsed("\n".join(data)))
        return None if ident is None else Wire(PLACE, ident, None)


def _parsed(text: str) -> object:
    """What is no JSON stays text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
