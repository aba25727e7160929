"""A process that runs one command under the guard, as a Pod's actor does; for tests that kill or freeze it.

python -m tests.support.guarded_actor LEASE FEED FOLDER COMMAND   (FEED: `yes` feeds from a thread, `no` does not)
"""

import asyncio
import sys
import threading
import time
from pathlib import Path

from actors.tools.guard import GuardPool, Order


async def show(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def main(lease: str, feed: str, folder: str, command: str) -> None:
    pool = GuardPool(float(lease))

    def heartbeat() -> None:
        while True:
            pool.feed_all()
            time.sleep(0.05)

    if feed == "yes":
        threading.Thread(target=heartbeat, daemon=True).start()
    ended = asyncio.run(pool.run(Order(("/bin/bash", "-c", command), Path(folder), 600.0), show))
    print(ended.how, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
