"""What a provider's error means: its status, code and words, sorted into the types of `ModelError`."""

from __future__ import annotations

import json
import re

from actors.models.wire.shape import as_object, as_text
from actors.protocol.model import ModelError
from session_store.items import Json

MAX_WORDS = 600

ERROR_TYPES = frozenset(
    {
        *("auth", "bad_request", "not_found", "rate_limited", "overloaded", "server", "connection", "timeout"),
        *("broken_stream", "empty_reply", "context_overflow", "refused", "script", "settings"),
    }
)
"""Every type a `ModelError` may have."""

_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context (size|window|length)[^.]{0,40}exceed"
    r"|exceed[^.]{0,60}context|prompt is too long|input is too long|too many (input )?tokens|request_too_large"
    r"|model_context_window_exceeded",
    re.IGNORECASE,
)
_BY_CODE = {
    "authentication_error": "auth",
    "invalid_api_key": "auth",
    "permission_error": "auth",
    "not_found_error": "not_found",
    "model_not_found": "not_found",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "insufficient_quota": "rate_limited",
    "overloaded_error": "overloaded",
    "invalid_request_error": "bad_request",
    "timeout_error": "timeout",
    "api_error": "server",
    "server_error": "server",
}
_BY_STATUS = {401: "auth", 403: "auth", 404: "not_found", 408: "timeout", 429: "rate_limited"}


def error_type(status: int | None, code: str, words: str) -> str:
    """The `ModelError` type of an HTTP status (None: an error inside a stream), a provider's code and its message."""
    if status in (None, 400, 413, 422, 500) and (_OVERFLOW.search(code) or _OVERFLOW.search(words)):
        return "context_overflow"
    if status == 413:
        return "context_overflow"
    if status is None:
        if code.isdigit():
            return error_type(int(code), "", words)
        return _BY_CODE.get(code, "server")
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status in (503, 529) or code == "overloaded_error":
        return "overloaded"
    return "server" if status >= 500 else "bad_request"


def error_event(error: Json) -> ModelError:
    """The error object inside a stream (`{"type"?, "code"?, "message"}`, or only words)."""
    code, words = _parts(error)
    return ModelError(
        error_type(None, code, words),
        f"the provider reported an error in its reply: {words or code or 'no reason given'}",
        detail={"code": code} if code else {},
    )


def error_response(status: int, body: bytes) -> ModelError:
    """A response that is not 200. Of the body only the provider's own message is kept, at most `MAX_WORDS` long."""
    try:
        plain = json.loads(body)
    except (ValueError, RecursionError):
        plain = body.decode("utf-8", "replace").strip()
    if isinstance(plain, list) and plain:
        plain = plain[0]
    code, words = _parts(as_object(plain).get("error", plain))
    said = f": {words}" if words else ""
    return ModelError(
        error_type(status, code, words),
        f"the provider answered {status}{said}",
        status=status,
        detail={"code": code} if code else {},
    )


def _parts(error: Json) -> tuple[str, str]:
    if isinstance(error, str):
        return "", _short(error)
    plain = as_object(error)
    code = plain.get("code")
    kind = as_text(plain.get("type"))
    name = str(code) if isinstance(code, (str, int)) and code != "" else kind
    if name.isdigit() and kind:
        name = kind if kind in _BY_CODE or _OVERFLOW.search(kind) else name
    words = as_text(plain.get("message")) or as_text(plain.get("detail"))
    return name, _short(words)


def _short(words: str) -> str:
    plain = " ".join(words.split())
    return plain if len(plain) <= MAX_WORDS else plain[:MAX_WORDS] + "…"
