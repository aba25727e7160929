"""Watching a tree of Pods through the gateway, and telling an audience what happens.

A look at the whole tree, a few times a second, says which Pods there are, where they stand and whether anything can
still move. The entries and live text of the first Pods come over their event streams; those of the others, and
whatever a stream has not brought by the end, are read from their logs. Entries are told once each, by their seq.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from actors.protocol.live import Delta, Discard, Retry
from orchestrator.cli.audience import Audience
from orchestrator.cli.failure import CommandError, GatewayProblem, OwnerLost
from orchestrator.cli.forest import Pod, Verdict, judge
from orchestrator.cli.pod_stream import PodStream, entry_of
from orchestrator.cli.seam import Gateway
from orchestrator.events import AlertEvent, PodStreamEvent, Resync, SystemItemEvent, wire_form

LOOK_EVERY = 0.25
LOOK_AT_LEAST_EVERY = 2.0
"""Seconds between two looks at most: a look that was slow once (a store that restarts) must not blind the run."""
STREAMS = 16
PAGE = 500
CONFIRM = 2.5
"""Seconds for which a wait that no person can end is looked at before it is believed (a lost hint costs one sweep)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A look at the tree; `whole` when it is one consistent look."""

    pods: tuple[Pod, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class Came:
    """An event of a stream."""

    pod_id: str
    event: PodStreamEvent


Happening: TypeAlias = Seen | Came | CommandError


def tree_of(gateway: Gateway, root_id: str) -> Seen:
    """All Pods of a tree, in order of creation."""
    pods, cursor, pages = [], None, 0
    while True:
        page = gateway.get("/v1/pods", {"root": root_id, "limit": PAGE, "cursor": cursor})
        pods.extend(page["pods"])
        cursor, pages = page.get("next"), pages + 1
        if cursor is None:
            return Seen(tuple(pods), pages == 1)


def log_of(gateway: Gateway, pod_id: str, after: int, limit: int = PAGE) -> list[Mapping[str, Any]]:
    """Entries after `after`, at most `limit`."""
    page = gateway.get(f"/v1/pods/{pod_id}/log", {"after": after, "limit": limit})
    return list(page["entries"])


class TreeWatch:
    """One watched tree. `follow` blocks the calling thread; a KeyboardInterrupt may end it and `follow` go on later."""

    def __init__(self, gateway: Gateway, root_id: str, audience: Audience) -> None:
        self._gateway = gateway
        self._root_id = root_id
        self._audience = audience
        self._queue: queue.Queue[Happening] = queue.Queue()
        self.told: dict[str, int] = {}
        """The last entry told of each Pod."""
        self._streams: dict[str, PodStream] = {}
        self._damaged: dict[str, str] = {}
        """Pods whose logs are damaged, and what was said of it: they do not move, whatever their status."""
        self._stopped = threading.Event()
        self._looker = threading.Thread(target=self._look, name="polypod-look", daemon=True)

    def start_at(self, pod_id: str, seq: int) -> None:
        """Entries of this Pod up to `seq` are old news."""
        self.told[pod_id] = seq

    def follow(self, limit: float | None = None) -> tuple[Verdict, tuple[Pod, ...]]:
        """Tell until nothing moves any more (or for `limit` s). Raises `OwnerLost`, and `CommandError`
        when nothing but Pods with damaged logs could move."""
        if self._looker.ident is None:
            self._looker.start()
        deadline = None if limit is None else time.monotonic() + limit
        stuck_since: float | None = None
        while True:
            seen = self._next_look(deadline)
            if seen is None:
                return Verdict("moving"), ()
            verdict = judge(seen.pods, self._root_id)
            if verdict.kind == "moving" and not any(map(self._can_move, seen.pods)):
                raise CommandError(next(iter(self._damaged.values())))
            blocked = verdict.kind == "stuck" and not any(p["status"] != "waiting_on_children" for p in verdict.stuck)
            now = time.monotonic()
            if verdict.kind == "moving":
                stuck_since = None
            elif not blocked and seen.whole:
                return verdict, self._finish(seen)
            else:
                stuck_since = now if stuck_since is None else stuck_since
                if now - stuck_since >= CONFIRM:
                    return verdict, self._finish(seen)

    def _can_move(self, pod: Pod) -> bool:
        return pod["status"] == "running" and pod["id"] not in self._damaged

    def close(self) -> None:
        self._stopped.set()
        for stream in self._streams.values():
            stream.close()

    def _next_look(self, deadline: float | None) -> Seen | None:
        """Tell what comes until there is a new look at the tree."""
        while True:
            if deadline is not None and time.monotonic() > deadline:
                return None
            try:
                happening = self._queue.get(timeout=0.5)
            except queue.Empty:
                self._audience.tick()
                continue
            match happening:
                case Came():
                    self._tell(happening.pod_id, happening.event)
                case Seen():
                    self._audience.pods(happening.pods)
                    self._start_streams(happening.pods)
                    self._read_logs([p for p in happening.pods if not self._streams_alive(p["id"])])
                    self._audience.tick()
                    return happening
                case CommandError():
                    raise happening

    def _finish(self, seen: Seen) -> tuple[Pod, ...]:
        """What the streams have not brought yet."""
        while not self._queue.empty():
            happening = self._queue.get_nowait()
            if isinstance(happening, Came):
                self._tell(happening.pod_id, happening.event)
        self._read_logs(seen.pods)
        return seen.pods

    def _tell(self, pod_id: str, event: PodStreamEvent) -> None:
        entry = entry_of(event)
        if entry is not None:
            self._tell_entry(pod_id, entry, whole=not isinstance(event, SystemItemEvent) or event.last)
            return
        match event:
            case Delta() | Retry() | Discard() | AlertEvent():
                self._audience.live(pod_id, event.type, wire_form(event).data)
            case Resync(reason="store-damaged"):
                self._note_damage(pod_id, event.detail or f"the log of {pod_id} is damaged")
            case _:
                pass  # `status` and `resync` come with the next look; unknown kinds are for newer clients

    def _tell_entry(self, pod_id: str, entry: Mapping[str, Any], whole: bool = True) -> None:
        """`whole` False: more items of the same entry follow."""
        seq = int(entry["seq"])
        if seq > self.told.get(pod_id, 0):
            if whole:
                self.told[pod_id] = seq
            self._audience.entry(pod_id, entry)

    def _read_logs(self, pods: tuple[Pod, ...] | list[Pod]) -> None:
        for pod in pods:
            try:
                self._read_log(pod)
            except GatewayProblem as problem:
                if problem.type != "store-damaged":
                    raise
                self._note_damage(pod["id"], problem.message)

    def _read_log(self, pod: Pod) -> None:
        while pod["id"] not in self._damaged and self.told.get(pod["id"], 0) < int(pod["head_seq"]):
            entries = log_of(self._gateway, pod["id"], self.told.get(pod["id"], 0))
            if not entries:
                break
            for entry in entries:
                self._tell_entry(pod["id"], entry)

    def _note_damage(self, pod_id: str, message: str) -> None:
        if pod_id not in self._damaged:
            self._damaged[pod_id] = message
            self._audience.live(pod_id, "alert", {"level": "error", "message": message})

    def _streams_alive(self, pod_id: str) -> bool:
        stream = self._streams.get(pod_id)
        return stream is not None and not stream.lost

    def _start_streams(self, pods: tuple[Pod, ...]) -> None:
        for pod in pods:
            if len(self._streams) >= STREAMS or pod["id"] in self._streams:
                continue
            stream = PodStream(self._gateway, pod["id"], self.told.get(pod["id"], 0))
            self._streams[pod["id"]] = stream
            args = (pod["id"], stream)
            threading.Thread(target=self._stream, args=args, name="polypod-stream", daemon=True).start()

    def _stream(self, pod_id: str, stream: PodStream) -> None:
        """One stream; while it is lost, the Pod's log is read."""
        try:
            for event in stream.events():
                self._queue.put(Came(pod_id, event))
        except (OwnerLost, GatewayProblem):
            return  # the look says whether the owner is gone

    def _look(self) -> None:
        while not self._stopped.is_set():
            started = time.monotonic()
            try:
                self._queue.put(tree_of(self._gateway, self._root_id))
            except CommandError as error:
                self._queue.put(error)
                return
            self._stopped.wait(pause_after(time.monotonic() - started))


def pause_after(took: float) -> float:
    """Seconds until the next look after one that took `took` s: a large tree is looked at less often, so that watching
    costs a tenth of the time."""
    return min(max(LOOK_EVERY, 9 * took), LOOK_AT_LEAST_EVERY)
