"""Trees of Pods, their short names, and the rule by which a run ends."""

from __future__ import annotations

import pytest

from orchestrator.cli.forest import branches, judge, matching, short_ids, usage_of
from orchestrator.cli.ps import nested, state_words
from tests.support.fake_gateway import pod


def tree(**statuses: str) -> list[dict[str, object]]:
    """`root`, `a`, `b` are children of it, `aa` of `a`."""
    parents = {"root": None, "a": "root", "b": "root", "aa": "a"}
    return [pod(name, name=name, parent_id=parents[name], status=status) for name, status in statuses.items()]


@pytest.mark.parametrize(
    ("statuses", "kind", "stuck"),
    [
        ({"root": "running"}, "moving", []),
        ({"root": "idle"}, "rests", []),
        ({"root": "errored"}, "rests", []),
        ({"root": "ended"}, "rests", []),
        ({"root": "waiting_on_children", "a": "running"}, "moving", []),
        ({"root": "idle", "a": "running"}, "moving", []),
        ({"root": "idle", "a": "idle", "b": "ended"}, "rests", []),
        ({"root": "waiting_on_user"}, "stuck", ["root"]),
        ({"root": "paused"}, "stuck", ["root"]),
        ({"root": "waiting_on_children", "a": "waiting_on_user", "b": "running"}, "moving", []),
        ({"root": "waiting_on_children", "a": "waiting_on_user", "b": "paused"}, "stuck", ["a", "b"]),
        ({"root": "idle", "a": "waiting_on_children", "aa": "waiting_on_user"}, "stuck", ["aa"]),
        ({"root": "waiting_on_children", "a": "idle"}, "stuck", ["root"]),
    ],
)
def test_a_run_ends_when_nothing_can_move(statuses: dict[str, str], kind: str, stuck: list[str]) -> None:
    verdict = judge(tree(**statuses), "root")
    assert verdict.kind == kind
    assert [p["id"] for p in verdict.stuck] == stuck


def test_a_tree_is_drawn_in_order_of_creation() -> None:
    drawn = branches(tree(root="idle", a="idle", b="idle", aa="idle"))
    assert [b.stem + b.pod["id"] for b in drawn] == ["root", "├─ a", "│  └─ aa", "└─ b"]


def test_a_branch_can_be_drawn_alone() -> None:
    drawn = branches(tree(root="idle", a="idle", b="idle", aa="idle"), ["a"])
    assert [b.stem + b.pod["id"] for b in drawn] == ["a", "└─ aa"]


def test_a_chain_deeper_than_the_recursion_limit_is_drawn() -> None:
    chain = [pod(str(n), parent_id=str(n - 1) if n else None) for n in range(3000)]
    assert len(branches(chain)) == 3000


def test_nested_trees_hold_their_children() -> None:
    (top,) = nested(tree(root="idle", a="idle", aa="idle"), None)
    assert top["pods"][0]["pods"][0]["id"] == "aa"


def test_short_ids_are_unique_beginnings() -> None:
    ids = ["0199aaaa-0000-7000", "0199aaaa-0000-7001", "0199bbbb-0000-7000"]
    assert short_ids(ids) == {ids[0]: ids[0], ids[1]: ids[1], ids[2]: "0199bbbb"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0199aaaa", ["0199aaaa-1", "0199aaaa-2"]),
        ("0199AAAA-1", ["0199aaaa-1"]),
        ("調査", ["0199aaaa-2"]),
        ("019", []),
        ("x", []),
    ],
)
def test_a_pod_is_meant_by_id_name_or_beginning_of_its_id(text: str, found: list[str]) -> None:
    pods = [pod("0199aaaa-1", name="a"), pod("0199aaaa-2", name="調査")]
    assert [p["id"] for p in matching(pods, text)] == found


def test_a_name_goes_before_the_beginning_of_an_id() -> None:
    pods = [pod("deadbeef-1", name="a"), pod("0199aaaa-2", name="deadbeef")]
    assert [p["id"] for p in matching(pods, "deadbeef")] == ["0199aaaa-2"]


def test_usage_is_added_up() -> None:
    assert usage_of([pod(), pod()])["input"] == 2400
    assert usage_of([{"id": "x"}]) == dict.fromkeys(("requests", "input", "cache_read", "cache_write", "output"), 0)


def test_S14_a_run_that_nobody_owns_is_shown_as_such() -> None:
    assert state_words(pod(owner=None)) == "running (no owner)"
    assert state_words(pod(status="idle", last_outcome="finished")) == "idle (finished)"
