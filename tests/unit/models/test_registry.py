"""From settings to a model: what is wrong is named, keys are read and kept out of sight, nothing heavy comes along."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from actors.models.registry import build_model, proxy_for
from actors.models.secrets import Redactor
from actors.protocol.config import ModelSpec
from actors.protocol.model import ModelError
from session_store.items import Json
from tests.support.model_requests import Live, request
from tests.support.model_server import Answer, serve

ROOT = Path(__file__).resolve().parents[3]
KEY = "sk-secret-0123456789"


def spec(provider: str = "openai", **more: Json) -> ModelSpec:
    return ModelSpec("m", provider, **{"model": "x", **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "kind", "says"),
    [
        (spec(), "auth", "set OPENAI_API_KEY"),
        (spec("anthropic"), "auth", "set ANTHROPIC_API_KEY"),
        (spec(api_key_env="MINE", base_url="http://h/v1"), "auth", "set MINE"),
        (spec(api_key_env="ODD"), "auth", "odd characters"),
        (spec(model="", base_url="http://h"), "settings", "needs `model`"),
        (spec(base_url="ftp://h"), "settings", "`base_url`"),
        (spec(base_url="http://me:pass@h"), "settings", "must not hold a password"),
        (spec(base_url="http://h", options={"timeout": 3}), "settings", "option `timeout`"),
        (spec(base_url="http://h", options={"retry": {"attempts": 0}}), "settings", "option `retry.attempts`"),
        (spec("anthropic", base_url="http://h", tool_mode="schema"), "settings", "tool_mode"),
        (spec("scripted"), "settings", "needs `script`"),
        (spec("replay"), "settings", "needs `script`"),
        (spec("chaos"), "settings", "options.model"),
        (spec("chaos", options={"model": {"provider": "scripted"}, "eror": 1}), "settings", "option `eror`"),
        (spec("chaos", options={"model": {"provider": "nope"}}), "settings", "option `provider`"),
    ],
)
def test_what_is_wrong_is_named(wrong: ModelSpec, kind: str, says: str) -> None:
    with pytest.raises(ModelError) as caught:
        build_model(wrong, {"ODD": "two\nlines"})
    assert caught.value.type == kind
    assert says in caught.value.message
    assert "pass@" not in caught.value.message


def test_a_missing_key_says_how_to_try_without_one() -> None:
    with pytest.raises(ModelError, match="polypod demo"):
        build_model(spec(), {"OPENAI_API_KEY": "  "})


async def test_a_server_of_ones_own_needs_no_key_and_gets_none() -> None:
    async with serve([Answer(400, {}, {"error": "no"})]) as server:
        model = build_model(spec(base_url=server.url), {"OPENAI_API_KEY": KEY})
        with pytest.raises(ModelError):
            await model.reply(request(model), Live())
        await model.close()
        assert "authorization" not in server.headers[0]


async def test_anthropic_headers_and_path() -> None:
    async with serve([Answer(400, {}, {"error": "no"})]) as server:
        for url in (server.url, server.url.removesuffix("/v1")):
            model = build_model(spec("anthropic", base_url=url, api_key_env="K"), {"K": KEY})
            with pytest.raises(ModelError, match="answered 400"):
                await model.reply(request(model), Live())
            await model.close()
        assert server.headers[1]["x-api-key"] == KEY
        assert server.headers[1]["anthropic-version"] == "2023-06-01"
        assert server.bodies[1]["max_tokens"] == 8192


async def test_G06_a_key_is_in_no_error_repr_or_retry() -> None:
    echo = {"error": {"message": f"bad key {KEY} and Bearer {KEY}, header s3cr3t-value, also sk-other-1234567890"}}
    live = Live()
    async with serve([Answer(503, {}, echo), Answer(401, {}, echo)]) as server:
        options = {"header_env": {"X-Gate": "GATE"}, "retry": {"base": 0.01}}
        model = build_model(
            spec(base_url=server.url, api_key_env="K", options=options), {"K": KEY, "GATE": "s3cr3t-value"}
        )
        with pytest.raises(ModelError) as caught:
            await model.reply(request(model), live)
        await model.close()
        assert server.headers[0]["x-gate"] == "s3cr3t-value"
    error = caught.value
    endpoint = model._endpoint  # type: ignore[attr-defined]
    shown = f"{error} {error!r} {error.args} {error.detail} {live} {endpoint!r} {endpoint.post!r} {model!r}"
    for secret in (KEY, "s3cr3t-value", "sk-other-1234567890"):
        assert secret not in shown
    assert "bad key [hidden]" in error.message


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("key sk-proj-abcdef123456 is wrong", "key [hidden] is wrong"),
        ("Incorrect API key provided: sk-ab***********wxyz.", "Incorrect API key provided: [hidden]."),
        ("Authorization: Bearer abcdefghijk", "Authorization: [hidden]"),
        ("AIzaSyA1234567890abcdefghijklmno", "[hidden]"),
        ("鍵はsk-proj-abcdef123456です", "鍵は[hidden]です"),
        ("nothing to hide: task-list, sketch", "nothing to hide: task-list, sketch"),
    ],
)
def test_G06_what_looks_like_a_key_is_hidden(text: str, clean: str) -> None:
    assert Redactor().clean(text) == clean


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("https://api.example.com/v1", {}, None),
        ("https://api.example.com/v1", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        ("https://api.example.com/v1", {"https_proxy": "p:3128"}, "http://p:3128"),
        ("http://api.example.com/v1", {"HTTPS_PROXY": "http://p:3128"}, None),
        ("https://api.example.com/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": "other.com"}, "http://p:1"),
        ("https://api.example.com/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": "x, .example.com"}, None),
        ("https://api.example.com/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": "ample.com"}, "http://p:1"),
        ("https://api.example.com/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("http://127.0.0.1:8080/v1", {"HTTP_PROXY": "http://p:3128"}, None),
        ("http://localhost/v1", {"HTTP_PROXY": "http://p:3128"}, None),
    ],
)
def test_proxies_by_the_usual_variables(url: str, environment: dict[str, str], proxy: str | None) -> None:
    assert proxy_for(url, environment) == proxy


def test_chaos_wraps_any_other_model(tmp_path: Path) -> None:
    script = tmp_path / "s.jsonl"
    script.write_text('{"text": "x"}', encoding="utf-8")
    options = {"model": {"provider": "scripted", "script": str(script)}, "seed": 3, "error": 0.5}
    assert build_model(spec("chaos", options=options), {}).name == "m"


def test_a_scripted_pod_loads_no_network(tmp_path: Path) -> None:
    script = tmp_path / "s.jsonl"
    script.write_text('{"text": "x"}', encoding="utf-8")
    code = (
        "import sys, json; from actors.models.registry import build_model;"
        "from actors.protocol.config import ModelSpec;"
        f"build_model(ModelSpec('m', 'scripted', script={str(script)!r}), {{}});"
        "print(json.dumps([m for m in ('aiohttp', 'ray', 'httpx', 'actors.models.endpoint') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
