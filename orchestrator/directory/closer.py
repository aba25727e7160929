"""Writes a session's end under the next epoch, over the store."""

from __future__ import annotations

from contextlib import suppress

from pydantic import ValidationError

from orchestrator.directory.closing import closing_commit, pod_state
from orchestrator.directory.state import CloseKind
from session_store.codec import decode_entry
from session_store.errors import ConditionFailed, Refused, StoreUnavailable, UnreadableEntry
from session_store.requests import Append, AsyncStore, Open, Read, Release

TRIES = 4
"""How often one request is sent while the store gives no answer; the sweep comes back to what is left."""


class CloseFailure(Exception):
    """`final`: the log is damaged; trying again cannot help."""

    def __init__(self, message: str, final: bool) -> None:
        super().__init__(message)
        self.message = message
        self.final = final


async def close_session(
    store: AsyncStore, session: str, directory_epoch: int, kind: CloseKind, cause: str
) -> tuple[str, ...]:
    """Take the next epoch and append what ends the session's run, or the session; then give the lease up.

    Only called when no process holds the session. Returns the sessions to hint. Raises `CloseFailure`.
    """
    try:
        return await _close(store, session, directory_epoch, (kind, cause))
    except StoreUnavailable as error:
        raise CloseFailure(f"The store gave no answer: {error}", final=False) from error
    except (UnreadableEntry, ValidationError) as error:
        raise CloseFailure(f"The log is damaged: {error}", final=True) from error
    except Refused as error:
        raise CloseFailure(error.message, error.code in ("store_damaged", "newer_schema", "unknown_session")) from error


async def _close(
    store: AsyncStore, session: str, directory_epoch: int, order: tuple[CloseKind, str]
) -> tuple[str, ...]:
    kind, cause = order
    lease = await store.execute(Open(session, directory_epoch))
    stored = await store.execute(Read(session))
    state = pod_state(lease, [decode_entry(e.body, e.seq, e.ts) for e in stored.entries])
    commit = closing_commit(state, kind, cause, run_id=f"run-{session[-12:]}-{lease.epoch}-closed")
    hints: tuple[str, ...] = ()
    if commit is not None:
        batch_id = f"{session[-12:]}-{lease.epoch}-closed"
        made = commit.append(batch_id, lease.head, state.cursor)
        request = Append(
            session=session,
            epoch=lease.epoch,
            expected_head=made.expected_head,
            batch_id=batch_id,
            entries=made.entries,
            deliveries=made.deliveries,
            consumes=made.consumes,
            inbox_cursor=made.inbox_cursor,
            concluded=made.concluded,
            cascade=made.cascade,
        )
        reply = await _append(store, request)
        hints = (*(d.session for d in made.deliveries), *reply)
    with suppress(ConditionFailed):  # more work came: the Directory looks at the session again after this
        await store.execute(Release(session, lease.epoch))
    return hints


async def _append(store: AsyncStore, request: Append) -> tuple[str, ...]:
    for tries_left in reversed(range(TRIES)):
        try:
            return (await store.execute(request)).cascaded
        except StoreUnavailable:
            if not tries_left:
                raise
    raise AssertionError("unreachable")
