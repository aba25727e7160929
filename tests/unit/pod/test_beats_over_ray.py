"""Which road a heartbeat takes: Ray's first, the short one while it stands, Ray's again when it does not."""

from __future__ import annotations

import socket
import threading
import uuid
from typing import Any

import pytest

from actors.pod.actor import RayDirectory
from session_store.codec import pack
from session_store.local_server import LENGTH


class Directory:
    """Stands for the actor's handle; its process has a short road that answers `lives` beats and then dies."""

    def __init__(self, lives: int) -> None:
        self.through_ray = self.through_line = 0
        self._lives = lives
        self.beat = self

    def remote(self, actor_id: str, held: list[Any]) -> Directory:
        return self

    def future(self) -> Directory:
        return self

    def result(self, timeout: float) -> dict[str, Any]:
        self.through_ray += 1
        return {"ok": True, "drop": ["by ray"], "line": self._listen() if self._lives else "nowhere"}

    def _listen(self) -> str:
        name = f"polypod-{uuid.uuid4().hex}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"\0{name}")
        listener.listen(1)
        threading.Thread(target=self._answer, args=(listener, self._lives), daemon=True).start()
        self._lives = 0
        return name

    def _answer(self, listener: socket.socket, lives: int) -> None:
        peer, _ = listener.accept()
        for _ in range(lives):
            assert peer.recv(1 << 16)
            self.through_line += 1
            reply = pack({"drop": ["by line"]})
            peer.sendall(LENGTH.pack(len(reply)) + reply)
        peer.close()
        listener.close()


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Directory:
    made = Directory(lives=2)
    monkeypatch.setattr(RayDirectory, "handle", made)
    return made


def test_law3_beats_take_the_short_road_while_it_stands_and_ray_in_the_very_beat_that_finds_it_gone(
    directory: Directory,
) -> None:
    actor = RayDirectory("a1", "directory", 5.0)
    drops = [actor.beat([], 5.0)["drop"][0] for _ in range(5)]
    assert drops == ["by ray", "by line", "by line", "by ray", "by ray"]
    assert (directory.through_ray, directory.through_line) == (3, 2)
