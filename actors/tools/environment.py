"""What of the environment a tool process gets, and what of it must never be told. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

# An allow-list: what is not known to be harmless stays out, so no key gets through under a new name.
_PASSED = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "JAVA_HOME",
        "GOPATH",
        "GOROOT",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "NVM_DIR",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
    ]
)
_SECRET = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|COOKIE)(_|$)|(^|_)(PWD|PAT|DSN)$", re.IGNORECASE
)
_SET = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a tool process: paths, language and tool chains; no keys, nothing of ours, no pager."""
    passed = {k: v for k, v in environment.items() if k in _PASSED or k.startswith("LC_")}
    if not any(name in passed for name in ("LANG", "LC_ALL", "LC_CTYPE")):
        passed["LANG"] = "C.UTF-8"
    return {**passed, **_SET}


def redacted(text: str, environment: Mapping[str, str]) -> str:
    """The text without the values of variables that are named like secrets."""
    secrets = {v for k, v in environment.items() if _SECRET.search(k) and k != "PWD" and len(v) >= 6}
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, "[redacted]")
    return text
