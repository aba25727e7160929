"""Commits of other store actors on the same database, for this one's followers: told by NOTIFY, found by polling.

A notice is sent after its commit, in the same trip; one that is lost (its sender died in between, a listener was cut
off) is found by the next poll. A poll asks which rows were written by others since the last: by transaction number,
from the oldest that was open then, so that one which commits late is not missed.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable
from contextlib import suppress

import psycopg

from session_store.backends.postgres_link import Address, Connection, connect
from session_store.backends.postgres_rows import fetch
from session_store.notices import Notices
from session_store.requests import Commit

CHANNEL = "polypod_commits"
POLL_SECONDS = 2.0
READY_SECONDS = 3.0
"""How long the first follower waits until commits of others are listened for."""
FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0
MOST_IN_ONE_NOTICE = 80
"""Commits; PostgreSQL takes less than 8,000 bytes in one."""

log = logging.getLogger(__name__)


def notices(writer: int, commits: Iterable[Commit]) -> list[str]:
    """Payloads of NOTIFY."""
    told = [(c.session, c.head) for c in commits]
    return [
        json.dumps([writer, told[first : first + MOST_IN_ONE_NOTICE]], separators=(",", ":"))
        for first in range(0, len(told), MOST_IN_ONE_NOTICE)
    ]


class PostgresListener:
    """Publishes to `told` what store actors other than `writer` commit; from the first `start` until `close`."""

    def __init__(self, address: Address, writer: int, told: Notices, poll: float = POLL_SECONDS) -> None:
        self._address = address
        self._writer = writer
        self._told = told
        self._poll = poll
        self._since: str | None = None
        self._seen: dict[str, int] = {}
        self._guard = threading.Lock()
        self._listening = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen, if not yet; returns when commits from now on will be told, at the latest after some seconds."""
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="store-listener", daemon=True)
                self._thread.start()
        self._listening.wait(READY_SECONDS)

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        """Until closed: whatever happens to the connection, it is made again."""
        delay = FIRST_DELAY
        while not self._closed.is_set():
            try:
                with connect(self._address, reads_only=True) as db:
                    db.execute(f"LISTEN {CHANNEL}".encode())
                    self._look(db)  # what was committed while nobody listened
                    self._listening.set()
                    delay = FIRST_DELAY
                    self._listen(db)
            except psycopg.Error as error:
                text = self._address.clean(str(error)).strip()
                log.warning("the store cannot hear of others' commits for now: %s", text)
            self._closed.wait(delay)
            delay = min(2 * delay, LONGEST_DELAY)

    def _listen(self, db: Connection) -> None:
        next_look = time.monotonic() + self._poll
        while not self._closed.is_set():
            wait = max(0.01, min(0.5, next_look - time.monotonic()))
            for notice in db.notifies(timeout=wait, stop_after=1):
                self._heard(notice.payload)
            if time.monotonic() >= next_look:
                self._look(db)
                next_look = time.monotonic() + self._poll

    def _heard(self, payload: str) -> None:
        with suppress(ValueError, TypeError):  # anybody may send something on a channel: the poll finds the truth
            writer, told = json.loads(payload)
            if writer != self._writer:
                self._told.publish(Commit(str(session), int(head)) for session, head in told)

    def _look(self, db: Connection) -> None:
        """Tell of rows that others have written since the last look; the first one only notes from when on."""
        found = fetch(
            db,
            "SELECT pg_snapshot_xmin(pg_current_snapshot())::text, s.id, s.head, s.version"
            " FROM (SELECT 1) AS once LEFT JOIN sessions s ON s.changed >= %s::xid8 AND s.writer <> %s",
            (self._since or str((1 << 63) - 1), self._writer),
        )
        first, self._since = self._since is None, found[0][0]
        rows = [row[1:] for row in found if row[1] is not None]
        if not first:
            self._told.publish(Commit(s, head) for s, head, version in rows if self._seen.get(s) != version)
        self._seen = {session: version for session, _, version in rows}
