"""A store in this process for those who run on an event loop."""

from __future__ import annotations

from session_store.requests import ReplyT, Request, Store


class LocalStore:
    """`AsyncStore` over a store that answers at once (memory): no thread, so a run stays a function of its seed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def execute(self, request: Request[ReplyT]) -> ReplyT:
        return self._store.execute(request)
