"""Who may ask: tokens, tenants, and what a browser must not do on somebody's behalf. Pure."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from orchestrator.gateway.options import GatewayOptions
from orchestrator.gateway.problems import HttpProblem

DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Caller:
    """`owner`: holds the home's secret, and so may say where a Pod works."""

    tenant: str = DEFAULT_TENANT
    owner: bool = False


class NotLoopback(Exception):
    """The gateway would be reachable from elsewhere without a token."""


def check_exposure(host: str, options: GatewayOptions) -> None:
    """Raises `NotLoopback`: beyond loopback a token is needed."""
    if not is_loopback(host) and not options.tenants:
        raise NotLoopback(
            f"The gateway does not listen on {host} without a token: set [gateway] token (or"
            " POLYPOD__GATEWAY__TOKEN), or listen on 127.0.0.1."
        )


def is_loopback(host: str) -> bool:
    """Whether an address (or `localhost`) is reached from this machine only."""
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


def caller_of(headers: Mapping[str, str], options: GatewayOptions) -> Caller:
    """Who sends these headers. Raises `HttpProblem`: 401 without a valid token, 403 for a foreign web page."""
    _check_origin(headers, guarded=bool(options.tenants))
    given = _bearer(headers)
    if given is None:
        if options.tenants:
            raise HttpProblem("forbidden", "This gateway asks for a token: send `Authorization: Bearer TOKEN`.", 401)
        return Caller()
    caller = None
    # Every token is compared, so that the time taken tells nothing.
    for token, tenant in options.tenants.items():
        if _same(given, token):
            caller = Caller(tenant)
    if options.home_secret is not None and _same(given, options.home_secret):
        caller = Caller(owner=True)
    if caller is None:
        raise HttpProblem("forbidden", "This token is not known here.", 401)
    return caller


def _bearer(headers: Mapping[str, str]) -> str | None:
    given = headers.get("authorization")
    if given is None:
        return None
    scheme, _, token = given.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _check_origin(headers: Mapping[str, str], guarded: bool) -> None:
    """Without a token, the address is all that keeps others out: a web page must not borrow the browser's.

    A page of another site shows itself by its `Origin`; one that renamed its own address to loopback, by `Host`.
    """
    host = headers.get("host", "")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        raise HttpProblem("forbidden", "Pages of other sites may not use this gateway.")
    if not guarded and not is_loopback(urlsplit(f"//{host}").hostname or ""):
        raise HttpProblem("forbidden", "Without a token this gateway answers to loopback addresses only.")


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode("utf-8", "replace"))
