"""Server-sent events, sans-IO: bytes in, in any chunking; whole events out."""

from __future__ import annotations

from dataclasses import dataclass

MAX_LINE = 4 << 20
MAX_EVENT = 8 << 20
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event: its name (`message` if the stream gave none) and its data lines joined by newlines."""

    name: str
    data: str


class StreamTooLarge(Exception):
    """A line or an event is larger than allowed; the decoder is of no further use."""


class SseDecoder:
    """Feed it chunks; it gives the events that became complete. Memory is bounded by `max_line + max_event` bytes.

    Lines end in LF, CR or CRLF. Comments, `id`, `retry` and unknown fields are skipped. Bytes that are not UTF-8 become
    U+FFFD; a character split over chunks is not split, since only whole lines are decoded.
    """

    def __init__(self, max_line: int = MAX_LINE, max_event: int = MAX_EVENT) -> None:
        self._max_line = max_line
        self._max_event = max_event
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._after_cr = False
        self._first = True
        self._name = ""
        self._data: list[str] = []
        self._data_size = 0

    def feed(self, chunk: bytes) -> list[SseEvent]:
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if b"\n" not in chunk and b"\r" not in chunk:
            self._keep(chunk)
            return []
        lines = (b"".join(self._tail) + chunk).splitlines(keepends=True)
        self._tail.clear()
        self._tail_size = 0
        self._after_cr = lines[-1].endswith(b"\r")
        if not lines[-1].endswith((b"\n", b"\r")):
            self._keep(lines.pop())
        return [event for line in lines if (event := self._line(line.rstrip(b"\r\n"))) is not None]

    def end(self) -> list[SseEvent]:
        """The stream is over: the last event, if the final empty line (or line end) is missing. It may be cut short."""
        rest = b"".join(self._tail)
        self._tail.clear()
        self._tail_size = 0
        if rest:
            self._line(rest)
        event = self._line(b"")
        return [event] if event is not None else []

    def _keep(self, part: bytes) -> None:
        if part:
            self._tail.append(part)
            self._tail_size += len(part)
            if self._tail_size > self._max_line:
                raise StreamTooLarge(f"a line of the stream is longer than {self._max_line} bytes")

    def _line(self, line: bytes) -> SseEvent | None:
        if len(line) > self._max_line:
            raise StreamTooLarge(f"a line of the stream is longer than {self._max_line} bytes")
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data_size += len(value) + 1
            if self._data_size > self._max_event:
                raise StreamTooLarge(f"an event of the stream is larger than {self._max_event} bytes")
            self._data.append(value.decode("utf-8", "replace"))
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        return None

    def _dispatch(self) -> SseEvent | None:
        event = SseEvent(self._name or "message", "\n".join(self._data)) if self._data else None
        self._name = ""
        self._data = []
        self._data_size = 0
        return event
