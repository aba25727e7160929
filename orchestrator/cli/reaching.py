"""Finding the home's owner, and the Pod that a word on the command line means."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from orchestrator.cli.failure import CommandError, OwnerLost, UsageError
from orchestrator.cli.forest import Pod, matching, short_ids
from orchestrator.cli.seam import Gateway
from orchestrator.home import VERSION, Home, find_home

PATIENCE = 30.0
"""Seconds for which a command waits for an owner that is starting (or ending)."""
PAGE = 500


class Reader(Protocol):
    """What listings need, from the owner or, without one, from the store."""

    def pods(self, **conditions: Any) -> list[Pod]:
        """All that meet the conditions (`status, parent, root, name`), in order of creation."""

    def pod(self, pod_id: str) -> Pod: ...

    def log(self, pod_id: str, after: int, limit: int) -> tuple[Sequence[Mapping[str, Any]], int]:
        """Entries after `after`, and the head."""

    def tasks(self, pod_id: str) -> Mapping[str, Any]:
        """The task list, in the form of `GET /v1/pods/{id}/tasks`."""

    def usage(self, by: str, pod_id: str | None) -> Mapping[str, Any]:
        """What was spent, of all Pods or of one and those below it, in the form of `GET /v1/usage`."""

    def top(self) -> Mapping[str, Any]:
        """The figures of `GET /v1/top`."""

    def questions(self) -> Sequence[Mapping[str, Any]]:
        """Every open question, oldest first, in the inbox's form."""

    def close(self) -> None: ...


class GatewayReader:
    """Reads through the owner."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    def pods(self, **conditions: Any) -> list[Pod]:
        pods, cursor = [], None
        while True:
            page = self.gateway.get("/v1/pods", {**conditions, "limit": PAGE, "cursor": cursor})
            pods.extend(page["pods"])
            cursor = page.get("next")
            if cursor is None:
                return pods

    def pod(self, pod_id: str) -> Pod:
        pod: Pod = self.gateway.get(f"/v1/pods/{pod_id}")
        return pod

    def log(self, pod_id: str, after: int, limit: int) -> tuple[Sequence[Mapping[str, Any]], int]:
        page = self.gateway.get(f"/v1/pods/{pod_id}/log", {"after": after, "limit": limit})
        return page["entries"], int(page["head_seq"])

    def tasks(self, pod_id: str) -> Mapping[str, Any]:
        tasks: Mapping[str, Any] = self.gateway.get(f"/v1/pods/{pod_id}/tasks")
        return tasks

    def usage(self, by: str, pod_id: str | None) -> Mapping[str, Any]:
        told: Mapping[str, Any] = self.gateway.get("/v1/usage", {"by": by, "pod": pod_id})
        return told

    def top(self) -> Mapping[str, Any]:
        figures: Mapping[str, Any] = self.gateway.get("/v1/top")
        return figures

    def questions(self) -> Sequence[Mapping[str, Any]]:
        questions: Sequence[Mapping[str, Any]] = self.gateway.get("/v1/inbox")["questions"]
        return questions

    def close(self) -> None:
        """Calls hold no connection."""


def home_of(options: Namespace) -> Home:
    return find_home(options.home, os.environ)


def reach(home: Home, patience: float = PATIENCE) -> Gateway | None:
    """The owner's gateway; None when the home has no owner. Raises `CommandError` when the owner does not answer."""
    limit = time.monotonic() + patience
    reason = "it has not said where it answers"
    while home.is_owned():
        owner = home.owner()
        if owner is not None:
            if owner.version != VERSION:
                raise UsageError(
                    f"the home {home.path} is owned by polypod {owner.version} (process {owner.pid}), "
                    f"this is {VERSION}: use the same version, or end that process first"
                )
            try:
                Gateway(owner.address, owner.secret, timeout=5).get("/healthz")
                return Gateway(owner.address, owner.secret)
            except OwnerLost as error:
                reason = error.message
        if time.monotonic() > limit:
            pid = home.owner_pid()
            raise CommandError(
                f"the home {home.path} is held by process {pid}, but {reason}\n"
                f"wait for it, or end it (kill {pid}) and try again"
            )
        time.sleep(0.05)
    return None


def open_reader(options: Namespace) -> Reader:
    """A reader for listings: the owner, or the store itself when there is no owner."""
    home = home_of(options)
    gateway = reach(home)
    if gateway is not None:
        return GatewayReader(gateway)
    from orchestrator.cli.offline import StoreReader  # lazy: start-up, a served home needs no store code

    return StoreReader(home)


def pod_of(options: Namespace) -> Pod:
    """The Pod that a command is about, looked up before anything is started for it."""
    reader = open_reader(options)
    try:
        return find_pod(reader, options.pod)
    finally:
        reader.close()


def find_pod(reader: Reader, text: str) -> Pod:
    """The one Pod that `text` means. Raises `UsageError` when there is none, or more than one."""
    found = matching(reader.pods(), text)
    open_ones = [pod for pod in found if pod["status"] != "ended"]
    if len(found) > 1 and len(open_ones) == 1:
        return open_ones[0]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"there is no Pod {text!r} in this home; `polypod ps --all` lists them")
    short = short_ids(pod["id"] for pod in found)
    several = ", ".join(f"{short[pod['id']]} ({pod.get('name')})" for pod in found[:8])
    raise UsageError(f"{text!r} may mean {len(found)} Pods: {several}; say which by its id")
