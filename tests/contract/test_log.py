"""The log of one session: epochs, heads, batches, annotations."""

import pytest

from session_store.codec import encode_entry
from session_store.entries import Extension, Invoke, PodEnd, Rewound, SegmentStart, Unknown
from session_store.errors import ConditionFailed, HeadMoved, StaleEpoch, UnknownSession
from session_store.reading import read_log
from session_store.requests import Annotate, ClaimDirectory, Open, Read, Release, Store
from tests.support.store import Owner, create, deliver, log, message, row, running, text

NASTY = "line\u2028para\u2029next\u0085\r\n\x00 'quote' \"two\" 日本語 👩‍💻 \\"


def test_a_new_session_has_its_first_entry_and_its_messages(store: Store) -> None:
    reply = create(store, "s", message("m1"), message("m2"))
    assert (reply.session, reply.head, reply.existed) == ("s", 1, False)
    (first,) = read_log(store, "s")
    assert isinstance(first, SegmentStart)
    assert (first.session, first.seq) == ("s", 1)
    lease = store.execute(Open("s", 0))
    assert [(m.message_id, m.position) for m in lease.messages] == [("m1", 1), ("m2", 2)]
    assert (lease.epoch, lease.head, lease.open) == (1, 1, True)


def test_a_batch_gets_seqs_without_gaps_and_one_time(store: Store) -> None:
    owner = running(store, "s")
    reply = owner.append(text("a"), text("b"), text("c"))
    assert (reply.first_seq, reply.head) == (4, 6)
    assert log(store, "s") == [1, 2, 3, 4, 5, 6]
    assert {e.ts for e in read_log(store, "s")[3:]} == {reply.ts}


def test_an_empty_batch_answers_and_writes_nothing(store: Store) -> None:
    owner = running(store, "s")
    assert owner.append().first_seq == 0
    assert log(store, "s") == [1, 2, 3]


def test_reading_in_pages(store: Store) -> None:
    owner = running(store, "s")
    owner.append(*(text(str(i)) for i in range(10)))
    page = store.execute(Read("s", after=3, limit=4))
    assert ([e.seq for e in page.entries], page.head) == ([4, 5, 6, 7], 13)
    assert store.execute(Read("s", after=13)).entries == ()
    assert store.execute(Read("s", after=99)).entries == ()


def test_S03_every_character_comes_back(store: Store) -> None:
    owner = running(store, "s")
    owner.append(text(NASTY))
    entry = read_log(store, "s")[-1]
    assert entry == text(NASTY).__class__("r", text(NASTY).items, seq=entry.seq, ts=entry.ts)


def test_a_number_and_a_surrogate_that_msgpack_cannot_hold_do_not_stop_a_pod(store: Store) -> None:
    owner = running(store, "s")
    owner.append(Extension("d", {"n": 2**70, "half": "\ud800"}))
    entry = read_log(store, "s")[-1]
    assert isinstance(entry, Extension)
    assert entry.payload == {"n": str(2**70), "half": "?"}


def test_what_cannot_be_stored_is_refused_and_changes_nothing(store: Store) -> None:
    owner = running(store, "s")
    deep: list[object] = []
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(ConditionFailed) as refused:
        owner.append(text("fine"), Extension("d", {"deep": deep}))
    assert refused.value.reason == "invalid"
    assert log(store, "s") == [1, 2, 3]
    owner.append(text("goes on"))


def test_S07_an_old_epoch_is_refused_and_the_new_one_not_disturbed(store: Store) -> None:
    old = running(store, "s")
    new = Owner.of(store, "s")
    assert new.epoch == old.epoch + 1
    with pytest.raises(StaleEpoch):
        old.append(text("too late"))
    with pytest.raises(StaleEpoch):
        store.execute(Release("s", old.epoch))
    new.append(text("mine"))
    assert log(store, "s") == [1, 2, 3, 4]


def test_a_head_that_moved_is_refused(store: Store) -> None:
    owner = running(store, "s")
    owner.append(text("a"))
    for wrong in (owner.head - 1, owner.head + 1, 0):
        with pytest.raises(HeadMoved) as refused:
            owner.append(text("b"), expected_head=wrong)
        assert refused.value.detail["head"] == owner.head
    assert log(store, "s") == [1, 2, 3, 4]


def test_S09_a_retried_batch_changes_nothing_and_answers_the_same(store: Store) -> None:
    owner = running(store, "s")
    before = owner.head
    first = owner.append(text("a"), batch_id="same")
    again = owner.append(text("a"), batch_id="same", expected_head=before)
    assert again == first
    assert log(store, "s") == [1, 2, 3, 4]
    deliver(store, "s", message("fresh", "notify"))
    later = owner.append(text("a"), batch_id="same", expected_head=before)
    assert (later.first_seq, [m.message_id for m in later.messages]) == (first.first_seq, ["fresh"])
    assert store.execute(Open("s", 0)).last_batch_id == "same"


def test_S08_neither_a_delivery_nor_an_annotation_is_a_foreign_writer(store: Store) -> None:
    owner = running(store, "s")
    expected = owner.head
    deliver(store, "s", message("n", "notify", message="hi"))
    note = store.execute(Annotate("s", Extension("memory.extract", {"x": 1}), "k1", guard=expected))
    assert (note.seq, note.existed) == (expected + 1, False)
    reply = owner.append(text("a"), expected_head=expected)
    assert reply.first_seq == expected + 2
    assert log(store, "s") == [1, 2, 3, 4, 5]
    assert [m.message_id for m in reply.messages] == ["n"]


def test_an_annotation_is_written_once_for_its_key_and_is_a_valid_head(store: Store) -> None:
    owner = running(store, "s")
    first = store.execute(Annotate("s", Extension("d", {"x": 1}), "k", guard=1))
    again = store.execute(Annotate("s", Extension("d", {"x": 2}), "k", guard=1))
    other = store.execute(Annotate("s", Extension("e", {"x": 2}), "k", guard=1))
    assert (again.seq, again.existed, other.existed) == (first.seq, True, False)
    assert owner.append(text("a"), expected_head=other.head).first_seq == other.head + 1


def test_an_annotation_after_a_rewind_of_its_ground_is_refused(store: Store) -> None:
    owner = running(store, "s")
    guard = owner.head
    owner.end()
    owner.append(Rewound(3))
    with pytest.raises(ConditionFailed) as refused:
        store.execute(Annotate("s", Extension("d", {}), "k", guard=guard))
    assert refused.value.reason == "rewound"
    assert store.execute(Annotate("s", Extension("d", {}), "k", guard=owner.head)).seq == owner.head + 1


def test_S13_unknown_kinds_are_kept(store: Store) -> None:
    owner = running(store, "s")
    owner.append(Unknown("from_the_future", {"a": [1, {"b": None}]}))
    entry = read_log(store, "s")[-1]
    assert isinstance(entry, Unknown)
    assert (entry.type, entry.data) == ("from_the_future", {"a": [1, {"b": None}]})
    assert store.execute(Read("s", after=3)).entries[0].body == encode_entry(entry)


def test_a_directory_that_is_alone_gives_up_the_leases_of_the_dead(store: Store) -> None:
    for session in ("a", "b"):
        create(store, session)
        store.execute(Open(session, 0))
    epoch = store.execute(ClaimDirectory(alone=True, held=("a",))).epoch
    assert (row(store, "a").owned, row(store, "b").owned) == (True, False)
    assert store.execute(Open("b", epoch)).epoch == 2


def test_only_the_newest_directory_opens(store: Store) -> None:
    create(store, "s")
    assert store.execute(Open("s", 0)).epoch == 1
    first = store.execute(ClaimDirectory()).epoch
    second = store.execute(ClaimDirectory()).epoch
    assert second > first > 0
    with pytest.raises(StaleEpoch):
        store.execute(Open("s", first))
    assert store.execute(Open("s", second)).epoch == 2


def test_opening_names_the_epoch_it_replaces_and_may_be_retried(store: Store) -> None:
    create(store, "s")
    assert store.execute(Open("s", 0, replaces=0)).epoch == 1
    assert store.execute(Open("s", 0, replaces=0)).epoch == 1  # the answer was lost
    with pytest.raises(StaleEpoch):
        store.execute(Open("s", 0, replaces=7))
    assert store.execute(Open("s", 0, replaces=1)).epoch == 2
    with pytest.raises(StaleEpoch):
        store.execute(Open("s", 0, replaces=0))
    owner = Owner(store, "s", 2, 1)
    owner.append(text("in use"))
    with pytest.raises(StaleEpoch):
        store.execute(Open("s", 0, replaces=1))


def test_a_released_lease_writes_nothing_more(store: Store) -> None:
    owner = running(store, "s")
    owner.end()
    head = owner.release()
    assert head == owner.release()  # the answer was lost
    with pytest.raises(StaleEpoch):
        owner.append(text("late"))
    assert not row(store, "s").owned


def test_a_lease_is_not_given_up_while_the_session_wants_its_pod(store: Store) -> None:
    owner = running(store, "s")
    with pytest.raises(ConditionFailed) as refused:
        owner.release()
    assert refused.value.reason == "pending"
    owner.end()
    deliver(store, "s", message("m2"))
    with pytest.raises(ConditionFailed):
        owner.release()
    owner.begin("m2")
    owner.end()
    owner.release()


def test_unknown_sessions_are_refused_by_name(store: Store) -> None:
    for request in (Open("nobody", 0), Read("nobody"), Release("nobody", 1)):
        with pytest.raises(UnknownSession) as refused:
            store.execute(request)  # type: ignore[arg-type]
        assert refused.value.detail["session"] == "nobody"


def test_a_message_is_consumed_once(store: Store) -> None:
    owner = running(store, "s")
    with pytest.raises(ConditionFailed) as refused:
        owner.append(text("again"), consumes=("p:s",))
    assert refused.value.reason == "conflict"
    assert log(store, "s") == [1, 2, 3]


def test_S14_a_run_without_an_owner_is_shown_and_goes_on_under_the_next_epoch(store: Store) -> None:
    running(store, "s")
    seen = row(store, "s")
    assert (seen.status, seen.epoch) == ("running", 1)
    reply = deliver(store, "s", message("queued"))
    assert reply.status == "running"
    new = Owner.of(store, "s")
    assert new.seen == ["queued"]
    new.append(text("goes on"))


def test_ended_is_ended(store: Store) -> None:
    owner = running(store, "s")
    owner.end("stopped")
    owner.append(PodEnd("stop"))
    owner.release()
    assert row(store, "s").status == "ended"
    with pytest.raises(ConditionFailed) as refused:
        deliver(store, "s", message("m"))
    assert refused.value.reason == "ended"


def test_time_of_a_session_never_goes_back(store: Store) -> None:
    owner = running(store, "s")
    owner.append(Invoke("x", "prompt"))
    times = [e.ts for e in read_log(store, "s")]
    assert times == sorted(times)
