"""The output of a running process: live text, head and tail for the model, the whole in a file once it is large."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable

from actors.protocol.tools import ToolContext
from actors.tools.limits import ToolLimits
from actors.tools.spill import cut_note, kept_at, open_spill, spill_path
from actors.tools.text import decoder


class OutputKeeper:
    """Takes bytes as they come; holds at most `limits.result` characters of them, however much comes.

    `live` gets the text of the first `limits.live` characters. Once there are more characters than a result may hold,
    all bytes go to the call's spill file, up to `limits.spill` bytes.
    """

    def __init__(self, context: ToolContext, limits: ToolLimits) -> None:
        self._live: Callable[[str], None] = context.output
        self._limits = limits
        self._path = spill_path(context)
        self._decoder = decoder("utf-8")
        self._head: list[str] = []
        self._head_room = limits.result - limits.result // 2
        self._tail = Tail(limits.result // 2)
        self._held: list[bytes] = []  # all bytes so far, until there is a file for them
        self._lock = threading.Lock()  # a cancelled call closes the file while a thread may be writing
        self._closed = False
        self._file: int | None = None
        self._problem: str | None = None
        self._written = 0
        self._size = 0
        self._characters = 0

    async def take(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        self._size += len(data)
        self._show(text)
        self._characters += len(text)
        self._hold(text)
        if self._file is None and self._problem is None:
            self._held.append(data)
            if self._characters > self._limits.result:
                data, self._held = b"".join(self._held), []
                await asyncio.to_thread(self._save, data)
        elif self._problem is None:
            await asyncio.to_thread(self._save, data)

    def finish(self) -> str:
        """The text for the model. Call it once, after the last bytes."""
        last = self._decoder.decode(b"", True)
        self._characters += len(last)
        self._hold(last)
        self.close()
        head, tail = "".join(self._head), self._tail.text()
        dropped = self._characters - len(head) - len(tail)
        if not dropped:
            return head + tail
        where = f"It could not be kept whole: {self._problem}." if self._problem else kept_at(self._path)
        return head + cut_note(dropped, self._size, where) + tail

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _show(self, text: str) -> None:
        room = self._limits.live - self._characters
        if room <= 0 or not text:
            return
        self._live(text[:room])
        if len(text) > room:
            self._live("\n[… more output is not shown live]\n")

    def _hold(self, text: str) -> None:
        if self._head_room:
            first = text[: self._head_room]
            self._head.append(first)
            self._head_room -= len(first)
            text = text[len(first) :]
        self._tail.add(text)

    def _save(self, data: bytes) -> None:
        with self._lock:
            if self._closed:
                return
            try:
                if self._file is None:
                    self._file = open_spill(self._path)
                self._write(data)
            except OSError as error:
                self._problem = f"{error.strerror} after {self._written:,} bytes in {self._path}"

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        room = self._limits.spill - self._written
        view = memoryview(data)[:room]
        while view:
            count = os.write(self._file, view)
            self._written += count
            view = view[count:]
        if len(data) > room:
            self._problem = f"only its first {self._limits.spill:,} bytes are in {self._path}"


class Tail:
    """The last `limit` characters of a text that comes in pieces."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[str] = deque()
        self._length = 0

    def add(self, text: str) -> None:
        if not text:
            return
        self._pieces.append(text)
        self._length += len(text)
        while self._pieces and self._length - len(self._pieces[0]) >= self._limit:
            self._length -= len(self._pieces.popleft())

    def text(self) -> str:
        whole = "".join(self._pieces)
        return whole[max(0, len(whole) - self._limit) :]
