"""The child tools' port over the store and the Directory: each effect is keyed by its call, so asking again is safe."""

from __future__ import annotations

from dataclasses import replace

from actors.pod.ports import DirectoryPort
from actors.protocol.ids import is_session_id
from actors.protocol.tools import CallKey, ChildrenError, ChildView, SpawnOrder
from session_store.codec import decode_entry
from session_store.entries import AssistantItems, LogEntry
from session_store.errors import ConditionFailed, Refused, StoreUnavailable
from session_store.messages import Message
from session_store.requests import AsyncStore, Deliver, PodLimits, PodRow, Query, Read

READ_LIMIT = 30_000
"""Code points that one ReadPodOutput gives."""


class StoreChildren:
    """Implements `Children` for the Pod of `session`, named `name`."""

    def __init__(self, session: str, store: AsyncStore, directory: DirectoryPort, limits: PodLimits) -> None:
        self._session = session
        self._store = store
        self._directory = directory
        self._limits = limits

    async def spawn(self, order: SpawnOrder) -> ChildView:
        child = await self._directory.spawn(self._session, order)
        return await self._view(await self._row(child))

    async def send(self, key: CallKey, pod: str, message: str) -> ChildView:
        row = await self._descendant(pod)
        body = {"segments": [{"type": "text", "text": message}]}
        prompt = Message(f"send:{key}", "prompt", self._session, body)
        try:
            delivered = await self._store.execute(Deliver(row.id, prompt, limits=self._limits))
        except ConditionFailed as error:
            raise ChildrenError(_refusal(row, error)) from error
        except (Refused, StoreUnavailable) as error:
            raise ChildrenError(f"The message to {row.name} could not be delivered: {error}") from error
        await self._directory.hint((row.id,))
        view = replace(await self._view(row), status=delivered.status)
        # Asked again after a crash, the head of now may be beyond the end of the run that the message has had.
        return replace(view, head=0) if delivered.existed else view

    async def read_output(self, key: CallKey, pod: str, after: int | None) -> tuple[str, int]:
        row = await self._descendant(pod)
        found = await self._read(row, after or 0)
        text, reached = "", after or 0
        for entry in found:
            said = _said(entry)
            if text and len(text) + len(said) > READ_LIMIT:
                break
            text += said
            reached = entry.seq
        return text, reached

    async def stop(self, key: CallKey, pod: str) -> ChildView:
        row = await self._descendant(pod)
        if row.status != "ended":
            order = Message(f"stop:{key}", "stop", self._session, {"reason": "stopped by its parent"})
            try:
                await self._store.execute(Deliver(row.id, order))
            except ConditionFailed as error:
                if error.reason != "ended":
                    raise ChildrenError(_refusal(row, error)) from error
            except (Refused, StoreUnavailable) as error:
                raise ChildrenError(f"{row.name} could not be told to stop: {error}") from error
            await self._directory.stop(row.id, self._session)
        return await self._view(await self._row(row.id))

    async def list(self, session: str) -> tuple[ChildView, ...]:
        rows = await self._rows(Query(parent=session, limit=0))
        return tuple([await self._view(row) for row in rows])

    async def resolve(self, pod: str) -> str:
        """The id of a descendant named by id, or by name among the own children. Raises `ChildrenError`."""
        return (await self._descendant(pod)).id

    async def _descendant(self, pod: str) -> PodRow:
        if is_session_id(pod):
            row = await self._row(pod)
            ancestor: str | None = row.parent_id
            while ancestor is not None and ancestor != self._session:
                ancestor = (await self._row(ancestor)).parent_id
            if ancestor is None:
                raise ChildrenError(f"No child or grandchild of yours has the id {pod}.")
            return row
        rows = await self._rows(Query(parent=self._session, name=pod, limit=0))
        if not rows:
            names = ", ".join(r.name for r in await self._rows(Query(parent=self._session, limit=50))) or "none"
            raise ChildrenError(f"You have no child named {pod!r}. Your children: {names}.")
        return next((r for r in rows if r.status != "ended"), rows[-1])

    async def _row(self, session: str) -> PodRow:
        rows = await self._rows(Query(ids=(session,), limit=1))
        if not rows:
            raise ChildrenError(f"There is no Pod with the id {session}.")
        return rows[0]

    async def _rows(self, query: Query) -> tuple[PodRow, ...]:
        try:
            return (await self._store.execute(query)).rows
        except (Refused, StoreUnavailable) as error:
            raise ChildrenError(f"The Pods could not be looked up: {error}") from error

    async def _read(self, row: PodRow, after: int) -> tuple[LogEntry, ...]:
        try:
            found = await self._store.execute(Read(row.id, after))
        except (Refused, StoreUnavailable) as error:
            raise ChildrenError(f"The log of {row.name} could not be read: {error}") from error
        return tuple(decode_entry(e.body, e.seq, e.ts) for e in found.entries)

    async def _view(self, row: PodRow) -> ChildView:
        text = await self._last_text(row) if not row.open and row.run_seq else None
        error = str((row.error or {}).get("message", "")) or None
        return ChildView(
            row.id, row.name, row.status, not row.open, row.outcome, text, error, row.question, head=row.head
        )

    async def _last_text(self, row: PodRow) -> str:
        replies = [e for e in await self._read(row, row.run_seq) if isinstance(e, AssistantItems)]
        return _said(replies[-1]).strip() if replies else ""


def _said(entry: LogEntry) -> str:
    if not isinstance(entry, AssistantItems):
        return ""
    text = "".join(i.text for i in entry.items if i.type == "text")
    return f"{text}\n" if text else ""


def _refusal(row: PodRow, error: ConditionFailed) -> str:
    match error.reason:
        case "ended":
            return f"{row.name} has ended and takes no more messages; spawn a new Pod."
        case "limit":
            return f"{row.name} has concluded, and taking it up again would pass a limit: {error.message}"
        case "scope":
            return f"{row.name} has concluded, and its write scope is now given to another: {error.message}"
        case _:
            return f"{row.name} did not take the message: {error.message}"
