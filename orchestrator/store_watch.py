"""The owner's eye on the store actor (DESIGN §6): a silent one is killed, so that Ray's restart gets its lock."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from session_store.lock import Holder, holder_of, is_alive


class StoreWatch:
    """Ends a store actor that gives no answer for `limit` s.

    `ping` asks the store something small. Only the process that held the lock both before and after the silence is
    killed, and only if its start time is still that which it wrote: a restarting store is left alone.
    """

    def __init__(self, lock_file: Path, ping: Callable[[], Awaitable[object]], limit: float) -> None:
        self._lock_file = lock_file
        self._ping = ping
        self._limit = limit
        self.killed: list[Holder] = []

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._limit / 4)

    async def look(self) -> None:
        """Ask once; kill if there is no answer."""
        before = holder_of(self._lock_file)
        try:
            await asyncio.wait_for(self._ping(), self._limit)
        except TimeoutError:
            self._end(before)
        except Exception:
            return  # an error is an answer: the store, or what stands for it while it restarts, is there

    def _end(self, before: Holder | None) -> None:
        holder = holder_of(self._lock_file)
        if holder is None or holder != before or not is_alive(holder) or holder.pid == os.getpid():
            return
        os.kill(holder.pid, signal.SIGKILL)
        self.killed.append(holder)
