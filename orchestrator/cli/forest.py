"""Pods as the gateway tells them: their tree, their short names, and whether anything in it can still move. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Pod = Mapping[str, Any]
"""The JSON of a Pod (`GET /v1/pods/{id}`)."""

SHORT = 8
WAITING = ("waiting_on_user", "paused")


@dataclass(frozen=True, slots=True)
class Branch:
    """One line of a drawn tree: `stem` is the drawing before the name (`│  ├─ `)."""

    stem: str
    pod: Pod


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a tree goes on. `stuck` are the Pods that only a person can move, in order of creation."""

    kind: Literal["moving", "rests", "stuck"]
    stuck: tuple[Pod, ...] = ()


def judge(pods: Sequence[Pod], root_id: str) -> Verdict:
    """What a `run` that watches this tree does next, from one consistent look at it.

    `rests`: the root rests and nobody below owes it a report. `stuck`: nothing moves, and somebody waits for a person
    (or the root waits for children that do not move).
    """
    if any(pod["status"] == "running" for pod in pods):
        return Verdict("moving")
    waiting = tuple(pod for pod in pods if pod["status"] in WAITING)
    if waiting:
        return Verdict("stuck", waiting)
    root = next((pod for pod in pods if pod["id"] == root_id), None)
    if root is not None and root["status"] == "waiting_on_children":
        return Verdict("stuck", tuple(pod for pod in pods if pod["status"] == "waiting_on_children"))
    return Verdict("rests")


def branches(pods: Sequence[Pod], roots: Iterable[str] | None = None) -> list[Branch]:
    """The Pods as drawn trees, children in order of creation. `roots`: draw only these trees, from these Pods down."""
    known = {pod["id"]: pod for pod in pods}
    below: dict[str | None, list[Pod]] = {}
    for pod in pods:
        parent = pod.get("parent_id")
        below.setdefault(parent if parent in known else None, []).append(pod)
    tops = below.get(None, []) if roots is None else [known[r] for r in roots if r in known]
    drawn: list[Branch] = []
    # A stack, not recursion: a tree may be as deep as the settings allow.
    stack = [(pod, "", "") for pod in reversed(tops)]
    while stack:
        pod, stem, indent = stack.pop()
        drawn.append(Branch(stem, pod))
        children = below.get(pod["id"], [])
        for place, child in reversed(list(enumerate(children))):
            last = place == len(children) - 1
            stack.append((child, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  ")))
    return drawn


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """For each id its shortest prefix of at least 8 characters that no other has."""
    ordered = sorted(set(ids))
    short = {}
    for place, ident in enumerate(ordered):
        neighbours = ordered[max(place - 1, 0) : place] + ordered[place + 1 : place + 2]
        need = max((_common(ident, other) + 1 for other in neighbours), default=0)
        short[ident] = ident[: max(need, SHORT)].rstrip("-")
    return short


def matching(pods: Sequence[Pod], text: str) -> list[Pod]:
    """The Pods that `text` may mean: by id, else by name, else by a prefix of the id."""
    for test in (_is_id, _is_name, _is_prefix):
        found = [pod for pod in pods if test(pod, text)]
        if found:
            return found
    return []


def usage_of(pods: Iterable[Pod]) -> dict[str, int]:
    """What these Pods used together: requests and tokens by kind."""
    total = dict.fromkeys(("requests", "input", "cache_read", "cache_write", "output"), 0)
    for pod in pods:
        for kind in total:
            total[kind] += int((pod.get("usage") or {}).get(kind) or 0)
    return total


def _is_id(pod: Pod, text: str) -> bool:
    return bool(pod["id"] == text.lower())


def _is_name(pod: Pod, text: str) -> bool:
    return bool(pod.get("name") == text)


def _is_prefix(pod: Pod, text: str) -> bool:
    return len(text) >= 4 and bool(pod["id"].startswith(text.lower()))


def _common(one: str, other: str) -> int:
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length
