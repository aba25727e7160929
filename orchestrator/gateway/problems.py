"""Every error of the HTTP seam as a problem document (RFC 9457).

Types are `urn:polypod:` with `not-found, busy, pod-ended, already-answered, question-closed, invalid, limit, forbidden,
store-damaged`. What is no fault of the request and none of these is `about:blank` with its status.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from pydantic import ValidationError
from starlette.responses import Response

from orchestrator.gateway.sse import json_bytes
from orchestrator.ports import ControlPlaneError
from session_store.errors import ConditionFailed, Refused, StoreDamaged, StoreUnavailable, UnknownSession

URN = "urn:polypod:"
BLANK = "about:blank"
MEDIA_TYPE = "application/problem+json"

STATUS = {
    "not-found": 404,
    "busy": 409,
    "pod-ended": 409,
    "already-answered": 409,
    "question-closed": 409,
    "invalid": 422,
    "limit": 429,
    "forbidden": 403,
    "store-damaged": 500,
}
_BY_REASON: dict[str, tuple[str, int | None]] = {
    "ended": ("pod-ended", 409),
    "already_answered": ("already-answered", 409),
    "question_closed": ("question-closed", 409),
    "unknown_choice": ("invalid", 422),
    "invalid": ("invalid", 422),
    "scope": ("invalid", 422),
    "name_taken": ("invalid", 409),
    "conflict": ("invalid", 409),
    "limit": ("limit", 429),
    "busy": ("busy", 409),
    "head_moved": ("busy", 409),
}


class HttpProblem(Exception):
    """An answer that is no success. `kind` is a type's last part (None: `about:blank`); `more` are extra members."""

    def __init__(self, kind: str | None, detail: str, status: int | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.status = status or STATUS[kind or "store-damaged"]
        self.more = more


def invalid(detail: str, status: int = 422, **more: Any) -> HttpProblem:
    return HttpProblem("invalid", detail, status, **more)


def pod_not_found(pod_id: str) -> HttpProblem:
    """The same for a Pod that does not exist and for one of another tenant."""
    return HttpProblem("not-found", f"There is no Pod {pod_id[:80]!r}.")


def from_error(error: Exception) -> HttpProblem | None:
    """The problem that tells of a known error; None for one that nobody expected."""
    match error:
        case HttpProblem():
            return error
        case ControlPlaneError():
            kind, status = _BY_REASON.get(error.code, (error.code, None))
            return HttpProblem(kind, error.message, status) if kind in STATUS else HttpProblem("invalid", error.message)
        case ConditionFailed():
            kind, status = _BY_REASON.get(error.reason, ("busy", 409))
            more = {"head_seq": error.detail["head"]} if "head" in error.detail else {}
            return HttpProblem(kind, _sentence(error.message), status, **more)
        case UnknownSession():
            return pod_not_found(str(error.detail.get("session", "")))
        case StoreDamaged():
            more = {k: error.detail[k] for k in ("session", "seq") if k in error.detail}
            return HttpProblem("store-damaged", _sentence(error.message), **more)
        case Refused():
            return HttpProblem(None, _sentence(error.message), 503)
        case StoreUnavailable():
            said = str(error) or "no answer"
            return HttpProblem(None, f"The store cannot be reached now ({said}). Send the same request again.", 503)
        case _:
            return None


def from_validation(error: ValidationError, where: str) -> HttpProblem:
    """All complaints about a body or a query, each with its field."""
    told = []
    for one in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(part) for part in one["loc"] if part not in ("[key]",)) or where
        said = one["msg"].removeprefix("Value error, ")
        if one["type"] == "extra_forbidden":
            said = "unknown field"
        told.append({"field": place, "message": said})
    detail = "; ".join(f"{t['field']}: {t['message']}" for t in told[:5])
    return invalid(f"The {where} is not as it should be: {detail}.", errors=told[:20])


def problem_response(problem: HttpProblem) -> Response:
    title = HTTPStatus(problem.status).phrase
    document = {
        "type": BLANK if problem.kind is None else URN + problem.kind,
        "title": title,
        "status": problem.status,
        "detail": problem.detail,
        **problem.more,
    }
    headers = {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.status == 503:
        headers["Retry-After"] = "1"
    return Response(json_bytes(document), problem.status, headers, MEDIA_TYPE)


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."
