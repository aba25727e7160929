"""The trees that an embedded home goes on with, kept where a restarted Directory finds them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RootsFile:
    """One root's id a line. It lasts as long as the owner: `begin` starts it anew."""

    path: Path

    def begin(self, roots: frozenset[str]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(f"{root}\n" for root in sorted(roots)), encoding="utf-8")

    def load(self) -> set[str]:
        """A last line that was cut off by a crash names no session, and does no harm."""
        return set(self.path.read_text(encoding="utf-8").split()) if self.path.exists() else set()

    def add(self, root: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{root}\n")
