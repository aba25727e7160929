"""Orders to compact at the store: accepted in one transaction, or refused with the reason and no trace."""

import pytest

from session_store.entries import CallRef, Choice, Extension, PodEnd, Question, Rewound, SegmentEnd, SegmentStart
from session_store.errors import ConditionFailed
from session_store.items import ToolCall
from session_store.requests import Expect, FindMessage, Query, Store
from tests.contract.test_rewinds import back, refusal, talked
from tests.support.store import deliver, message, row, running, text


def test_an_accepted_order_wants_its_pod_moves_no_head_and_changes_no_status(store: Store) -> None:
    owner = talked(store, "a")
    told = deliver(store, "s", message("c", "compact"))
    assert (told.existed, told.status, row(store, "s").head) == (False, "idle", 5)
    assert [r.id for r in store.execute(Query(needs_owner=True)).rows] == ["s"]
    with pytest.raises(ConditionFailed, match="wants its Pod"):
        owner.release()
    record = Extension("compaction", {})
    owner.append(SegmentEnd(), SegmentStart("s", {}, "", (), 1), record, consumes=("c",))
    assert deliver(store, "s", message("c", "compact")).existed
    assert store.execute(FindMessage("s", "c")).seq == row(store, "s").head == 8
    owner.release()


def test_of_two_orders_and_of_an_order_and_a_rewind_one_wins(store: Store) -> None:
    owner = talked(store, "a")
    deliver(store, "s", message("c", "compact"))
    assert "compacted already" in refusal(store, message("d", "compact")).message
    assert "compacted already" in refusal(store, back(3, 5)).message
    owner.append(Extension("compaction", {}), consumes=("c",))
    deliver(store, "s", back(3, 6))
    refused = refusal(store, message("d", "compact"))
    assert (refused.reason, "rewound already" in refused.message) == ("busy", True)
    owner.append(Rewound(3), consumes=("back",))
    assert not deliver(store, "s", message("d", "compact")).existed


def test_busy_sessions_are_not_compacted(store: Store) -> None:
    owner = running(store, "s")
    assert refusal(store, message("c", "compact")).reason == "busy"
    owner.end()
    deliver(store, "s", message("next"))
    assert refusal(store, message("c", "compact")).reason == "busy"  # a run is about to start


def test_a_session_whose_call_waits_for_a_permission_is_busy_and_one_that_asks_is_not(store: Store) -> None:
    owner = running(store, "s")
    call = ToolCall("c", "Act", {})
    owner.append(text("so"))
    ref = CallRef(4, 0, call)
    owner.append(Question("q", "permission", "May it?", (Choice("allow_once"),), ref, "Act"))
    owner.end("waiting_on_user")
    assert "permission" in refusal(store, message("c", "compact")).message

    other = running(store, "t")
    other.append(Question("q", "clarify", "Which?"))
    other.end("waiting_on_user")
    assert not deliver(store, "t", message("c", "compact")).existed


@pytest.mark.parametrize("outcome", ["paused", "waiting_on_children", "errored", "cancelled", "limit_reached"])
def test_every_rest_can_be_compacted(store: Store, outcome: str) -> None:
    owner = running(store, "s")
    owner.end(outcome, waits_for=("c",) if outcome == "waiting_on_children" else None)
    assert not deliver(store, "s", message("c", "compact")).existed
    deliver(store, "s", message("queued"))  # comes after it


def test_a_cancel_is_taken_while_an_order_waits(store: Store) -> None:
    talked(store, "a")
    with pytest.raises(ConditionFailed):
        deliver(store, "s", message("early", "cancel"), Expect("run"))
    deliver(store, "s", message("c", "compact"))
    assert not deliver(store, "s", message("late", "cancel"), Expect("run")).existed


def test_an_ended_session_takes_no_order(store: Store) -> None:
    owner = talked(store, "a")
    owner.append(PodEnd("stop"))
    assert refusal(store, message("c", "compact")).reason == "ended"
