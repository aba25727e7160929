"""The extractors' parts as `wiring` binds them: whose trees a sweep pays for, whoever starts the actor first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.directory.settings import DirectorySettings
from orchestrator.runtime import MemorySpec, RuntimeSettings
from orchestrator.wiring import PartsFactory, directory_setup, extractors


@pytest.mark.parametrize("embedded", [True, False])
async def test_the_extractors_sweep_the_trees_that_the_directory_goes_on_with(tmp_path: Path, embedded: bool) -> None:
    """A file of an earlier embedded owner lies there: it restricts no `serve`."""
    (tmp_path / "roots").write_text("old\n")
    settings = RuntimeSettings({}, {}, DirectorySettings(), str(tmp_path), str(tmp_path / "memory"))
    settings = replace(settings, memory=MemorySpec(extract_threshold=10_000))
    setup = directory_setup(settings, tmp_path, frozenset({"own"}) if embedded else None, alone=lambda: True)
    factory = setup.pods.factory
    assert isinstance(factory, PartsFactory)
    for roots in (setup.roots, factory.roots):
        pool = extractors(settings, roots)
        assert pool is not None
        parts = pool._setup.factory()
        if setup.roots is None:
            assert parts.roots is None
        else:
            assert parts.roots is not None
            assert parts.roots() == {"own"}
    if setup.roots is not None:
        setup.roots.add("joined")
        assert parts.roots is not None
        assert parts.roots() == {"own", "joined"}
