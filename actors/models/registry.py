"""From a model's settings to the model. The one place that knows all providers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never
from urllib.parse import urlsplit

from actors.models.limits_client import Limits
from actors.protocol.config import ModelSpec
from actors.protocol.model import Model, ModelError

if TYPE_CHECKING:
    from actors.models.options import EndpointOptions
    from actors.models.transport import Transport
    from actors.models.wire.shape import Wire

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"
_NAMELESS = 'without a key there are `provider = "scripted"` and `polypod demo`, or a local server\'s `base_url`'
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_LOOPBACK = ("localhost", "127.", "[::1]", "::1")


def build_model(
    spec: ModelSpec,
    environment: Mapping[str, str],
    limits: Limits | None = None,
    transport: Transport | None = None,
) -> Model:
    """The model of `spec`. Keys and proxies come from `environment`.

    Build it once for a process and share it: it keeps connections. `transport` replaces the network (tests).
    Raises `ModelError`: `settings`, or `auth` when a key is missing.
    """
    match spec.provider:
        case "scripted":
            from actors.models.scripted import ScriptedModel  # lazy: its checks of scripts weigh 2 MB

            return ScriptedModel.load(_script(spec), spec.name, spec.context_window)
        case "replay":
            from actors.models.replay import ReplayModel  # lazy: only for those who replay

            return ReplayModel.load(_script(spec), spec.name, spec.context_window)
        case "chaos":
            return _chaos(spec, environment, limits)
        case "openai" | "anthropic":
            return _endpoint(spec, environment, limits, transport)
        case _:
            assert_never(spec.provider)


def _script(spec: ModelSpec) -> str:
    if not spec.script:
        raise ModelError("settings", f"[models.{spec.name}] needs `script`, the path of its JSON lines")
    return spec.script


def _chaos(spec: ModelSpec, environment: Mapping[str, str], limits: Limits | None) -> Model:
    from pydantic import ValidationError  # lazy: with the rest of chaos

    from actors.models.chaos import ChaosModel, Faults  # lazy: only for those who want it
    from actors.models.options import wrong_option  # lazy: with the rest of chaos
    from session_store.codec import from_plain  # lazy: with the rest of chaos

    options = dict(spec.options)
    inner = options.pop("model", None)
    if not isinstance(inner, dict):
        raise ModelError("settings", f"[models.{spec.name}] needs `options.model`, the settings of the model to spoil")
    try:
        inner_spec = from_plain(ModelSpec, {"name": spec.name, **inner})
        faults = Faults.model_validate(options)
    except ValidationError as error:
        raise wrong_option(spec, error) from None
    return ChaosModel(build_model(inner_spec, environment, limits), faults)


def _endpoint(
    spec: ModelSpec, environment: Mapping[str, str], limits: Limits | None, transport: Transport | None
) -> Model:
    from actors.models.endpoint import Endpoint, EndpointModel  # lazy: scripted Pods need no endpoint
    from actors.models.limits import Ask, key_of  # lazy: as above
    from actors.models.options import read_options  # lazy: as above
    from actors.models.secrets import Redactor  # lazy: as above
    from actors.models.transport import Post  # lazy: as above

    options = read_options(spec)
    url = _base_url(spec)
    key = _key(spec, environment)
    secret_headers = {name: _value(spec, environment, variable) for name, variable in options.header_env.items()}
    wire = _wire(spec, options, url)
    proxy = proxy_for(url, environment)
    post = Post(
        url=url + wire.path,
        body=b"",
        headers={**wire.headers(key), **options.headers, **secret_headers},
        proxy=proxy,
        timeouts=options.as_timeouts(),
    )
    limited = (spec.requests_per_minute, spec.tokens_per_minute, spec.max_concurrency)
    limit_key = key_of(spec.provider, url, spec.model, spec.api_key_env or "")
    endpoint = Endpoint(
        name=spec.name,
        wire=wire,
        post=post,
        context_window=spec.context_window,
        policy=options.as_policy(),
        limits=Ask("", limit_key, "", 0, 0, *limited) if any(n is not None for n in limited) else None,
        redactor=Redactor(tuple(filter(None, (key, *secret_headers.values(), _password(proxy))))),
    )
    if transport is None:
        from actors.models.http import HttpTransport  # lazy: aiohttp is for those who use the network

        transport = HttpTransport()
    return EndpointModel(endpoint, transport, limits)


def _wire(spec: ModelSpec, options: EndpointOptions, url: str) -> Wire:
    if not spec.model:
        raise ModelError("settings", f"[models.{spec.name}] needs `model`, the name the provider knows it by")
    if spec.provider == "anthropic":
        from actors.models.wire.anthropic import DEFAULT_MAX_TOKENS, AnthropicWire  # lazy: one wire is enough

        if spec.tool_mode == "schema":
            raise ModelError("settings", f'[models.{spec.name}] `tool_mode = "schema"` needs `provider = "openai"`')
        limit = spec.max_output_tokens or DEFAULT_MAX_TOKENS
        return AnthropicWire(spec.model, limit, options.cache, url.endswith("/v1"), options.body)

    from actors.models.wire.openai_chat import OpenAIChatWire  # lazy: one wire is enough

    field = options.max_tokens_field or ("max_completion_tokens" if url == OPENAI_URL else "max_tokens")
    chat = OpenAIChatWire(spec.model, spec.max_output_tokens, field, options.send_reasoning, options.body)
    if spec.tool_mode == "schema":
        from actors.models.wire.schema_mode import SchemaWire  # lazy: for weak servers only

        return SchemaWire(chat)
    return chat


def _base_url(spec: ModelSpec) -> str:
    url = (spec.base_url or (ANTHROPIC_URL if spec.provider == "anthropic" else OPENAI_URL)).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ModelError("settings", f"[models.{spec.name}] `base_url` is no http(s) address")
    if parts.username is not None or parts.password is not None:
        raise ModelError("settings", f"[models.{spec.name}] `base_url` must not hold a password: use `api_key_env`")
    return url


def _key(spec: ModelSpec, environment: Mapping[str, str]) -> str | None:
    """The key, or None for a server of one's own that was given no variable."""
    variable = spec.api_key_env
    if variable is None and spec.base_url is None:
        variable = "ANTHROPIC_API_KEY" if spec.provider == "anthropic" else "OPENAI_API_KEY"
    return None if variable is None else _value(spec, environment, variable)


def _value(spec: ModelSpec, environment: Mapping[str, str], variable: str) -> str:
    value = environment.get(variable, "").strip()
    if not value:
        raise ModelError("auth", f"[models.{spec.name}] needs a key: set {variable}; {_NAMELESS}")
    if not _HEADER_VALUE.fullmatch(value):
        raise ModelError("auth", f"[models.{spec.name}] what {variable} holds cannot be a key: it has odd characters")
    return value


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """The proxy for `url` by the usual variables (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`, either case).
    Loopback addresses never go through one."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host.startswith(_LOOPBACK):
        return None

    def named(name: str) -> str:
        return environment.get(name.lower()) or environment.get(name.upper()) or ""

    proxy = named(f"{parts.scheme}_proxy") or named("all_proxy")
    if not proxy or _is_direct(host, named("no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_direct(host: str, no_proxy: str) -> bool:
    """Whether `no_proxy` names the host: `*`, the host itself, or a domain above it."""
    names = [name.strip().lstrip("*").lstrip(".").split(":")[0].lower() for name in no_proxy.split(",")]
    return "*" in no_proxy.split(",") or any(host == n or host.endswith(f".{n}") for n in names if n)


def _password(proxy: str | None) -> str | None:
    return urlsplit(proxy).password if proxy else None
