"""What the screen asks of the gateway: blocking calls, made by worker threads."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.cli.failure import CommandError, GatewayProblem, OwnerLost
from orchestrator.cli.seam import Gateway
from orchestrator.tui.feed import NO_OWNER, Reach

PAGE = 200
"""Entries that are read at once, from the youngest on."""
TREE_LIMIT = 1000
COMPLETIONS = 20


@dataclass(frozen=True, slots=True)
class Opened:
    """A Pod, and the youngest entries of its log."""

    pod: Mapping[str, Any]
    entries: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Look:
    """The Pods that the side shows, the current one among them, and its tasks; None: they were not asked for."""

    pods: Sequence[Mapping[str, Any]]
    tasks: Sequence[Mapping[str, Any]] | None = None


class Desk:
    """Every call raises `CommandError`; `OwnerLost` when there is no answer."""

    def __init__(self, reach: Reach, workspace: str) -> None:
        self.reach = reach
        self.workspace = workspace
        self._known: Gateway | None = None

    def open(self, pod_id: str) -> Opened:
        pod = self._get(f"/v1/pods/{pod_id}")
        return Opened(pod, self._entries(pod_id, max(int(pod["head_seq"]) - PAGE, 0)))

    def older(self, pod_id: str, first: int) -> Sequence[Mapping[str, Any]]:
        """The page that ends before entry `first`."""
        after = max(first - 1 - PAGE, 0)
        return self._entries(pod_id, after, first - 1 - after) if first > 1 else ()

    def first(self, pod_id: str) -> Sequence[Mapping[str, Any]]:
        """The first entry, which holds the settings."""
        return self._entries(pod_id, 0, 1)

    def look(self, root_id: str | None, tasks_of: str | None) -> Look:
        """`tasks_of`: the Pod whose tasks are wanted too; the gateway reads a whole log for them."""
        query: dict[str, Any] = {"limit": TREE_LIMIT}
        if root_id is not None:
            query["root"] = root_id
        pods = self._get("/v1/pods", query)["pods"]
        return Look(pods, None if tasks_of is None else self.tasks(tasks_of))

    def send(self, pod_id: str, segments: Sequence[Mapping[str, Any]], message_id: str, when_busy: str) -> None:
        body = {"segments": list(segments), "message_id": message_id, "when_busy": when_busy}
        self._post(f"/v1/pods/{pod_id}/messages", body)

    def create(self, segments: Sequence[Mapping[str, Any]], message_id: str) -> str:
        """A new root Pod with this task; gives its id."""
        body = {"segments": list(segments), "message_id": message_id, "workspace": self.workspace}
        return str(self._post("/v1/pods", body)["id"])

    def answer(self, pod_id: str, question_id: str, choice: str | None, text: str | None) -> None:
        body = {"question_id": question_id, "choice": choice, "text": text}
        self._post(f"/v1/pods/{pod_id}/answer", {k: v for k, v in body.items() if v is not None})

    def control(self, pod_id: str, action: str) -> Mapping[str, Any]:
        """`pause`, `resume` or `cancel`."""
        reply: Mapping[str, Any] = self._post(f"/v1/pods/{pod_id}/{action}", {})
        return reply

    def complete(self, pod_id: str, sigil: str, prefix: str) -> Sequence[Mapping[str, Any]]:
        """What a reference may mean that begins like this; nothing from a server that does not complete."""
        query = {"sigil": sigil, "prefix": prefix, "limit": COMPLETIONS}
        try:
            found: Sequence[Mapping[str, Any]] = self._get(f"/v1/pods/{pod_id}/completions", query)["completions"]
        except GatewayProblem as problem:
            if problem.status == 404:
                return ()
            raise
        return found

    def tasks(self, pod_id: str) -> Sequence[Mapping[str, Any]]:
        try:
            return list(self._get(f"/v1/pods/{pod_id}/tasks").get("tasks") or ())
        except GatewayProblem as problem:
            if problem.status == 404:
                return ()  # an older server
            raise

    def _entries(self, pod_id: str, after: int, limit: int = 10_000) -> Sequence[Mapping[str, Any]]:
        entries: Sequence[Mapping[str, Any]] = self._get(f"/v1/pods/{pod_id}/log", {"after": after, "limit": limit})[
            "entries"
        ]
        return entries

    def _get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self._with_gateway(lambda gateway: gateway.get(path, query))

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._with_gateway(lambda gateway: gateway.post(path, body))

    def _with_gateway(self, call: Any) -> Any:
        """Whoever owned the home last is asked first; who owns it now is looked up when that fails."""
        gateway = self._known or self.reach()
        if gateway is None:
            raise CommandError(NO_OWNER)
        try:
            result = call(gateway)
        except OwnerLost:
            self._known = None
            raise
        self._known = gateway
        return result


def new_message_id() -> str:
    return f"attach-{secrets.token_hex(12)}"
