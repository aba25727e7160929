"""One owner per database: who serves the Pods of a store holds a lock in it for as long as it lives.

What `home.lock` is on one machine: two homes may name the same database, and the Directory of the second would shut the
first's out. The lock belongs to a connection; the server gives it free when that ends, with the process or with the
machine (`tcp_keepalives`, some 11 s).
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time

import psycopg

from session_store.backends.postgres_link import Address, Connection, address_of, connect, failure
from session_store.backends.postgres_schema import ADVISORY, OWNER_LOCK
from session_store.errors import StoreUnavailable

WAIT_SECONDS = 3.0
"""For an owner that has just ended."""
LOOK_SECONDS = 5.0
_HOLDER = (
    "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'advisory'"
    " AND l.classid = %s AND l.objid = %s AND l.granted AND l.database = (SELECT oid FROM pg_database"
    " WHERE datname = current_database()) LIMIT 1"
)

log = logging.getLogger(__name__)


class DatabaseOwned(StoreUnavailable):
    """Another process serves the Pods of this database."""


class DatabaseOwnership:
    """Held from the constructor to `close`. When the connection is lost it is taken again."""

    def __init__(self, url: str, wait: float = WAIT_SECONDS) -> None:
        """Raises `DatabaseOwned`, `StoreUnavailable`."""
        address = address_of(url)
        if address is None:
            raise StoreUnavailable("the store's address is no PostgreSQL URL")
        self._address: Address = address
        self._closed = threading.Event()
        try:
            self._db: Connection | None = self._taken(wait)
        except psycopg.Error as error:
            raise failure(error, address, "", reading=True) from None
        threading.Thread(target=self._keep, name="store-ownership", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        if self._db is not None:
            self._db.close()

    def _taken(self, wait: float) -> Connection:
        until = time.monotonic() + wait
        db = connect(self._address)
        try:
            db.execute("SELECT set_config('application_name', %s, false)", (_name(),))
            while db.execute("SELECT pg_try_advisory_lock(%s, %s)", (ADVISORY, OWNER_LOCK)).fetchone() != (True,):
                if time.monotonic() > until:
                    row = db.execute(_HOLDER, (ADVISORY, OWNER_LOCK)).fetchone()
                    who = row[0] if row is not None else "another process"
                    raise DatabaseOwned(
                        f"the store at {self._address.shown} is owned by {who}: use the gateway of that one, end it"
                        " first, or name another database in [store] url"
                    )
                time.sleep(0.1)
        except BaseException:
            db.close()
            raise
        return db

    def _keep(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            try:
                if self._db is None:
                    self._db = self._taken(0.0)
                self._db.execute("SELECT 1")
            except (psycopg.Error, DatabaseOwned) as error:
                if self._closed.is_set():
                    return
                log.warning("the store's ownership is lost for now: %s", self._address.clean(str(error)).strip())
                if self._db is not None:
                    self._db.close()
                self._db = None


def _name() -> str:
    """At most 63 bytes, which is what the server keeps."""
    return f"polypod owner {os.getpid()} on {socket.gethostname()}"[:60]
