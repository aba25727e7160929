"""A real model server as the extractor's worker: its words are nonsense, its answers must fit the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.extractor.ranges import Range
from actors.extractor.schema import Extraction
from actors.extractor.staging import FolderStaging, is_staged
from actors.models.registry import build_model
from actors.protocol.config import ModelSpec
from actors.protocol.usage import DOMAIN
from tests.support.extraction import ExtractionWorld
from tests.support.llama_server import llama_server, parts

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(parts() is None, reason="the local model server is not installed (requirements-live.lock)"),
]
TRIES = (8, 11, 14)
"""How strongly the server is leant towards the end of an array: a model of this size seldom ends one by itself."""
ENDS = ("]", "],", "}]", '"]')


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("llama") / "server.log") as url:
        yield url


async def test_X10_a_real_model_server_fills_a_staged_file(server: str, tmp_path: Path) -> None:
    for bias in TRIES:
        leaning = [[text, bias] for text in ENDS]
        options = {"body": {"seed": 1, "temperature": 0.0, "logit_bias": leaning}}
        model = build_model(
            ModelSpec(
                "live", "openai", "smollm2", f"{server}/v1", tool_mode="schema", max_output_tokens=250, options=options
            ),
            {},
        )
        world = ExtractionWorld()
        session = world.session()
        session.run(12_000, prompted="Shall we take SQLite or PostgreSQL?", words="We take SQLite: it is one file.")
        root = tmp_path / str(bias)
        extractor = world.extractor(staging=FolderStaging(root), model=lambda _, model=model: model)
        await extractor.look("s")
        await model.close()
        spent = session.extensions(DOMAIN)
        assert spent, world.told.alerts
        assert not any(p["estimated"] for p in spent)
        files = [*(root / "_staging").glob("*.json")] if session.pointers else []
        assert len(files) == len(session.pointers)
        if files:
            [(start, end)] = session.ranges
            data = files[0].read_bytes()
            assert is_staged(data, "s", Range(start, end, end))
            assert Extraction.model_validate({k: v for k, v in json.loads(data).items() if k != "source"})
            return
    pytest.fail(f"no try came to an extraction: {world.told.alerts}")
