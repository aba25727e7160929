"""WaitForPods: a pure look at the children, answered at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from actors.protocol.tools import ChildView, ToolOutcome
from actors.tools.text import cut_end, one_line
from actors.tools.typed import Arguments, ToolRefusal

_NAMES = 20


class WaitForPods(Arguments):
    says = (
        'Wait for Pods you started. With `mode` "all" until every one is done, with "any" until one is done that you '
        "have not heard of. If that is so already you get the outcomes at once; otherwise your run rests, costs "
        "nothing, and goes on when it is so, when one of them asks something or fails, or when you get a message. "
        "It is looked at after all other calls of the same reply, so you can spawn and wait in one."
    )
    pods: list[str] | None = Field(default=None, description="Names or ids (default: all Pods you started).")
    mode: Literal["all", "any"] = Field(default="all", description="What to wait for.")


def wait_for(arguments: WaitForPods, views: Sequence[ChildView], heard: frozenset[str], text_limit: int) -> ToolOutcome:
    """The answer: outcomes when the wait is over already, else what is awaited. Raises `ToolRefusal`.

    `views` are the children as they are now; `heard` those whose conclusion this log tells already.
    """
    wanted = _wanted(arguments.pods, views)
    awaited = [view for view in wanted if not view.concluded]
    done = [view for view in wanted if view.concluded]
    fresh = [view for view in done if view.pod_id not in heard]
    if awaited and not (arguments.mode == "any" and fresh):
        return _awaiting(awaited, done, arguments.mode)
    if not wanted:
        return ToolOutcome("ok", "there are no Pods to wait for", None, {"listed": []})
    # Told in full: what was not told yet, and what was asked for by name when the wait is for all of them.
    by_name = arguments.pods is not None and arguments.mode == "all"
    parts = [_told(view, text_limit) if view in fresh or by_name else _known(view) for view in done]
    parts += [f"{_who(view)}: not done, {view.status}" for view in awaited]
    summary = f"{len(done)} of {len(wanted)} Pods are done: {_listed(done)}"
    return ToolOutcome("ok", summary, "\n\n".join(parts), {"listed": [view.pod_id for view in done]})


def named(views: Sequence[ChildView], pod: str) -> ChildView | None:
    """The child of this id or name; of several that had the name, the one that has not ended, or the youngest."""
    by_id = next((view for view in views if view.pod_id == pod), None)
    if by_id is not None:
        return by_id
    same = [view for view in views if view.name == pod]
    living = [view for view in same if view.status != "ended"]
    return next(reversed(living or same), None)


def known_names(views: Sequence[ChildView]) -> str:
    """Which Pods there are, in words."""
    if not views:
        return "You have started none."
    names = list(dict.fromkeys(view.name for view in views))
    more = f" and {len(names) - _NAMES} older ones" if len(names) > _NAMES else ""
    return f"You have: {', '.join(names[-_NAMES:])}{more}."


def _wanted(pods: list[str] | None, views: Sequence[ChildView]) -> list[ChildView]:
    if pods is None:
        return list(views)
    found = {pod: named(views, pod) for pod in pods}
    unknown = [one_line(pod, 64) for pod, view in found.items() if view is None]
    if unknown:
        raise ToolRefusal(
            f"There is no Pod {', '.join(f'`{pod}`' for pod in unknown)} among yours. {known_names(views)}"
        )
    return list({view.pod_id: view for view in found.values() if view is not None}.values())


def _awaiting(awaited: list[ChildView], done: list[ChildView], mode: str) -> ToolOutcome:
    rows = [f"waiting for {mode} of:", *(_open_row(view) for view in awaited)]
    if done:
        rows.append(f"done already: {_listed(done)}")
    summary = f"waiting for {mode} of {len(awaited)} Pods: {_listed(awaited)}"
    data = {"awaiting": [view.pod_id for view in awaited], "mode": mode}
    return ToolOutcome("ok", summary, "\n".join(rows), data)


def _open_row(view: ChildView) -> str:
    asked = ""
    if view.question:
        way = "only a person decides" if view.question.get("kind") == "permission" else "answer with SendToPod"
        asked = f", asks: {one_line(str(view.question.get('question', '')), 500)} ({way})"
    return f"- {_who(view)}: {view.status}{asked}"


def _told(view: ChildView, limit: int) -> str:
    """One conclusion in full, its text cut to `limit` characters."""
    head = f"{_who(view)}: {view.status}, outcome {view.outcome or 'none'}"
    if view.error:
        head += f", error: {one_line(view.error, 500)}"
    text, dropped = cut_end(view.text or "", limit)
    if dropped:
        text += f"\n[… {dropped:,} of {dropped + limit:,} characters are left out: ReadPodOutput has them]"
    return f"{head}\n{text}" if text else head


def _known(view: ChildView) -> str:
    return f"{_who(view)}: {view.status}, outcome {view.outcome or 'none'} (told before)"


def _who(view: ChildView) -> str:
    return f"{view.name} ({view.pod_id})"


def _listed(views: Sequence[ChildView]) -> str:
    return ", ".join(view.name for view in views)
