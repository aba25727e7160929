"""What tokens cost. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

Prices: TypeAlias = Mapping[str, float]
"""Money per million tokens: `input` (what is neither read from a cache nor written to one), `cache_read`,
`cache_write`, `output`."""
_MILLION = 1_000_000


class Tokens(Protocol):
    """`input` is the whole prompt, of which the cache figures are parts."""

    @property
    def input(self) -> int: ...
    @property
    def cache_read(self) -> int: ...
    @property
    def cache_write(self) -> int: ...
    @property
    def output(self) -> int: ...


def cost(tokens: Tokens, prices: Prices) -> float:
    """In the money of the prices; a kind without a price costs nothing."""
    fresh = max(0, tokens.input - tokens.cache_read - tokens.cache_write)
    by_kind = {
        "input": fresh,
        "cache_read": tokens.cache_read,
        "cache_write": tokens.cache_write,
        "output": tokens.output,
    }
    return sum(count * prices.get(kind, 0.0) for kind, count in by_kind.items()) / _MILLION
