"""Blocking work in a thread that a cancel can end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

GIVE_UP = 2.0
"""Seconds a cancelled call waits for its thread to notice."""


class Stopped(Exception):
    """Raised by work that was told to stop."""


class StopSign:
    """Tells work in a thread that nobody waits for it any more."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def check(self) -> None:
        """Raises `Stopped` once the sign is set. Call it between blocks of work, and before any effect."""
        if self._event.is_set():
            raise Stopped


async def in_thread(work: Callable[[StopSign], T]) -> T:
    """Run `work` off the loop. A cancel sets the sign and waits (bounded) until the work has noticed or is done, so
    that no effect comes after the call was answered."""
    sign = StopSign()
    running = asyncio.get_running_loop().run_in_executor(None, work, sign)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        sign.set()
        await asyncio.wait({running}, timeout=GIVE_UP)
        if running.done() and not running.cancelled():
            running.exception()  # looked at: nobody else will
        raise
