"""`send`, `stop`, `pause`, `resume`, `cancel`: messages to a Pod. Each says what it changed."""

from __future__ import annotations

import secrets
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.cli.cells import clean
from orchestrator.cli.embedding import Link, Plan, join_or_own, settings_of
from orchestrator.cli.failure import FINISHED
from orchestrator.cli.forest import Pod
from orchestrator.cli.paint import screen
from orchestrator.cli.reaching import home_of, pod_of
from orchestrator.cli.run import audience_for, read_text, spoken
from orchestrator.cli.running import Journey, follow_to_end
from orchestrator.cli.story import segments_text
from orchestrator.cli.watch import tree_of

SETTLE = 15.0
"""Seconds for which a command waits until what it asked for shows."""


def send(options: Namespace) -> int:
    body: dict[str, Any] = {
        **spoken(read_text(options.text, "the message"), "content", literal=options.literal),
        "message_id": f"send-{secrets.token_hex(12)}",
    }
    if options.when_busy:
        body["when_busy"] = options.when_busy
    return set_going(options, pod_of(options), "messages", body, follow=options.wait)


def resume(options: Namespace) -> int:
    return set_going(options, pod_of(options), "resume", {}, follow=False)


def stop(options: Namespace) -> int:
    return _bring_to_rest(options, "stop", {})


def pause(options: Namespace) -> int:
    return _bring_to_rest(options, "pause", {})


def cancel(options: Namespace) -> int:
    # Under an id of its own, so that it can be asked for again what came of it.
    body = {"message_id": f"cancel-{secrets.token_hex(12)}"}
    return _bring_to_rest(options, "cancel", {**body, "clear_queue": True} if options.clear_queue else body)


def set_going(options: Namespace, pod: Pod, action: str, body: Mapping[str, Any], *, follow: bool) -> int:
    """Without an owner the run is shown in any case: Pods of a home that nobody owns move while this command lasts."""
    home = home_of(options)
    with join_or_own(home, Plan(lambda: settings_of(home), roots=(pod["root_id"],))) as link:
        tree = tree_of(link.gateway, pod["root_id"]).pods
        link.gateway.post(f"/v1/pods/{pod['id']}/{action}", body)
        if not follow and link.owner is None:
            _tell(options, action, pod, _now(link, pod))
            return FINISHED
        audience = audience_for(pod["root_id"], as_json=options.json)
        heads = {p["id"]: int(p["head_seq"]) for p in tree}
        return follow_to_end(Journey(home, link, audience, pod["root_id"], heads))


def _bring_to_rest(options: Namespace, action: str, body: Mapping[str, Any]) -> int:
    pod = pod_of(options)
    home = home_of(options)
    with join_or_own(home, Plan(lambda: settings_of(home), roots=(pod["root_id"],))) as link:
        before = _now(link, pod)
        told = link.gateway.post(f"/v1/pods/{pod['id']}/{action}", body)
        after = _settled(link, before, action)
        if told.get("changed") and told.get("outcome", "") is None:  # it took longer than the gateway waits
            told = link.gateway.post(f"/v1/pods/{pod['id']}/{action}", body)
    _tell(options, action, before, after, told.get("withdrawn") or ())
    return FINISHED


def _now(link: Link, pod: Pod) -> Pod:
    now: Pod = link.gateway.get(f"/v1/pods/{pod['id']}")
    return now


def _settled(link: Link, before: Pod, action: str) -> Pod:
    """The Pod once it has come to the rest that was asked for; as it is when that takes too long."""
    limit = time.monotonic() + SETTLE
    while True:
        now = _now(link, before)
        at_rest = now["status"] == "ended" if action == "stop" else now["status"] != "running"
        if at_rest or time.monotonic() > limit:
            return now
        time.sleep(0.1)


def _tell(
    options: Namespace, action: str, before: Pod, after: Pod, withdrawn: Sequence[Mapping[str, Any]] = ()
) -> None:
    """`withdrawn`: prompts that a cancel gave back, shown so that none has to be written again."""
    out = screen()
    if options.json:
        view = {"pod_id": after["id"], "action": action, "before": before["status"], "after": after["status"]}
        out.json({**view, "withdrawn": list(withdrawn)} if action == "cancel" else view)
        return
    name = clean(str(after.get("name") or after["id"]))
    if action in ("messages", "resume", "answer"):
        out.line(f"{name}: accepted, it is {after['status']}")
    elif before["status"] != after["status"]:
        out.line(f"{name}: {before['status']} -> {after['status']}")
    elif after["status"] == "running":
        out.line(f"{name}: accepted; it is still {after['status']} and takes it up at its next step")
    else:
        out.line(f"{name} is {after['status']}: nothing to {action}")
    for prompt in withdrawn:
        out.line(f"given back: {clean(segments_text(prompt.get('segments')))}")
