"""Who a followed run is told to, and how it ended; people are in `narrator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.cli.forest import Pod, usage_of
from orchestrator.cli.paint import Screen
from orchestrator.cli.story import Entry


@dataclass(frozen=True, slots=True)
class Ending:
    """How a watched run ended: the root's result (`status, outcome, text, error?`), the whole tree, seconds taken.

    `questions` as in the inbox; `paused` are the Pods that wait for `resume`.
    """

    root_id: str
    result: Mapping[str, Any]
    pods: Sequence[Pod]
    seconds: float
    questions: Sequence[Mapping[str, Any]] = ()
    paused: Sequence[Pod] = ()


class Audience(Protocol):
    """What is told of a run."""

    def pods(self, pods: Sequence[Pod]) -> None:
        """The tree as it is now."""

    def entry(self, pod_id: str, entry: Entry) -> None:
        """A committed entry, each once and in order within its Pod."""

    def live(self, pod_id: str, name: str, data: Mapping[str, Any]) -> None:
        """`delta`, `retry`, `discard` or `alert`."""

    def say(self, text: str) -> None:
        """A word of the command itself."""

    def tick(self) -> None:
        """Time has passed."""

    def end(self, ending: Ending) -> None: ...


class Silence:
    """Tells nobody."""

    def pods(self, pods: Sequence[Pod]) -> None: ...

    def entry(self, pod_id: str, entry: Entry) -> None: ...

    def live(self, pod_id: str, name: str, data: Mapping[str, Any]) -> None: ...

    def say(self, text: str) -> None: ...

    def tick(self) -> None: ...

    def end(self, ending: Ending) -> None: ...


class JsonNarrator:
    """Tells programs: one JSON object a line, the result as the last. Live text comes with its entry."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._statuses: dict[str, str] = {}

    def pods(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            known = self._statuses.get(pod["id"])
            self._statuses[pod["id"]] = pod["status"]
            if known is None:
                self._tell({"event": "pod", "pod_id": pod["id"], "pod": pod})
            elif known != pod["status"]:
                self._tell({"event": "status", "pod_id": pod["id"], "status": pod["status"]})

    def entry(self, pod_id: str, entry: Entry) -> None:
        self._tell({"event": "entry", "pod_id": pod_id, "entry": entry})

    def live(self, pod_id: str, name: str, data: Mapping[str, Any]) -> None:
        if name != "delta":
            self._tell({"event": name, "pod_id": pod_id, **data})

    def say(self, text: str) -> None:
        self._tell({"event": "note", "message": text})

    def tick(self) -> None:
        """Time alone is no news."""

    def end(self, ending: Ending) -> None:
        result = ending.result
        self._tell(
            {
                "pod_id": ending.root_id,
                "status": result.get("status"),
                "outcome": result.get("outcome"),
                "text": result.get("text"),
                **({"error": result["error"]} if result.get("error") else {}),
                "usage": usage_of(ending.pods),
                "pods": len(ending.pods),
                "seconds": round(ending.seconds, 3),
                "questions": list(ending.questions),
                "paused": [{"pod_id": pod["id"], "pod_name": pod.get("name")} for pod in ending.paused],
            }
        )

    def _tell(self, value: Mapping[str, Any]) -> None:
        self._screen.json(value)
        self._screen.flush()
