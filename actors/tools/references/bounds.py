"""The sizes of references, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReferenceBounds:
    """Sizes are bytes."""

    file: int = 100_000
    """Of one file's bytes that are attached; about 33,000 characters of Japanese. The rest is for Read."""
    listing: int = 1_000
    """Names of a folder that are listed."""
    note: int = 256 * 1024
    """The largest knowledge or workflow file; a part of one would say something else than the whole."""
    prompt: int = 1_000_000
    """Of all that one prompt brings along, as UTF-8."""
    references: int = 64
    """References of one prompt."""
    brought: int = 16
    """Knowledge that comes along with what a prompt names, by `requires`."""
    scanned: int = 10_000
    """Names of a folder that a completion looks at."""
