"""`serve`: own the home for as long as the process lives."""

from __future__ import annotations

import signal
import threading
from argparse import Namespace
from types import FrameType

from orchestrator.cli.embedding import settings_of
from orchestrator.cli.failure import FINISHED, CommandError
from orchestrator.cli.paint import screen
from orchestrator.cli.reaching import home_of


def serve(options: Namespace) -> int:
    home = home_of(options)
    home.create()
    settings = settings_of(home)
    ownership = home.own()
    if ownership is None:
        owner = home.owner()
        where = f"process {owner.pid}, at {owner.address}" if owner else f"process {home.owner_pid()}"
        raise CommandError(f"the home {home.path} is owned already ({where}): commands find it by themselves")
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt  # a second time: leave at once
        stopping.set()

    out = screen()
    try:
        from orchestrator.owner import OwnerPlan, OwnerProcess  # lazy: start-up, it brings Ray

        plan = OwnerPlan("serve", options.host, options.port, roots=None, ray_address=options.ray_address)
        running = OwnerProcess.start(ownership, settings, plan)
    except BaseException:
        ownership.close()
        raise
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        then = "Pods work on" if running.is_attached else "Pods go on at the next start"
        out.line(f"polypod serves {home.path} at {running.address}  (Ctrl-C ends it; {then})")
        out.flush()
        running.wait(stopping)
    finally:
        running.close()
    return FINISHED
