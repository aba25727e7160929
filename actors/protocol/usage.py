"""Tokens of internal workers (the extractor, the compactor): in the session's log, but not among its own requests.

One `extension{domain: "worker.usage"}` for each request of a worker, keyed by the request's id, so it counts once. It
is written when the reply has come, also when the worker's answer is of no use: it was paid for all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from actors.protocol.model import ModelReply
from session_store.codec import from_plain, to_plain
from session_store.entries import Extension

DOMAIN = "worker.usage"
NEVER_REFUSED = 2**62
"""As guard of the annotation: a rewind makes nothing unspent."""


@dataclass(frozen=True, slots=True)
class WorkerUsage:
    """As `llm_usage` (`session_store.entries.LlmUsage`). `worker` is its label, `model` its name in the settings."""

    worker: str
    request_id: str
    model: str
    input: int
    cache_read: int
    cache_write: int
    output: int
    latency: int
    estimated: bool = False

    def entry(self) -> Extension:
        return Extension(DOMAIN, to_plain(self))


def worker_usage(worker: str, request_id: str, model: str, reply: ModelReply) -> WorkerUsage:
    used = reply.usage
    return WorkerUsage(
        worker,
        request_id,
        model,
        used.input,
        used.cache_read,
        used.cache_write,
        used.output,
        reply.latency,
        used.estimated,
    )


def read_usage(entry: Extension) -> WorkerUsage | None:
    """What the entry says; None if it is of another domain or malformed."""
    if entry.domain != DOMAIN:
        return None
    try:
        return from_plain(WorkerUsage, entry.payload)
    except ValidationError:
        return None
