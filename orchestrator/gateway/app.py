"""The ASGI app: which path goes where."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from orchestrator.gateway import routes_events as events
from orchestrator.gateway import routes_messages as messages
from orchestrator.gateway import routes_metrics as figures
from orchestrator.gateway import routes_pods as pods
from orchestrator.gateway import routes_turns as turns
from orchestrator.gateway import routes_usage as spending
from orchestrator.gateway.context import Endpoint, Gateway, Handler
from orchestrator.gateway.problems import HttpProblem, invalid, problem_response

POD = "/v1/pods/{pod_id}"

ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("POST", "/v1/pods", pods.create),
    ("GET", "/v1/pods", pods.show_all),
    ("GET", POD, pods.show),
    ("GET", f"{POD}/log", pods.log),
    ("GET", f"{POD}/tasks", pods.tasks),
    ("GET", f"{POD}/result", pods.result),
    ("GET", f"{POD}/completions", pods.completions),
    ("GET", f"{POD}/events", events.of_pod),
    ("POST", f"{POD}/messages", messages.prompt),
    ("POST", f"{POD}/notify", messages.notify),
    ("POST", f"{POD}/pod_event", messages.pod_event),
    ("POST", f"{POD}/answer", messages.answer),
    ("POST", f"{POD}/pause", messages.control("pause")),
    ("POST", f"{POD}/resume", messages.control("resume")),
    ("POST", f"{POD}/cancel", messages.control("cancel")),
    ("POST", f"{POD}/stop", messages.stop),
    ("POST", f"{POD}/rewind", turns.rewind),
    ("POST", f"{POD}/compact", turns.compact),
    ("POST", f"{POD}/fork", turns.fork),
    ("GET", "/v1/inbox", pods.inbox),
    ("GET", "/v1/usage", spending.usage),
    ("GET", "/v1/events", events.of_all),
    ("GET", "/v1/alerts", events.alerts),
    ("GET", "/v1/top", figures.top),
    ("GET", "/metrics", figures.metrics),
)
PROBES: tuple[tuple[str, Handler], ...] = (("/healthz", events.alive), ("/readyz", events.ready))


def build_app(gateway: Gateway) -> Starlette:
    """The app of this gateway. Whoever runs it closes the gateway (its lifespan does)."""
    by_path: dict[str, dict[str, Handler]] = {}
    for method, path, handler in ROUTES:
        by_path.setdefault(path, {})[method] = handler
    routes = [Route(path, _Methods(gateway, by_method)) for path, by_method in by_path.items()]
    routes += [Route(path, Endpoint(gateway, handler, open_to_all=True), methods=["GET"]) for path, handler in PROBES]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await gateway.close()

    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _http_error})
    # One path has one name: a body must not be lost in a redirect.
    app.router.redirect_slashes = False
    return app


class _Methods:
    """The handlers of one path by method, as an ASGI app."""

    def __init__(self, gateway: Gateway, by_method: dict[str, Handler]) -> None:
        self._endpoints = {method: Endpoint(gateway, handler) for method, handler in by_method.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["method"])
        if endpoint is None:
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(self._endpoints))})
        await endpoint(scope, receive, send)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    if error.status_code == 404:
        return problem_response(HttpProblem("not-found", f"There is nothing at {path}."))
    allowed = dict(error.headers or {})
    known = f"{path} takes {allowed.get('Allow', 'other methods')}, not {request.method}."
    response = problem_response(invalid(known, error.status_code))
    response.headers.update(allowed)
    return response
