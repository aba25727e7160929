"""Keeping keys out of everything that is shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from actors.protocol.model import ModelError

HIDDEN = "[hidden]"
# No \b: to it kana and kanji are letters too, and a key right behind them would be shown.
_KEY_LIKE = re.compile(
    r"(?<![A-Za-z0-9])(?:sk|pk|rk|xai|gsk|hf|glpat|ghp|AIza)[-_][A-Za-z0-9_*\-]{6,}|(?<![A-Za-z0-9])AIza[A-Za-z0-9_\-]{20,}"
    r"|(?i:(?<![A-Za-z0-9])(?:bearer|basic)\s+)[A-Za-z0-9._~+/=*\-]{8,}"
)
_SHORTEST = 4


@dataclass(frozen=True, slots=True)
class Redactor:
    """Hides the given secrets, and whatever looks like a key, in texts."""

    secrets: tuple[str, ...] = field(default=(), repr=False)

    def clean(self, text: str) -> str:
        for secret in self.secrets:
            if len(secret) >= _SHORTEST:
                text = text.replace(secret, HIDDEN)
        return _KEY_LIKE.sub(HIDDEN, text)

    def clean_error(self, error: ModelError) -> ModelError:
        """The same error, cleaned in place and without the cause that led to it."""
        error.message = self.clean(error.message)
        error.detail = {name: self.clean(value) for name, value in error.detail.items()}
        error.args = (error.type, error.message)
        error.__cause__ = None
        error.__context__ = None
        return error
