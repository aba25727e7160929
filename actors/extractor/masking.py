"""Secrets by their looks. Pure; what is secret by its value (keys in the environment) is masked by who knows it."""

from __future__ import annotations

import re

MASKED = "[secret]"

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:.*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|"
    r"(?:[A-Za-z0-9+/=:,\-\s\\]|\\n)*)",
    re.DOTALL,
)
"""Also one that is cut off before its end."""
_TOKENS = re.compile(
    r"(?<![A-Za-z0-9])(?:"  # no \b: to it kana and kanji are letters too
    r"(?:sk|pk|rk|xai|gsk|hf|whsec|shpat|dop_v1|npm|pypi)[-_][A-Za-z0-9_\-]{12,}"  # model and service providers
    r"|(?:gh[pousr]|github_pat|glpat|glptt|xox[abposr]|xapp)[-_][A-Za-z0-9_\-]{10,}"  # code hosts, chat
    r"|A(?:KIA|SIA|ROA|IDA)[A-Z0-9]{16}"  # cloud access keys
    r"|AIza[A-Za-z0-9_\-]{30,}|ya29\.[A-Za-z0-9_\-]{20,}"
    r"|eyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+"  # JSON web tokens
    r")"
)
_BEARER = re.compile(r"(?i)(?<![A-Za-z0-9])(bearer|basic)(\s+)[A-Za-z0-9._~+/=\-]{12,}")
_ASSIGNED = re.compile(
    r"(?i)((?:api[_\-]?key|access[_\-]?key|secret[_\-]?key|private[_\-]?key|client[_\-]?secret"
    r"|auth[_\-]?token|access[_\-]?token|refresh[_\-]?token|token|secret|passw(?:or)?d|passphrase)"
    r"[\"']?\s*(?:=|:|=>)\s*)([\"']?)(?!\[secret\]|\[redacted\]|\[hidden\])([^\s\"',;{}\[\]()<>]{6,})"
)
"""`NAME = value` with a name that says it is secret."""
_IN_URL = re.compile(r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z0-9+.\-]{1,20}://[^\s/:@]{0,100}:)[^\s/@]{1,200}@")


def masked(text: str) -> str:
    """The text without what looks like a private key, a key, a token or a password."""
    text = _PRIVATE_KEY.sub(MASKED, text)
    text = _TOKENS.sub(MASKED, text)
    text = _BEARER.sub(lambda m: f"{m[1]}{m[2]}{MASKED}", text)
    text = _IN_URL.sub(lambda m: f"{m[1]}{MASKED}@", text)
    return _ASSIGNED.sub(lambda m: f"{m[1]}{m[2]}{MASKED}", text)
