"""How a Pod carries an accepted rewind out: one commit that ends its rest, if that waits for anything, and rewinds.

A rest that waits is ended as a cancel ends it: calls and question closed, the run `cancelled`, the parent told, the
children cancelled. Everything else in the inbox stays and is looked at afterwards, in the idle Pod.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from actors.pod.endings import Commit, Ending, end_run
from actors.pod.interceptors import GapView, gap, pod_events
from actors.pod.state import PodState
from session_store.entries import Rewound
from session_store.messages import Message


def rewind(state: PodState, order: Message) -> Commit:
    """The commit for `order`, which the store has found fit. Only a malformed one (imported, say) is void."""
    to = order.body.get("to")
    if not isinstance(to, int) or not 0 < to <= state.head or not state.fold.in_history(to):
        return Commit(consumes=[order.message_id])
    commit = Commit()
    if state.fold.waiting:
        _end_rest(state, commit, order, to)
    commit.add(Rewound(to))
    commit.consumes.append(order.message_id)
    return commit


def _end_rest(state: PodState, commit: Commit, order: Message, to: int) -> None:
    """News of children that the history will not know any more goes with it: it shall wake nobody."""
    orphaned = {pod_id for pod_id, child in state.facts.children.items() if child.spawned >= to}
    news = [m for m in state.messages if (m.body.get("event") or {}).get("pod_id") in orphaned]
    found = gap(GapView(tuple(m for m in news if m.kind == "pod_event"), state.fold.is_stale), (pod_events,))
    seen = replace(state, facts=deepcopy(state.facts))
    for entry in found.entries:
        seen.facts.apply(entry)
    commit.add(*found.entries)
    commit.consumes.extend(found.consumes)
    end_run(seen, Ending("cancelled"), commit)
    later = {m.message_id for m in state.controls() if m.position > order.position}
    commit.consumes = [message_id for message_id in commit.consumes if message_id not in later]
