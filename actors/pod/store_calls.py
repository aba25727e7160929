"""What a Pod asks of the store, each answered by the stimulus that the turn machine takes."""

from __future__ import annotations

from dataclasses import dataclass

from actors.pod import instructions as do
from actors.pod import stimuli as st
from actors.pod.facts import pod_facts
from actors.pod.state import Identity
from session_store.errors import Refused, StaleEpoch, StoreUnavailable
from session_store.messages import Message
from session_store.reading import decoded
from session_store.requests import Append, AsyncStore, Pending, Read, Release
from session_store.restore import restore


@dataclass(frozen=True, slots=True)
class StoreCalls:
    """One Pod's side of the store. A call that fails is answered like any other."""

    store: AsyncStore
    who: Identity

    async def append(self, order: do.Append) -> st.Appended | st.AppendRefused | st.AppendFailed:
        request = Append(
            session=self.who.session,
            epoch=self.who.generation,
            expected_head=order.expected_head,
            batch_id=order.batch_id,
            entries=order.entries,
            deliveries=order.deliveries,
            consumes=order.consumes,
            inbox_cursor=order.inbox_cursor,
            concluded=order.concluded,
            cascade=order.cascade,
        )
        try:
            return st.Appended(order.batch_id, await self.store.execute(request))
        except StoreUnavailable as error:
            return st.AppendFailed(order.batch_id, str(error))
        except Refused as error:
            return st.AppendRefused(order.batch_id, error.code, error.message)

    async def restore(self) -> st.Restored | st.RestoreFailed:
        """The folds anew, from the whole log."""
        try:
            found = await self.store.execute(Read(self.who.session))
            entries = decoded(self.who.session, found.entries)
        except (StoreUnavailable, Refused) as error:
            return st.RestoreFailed(str(error))
        return st.Restored(restore(entries), pod_facts(entries, self.who.parent_id))

    async def pending(self, cursor: int) -> tuple[Message, ...] | None:
        """Messages beyond `cursor`; None when the store gave no answer."""
        try:
            return (await self.store.execute(Pending(self.who.session, cursor))).messages
        except (StoreUnavailable, Refused):
            return None

    async def release(self, cursor: int) -> st.Released | st.ReleaseRefused:
        """Give the lease up. Refused, the Pod goes on with what has come beyond `cursor`."""
        try:
            await self.store.execute(Release(self.who.session, self.who.generation))
        except StaleEpoch:
            return st.ReleaseRefused(stale=True)
        except Refused:
            return st.ReleaseRefused(stale=False, messages=await self.pending(cursor) or ())
        except StoreUnavailable:
            return st.ReleaseRefused(stale=False)
        return st.Released()
