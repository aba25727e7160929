"""The `options` of an endpoint in `[models.NAME]`: checked at the edge, with every default in one place."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actors.models.retry import RetryPolicy
from actors.models.transport import Timeouts
from actors.protocol.config import ModelSpec
from actors.protocol.model import ModelError
from session_store.items import Json

_STRICT = ConfigDict(extra="forbid", frozen=True)
_Seconds = Annotated[float, Field(gt=0)]


class TimeoutOptions(BaseModel):
    """Seconds; see `transport.Timeouts`."""

    model_config = _STRICT
    connect: _Seconds = 10.0
    first_byte: _Seconds = 120.0
    idle: _Seconds = 60.0
    total: _Seconds = 1800.0


class RetryOptions(BaseModel):
    """See `retry.RetryPolicy`."""

    model_config = _STRICT
    attempts: Annotated[int, Field(ge=1)] = 5
    empty: Annotated[int, Field(ge=0)] = 2
    base: _Seconds = 0.5
    cap: _Seconds = 60.0
    budget: _Seconds = 300.0


class EndpointOptions(BaseModel):
    """`body`: further fields of each request. `headers`: further headers; `header_env`: headers whose values are in
    the named variables. `send_reasoning`, `max_tokens_field`: Chat Completions only. `cache`: Anthropic only."""

    model_config = _STRICT
    timeouts: TimeoutOptions = TimeoutOptions()
    retry: RetryOptions = RetryOptions()
    body: dict[str, Json] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)
    header_env: dict[str, str] = Field(default_factory=dict)
    send_reasoning: bool = False
    max_tokens_field: str | None = None
    cache: bool = True

    def as_timeouts(self) -> Timeouts:
        return Timeouts(**self.timeouts.model_dump())

    def as_policy(self) -> RetryPolicy:
        return RetryPolicy(**self.retry.model_dump())


def read_options(spec: ModelSpec) -> EndpointOptions:
    """Raises `ModelError` (`settings`) that names the option."""
    try:
        return EndpointOptions.model_validate(spec.options)
    except ValidationError as error:
        raise wrong_option(spec, error) from None


def wrong_option(spec: ModelSpec, error: ValidationError) -> ModelError:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    return ModelError("settings", f"[models.{spec.name}] option `{field}`: {first['msg']}")
