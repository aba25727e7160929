"""The owner's eye on the store actor and the Directory (DESIGN §6): a silent one is killed, so that Ray restarts it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

from session_store.lock import Holder, is_alive


class ProcessWatch:
    """Ends an actor that gives no answer for `limit` s.

    `ping` asks it something small; `holder` says which process it is. Only the process that it was both before and
    after the silence is killed, and only if its start time is still the same: a restarting one is left alone.
    """

    def __init__(
        self, holder: Callable[[], Holder | None], ping: Callable[[], Awaitable[object]], limit: float
    ) -> None:
        self._holder = holder
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
        before = self._holder()
        try:
            await asyncio.wait_for(self._ping(), self._limit)
        except TimeoutError:
            self._end(before)
        except Exception:
            return  # an error is an answer: the actor, or what stands for it while it restarts, is there

    def _end(self, before: Holder | None) -> None:
        holder = self._holder()
        if holder is None or holder != before or not is_alive(holder) or holder.pid == os.getpid():
            return
        os.kill(holder.pid, signal.SIGKILL)
        self.killed.append(holder)
