"""Orders are honoured from the moment a Pod sees them, and reach everyone below: checked at every commit."""

from __future__ import annotations

from collections.abc import Iterable

from actors.pod.state import PodState
from session_store.entries import Invoke, RunEnd
from session_store.messages import Message
from session_store.requests import Append, Pending
from session_store.rows import PodRow
from session_store.status import StatusFold
from tests.simulation.world import LawBroken, World

_REST = ("idle", "errored")


def check_free(state: PodState, kinds: tuple[str, ...]) -> None:
    """No request and no tool starts against an order that the Pod has seen (T02)."""
    against = [m for m in state.inbox.values() if m.kind in kinds and _aimed(m, state.fold)]
    resumed = max((m.position for m in state.inbox.values() if m.kind == "resume"), default=0)
    against = [m for m in against if not (m.kind == "pause" and m.position < resumed)]
    if against:
        raise LawBroken(f"work starts against {[m.kind for m in against]}")


class Watch:
    """Looks at each append before and after it takes place."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._before = 0
        self._inbox: tuple[Message, ...] = ()
        self._done: set[tuple[str, str]] = set()

    def before(self, request: Append) -> None:
        self._before = len(self.world.references[request.session].entries)
        self._inbox = self._pending(request.session)

    def after(self, request: Append) -> None:
        reference = self.world.references[request.session]
        new = reference.entries[self._before :]
        if (request.session, request.batch_id) in self._done:
            return  # sent again: it took place before
        self._done.add((request.session, request.batch_id))
        seen = [m for m in self._inbox if m.position <= request.inbox_cursor]
        for entry in new:
            if isinstance(entry, RunEnd) and entry.outcome not in ("cancelled", "withdrawn", "stopped"):
                ignored = [
                    m for m in seen if m.kind in ("cancel", "stop") and m.body.get("run_id") in (None, entry.run_id)
                ]
                if ignored:
                    raise LawBroken(f"{request.session[-4:]} ends a run {entry.outcome} against {ignored[0].kind}")
            if isinstance(entry, Invoke) and (against := [m.kind for m in seen if m.kind in ("stop", "rewind")]):
                raise LawBroken(f"{request.session[-4:]} starts a run against {against[0]}")
        if request.cascade is not None:
            self._check_reach(request.session, request.cascade)

    def _check_reach(self, session: str, kind: str) -> None:
        """Everyone below who is at work has got the order, or hears it from one who has; none that is detached."""
        for row in self._children(session):
            got = any(m.kind in ("stop", kind) for m in self._pending(row.id))
            if row.detached or row.status == "ended":
                continue
            if not got and (kind == "stop" or row.open or row.status not in _REST):
                raise LawBroken(f"{kind} of {session[-4:]} does not reach {row.name} ({row.status})")
            if not got:
                self._check_reach(row.id, kind)

    def _children(self, session: str) -> Iterable[PodRow]:
        return [r for r in self.world.rows() if r.parent_id == session]

    def _pending(self, session: str) -> tuple[Message, ...]:
        return self.world.store.execute(Pending(session)).messages


def _aimed(message: Message, fold: StatusFold) -> bool:
    return message.kind == "stop" or message.body.get("run_id") in (None, fold.run_id)
