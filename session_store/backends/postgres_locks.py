"""What a transaction of a PostgreSQL store locks, and in which order. Pure.

Several store actors may write one database. Every transaction takes what its requests name at its start and in one
order: the Directory's lock, the tree's lock, then rows of sessions by id. So transactions that wait for each other
wait in one direction only. What a request turns out to need beyond that is taken without waiting; when somebody else
has it, the transaction is rolled back and done again with it among the first (`Contended`).

The tree's lock is held by whoever makes a session or lets one take its place again: names, limits and scopes are looked
at over many rows. The Directory's is shared by those who open sessions, and taken alone by a new Directory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from session_store.requests import Annotate, Append, Create, Deliver, Fork, Import, Open, Release, Request


class Contended(Exception):
    """Another store actor holds, or has just changed, what this transaction came to need."""

    def __init__(self, session: str | None) -> None:
        super().__init__(session or "the tree")
        self.session = session


@dataclass(slots=True)
class Locks:
    """`sessions` by id; `tree` and `directory` as above."""

    sessions: set[str] = field(default_factory=set)
    tree: bool = False
    directory: bool = False

    def add(self, contended: Contended) -> None:
        """Have next time from the start what was missing."""
        if contended.session is None:
            self.tree = True
        else:
            self.sessions.add(contended.session)


def locks_for(requests: Iterable[Request[Any]]) -> Locks:
    """What the requests name."""
    found = Locks()
    for request in requests:
        match request:
            case Append():
                found.sessions.update((request.session, *(d.session for d in request.deliveries)))
            case Create():
                found.tree = True
                found.sessions.update(() if request.parent is None else (request.parent.session,))
            case Import():
                found.tree = True
                found.sessions.update(() if request.parent_id is None else (request.parent_id,))
            case Fork():
                found.tree = True
            case Open():
                found.directory = True
                found.sessions.add(request.session)
            case Deliver() | Release() | Annotate():
                found.sessions.add(request.session)
            case _:
                pass  # a new Directory has a transaction of its own
    return found
