"""The staging port: one suite for the fake and the folder."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from actors.extractor.ports import Staging, StagingError
from actors.extractor.ranges import staging_id
from actors.extractor.staging import PARTIAL_AGE, FolderStaging
from tests.support.staging import MemoryStaging

ONE, OTHER = staging_id("s", 1, 9), staging_id("s", 10, 12)


@pytest.fixture(params=["memory", "folder"])
def staging(request: pytest.FixtureRequest, tmp_path: Path) -> Staging:
    return MemoryStaging() if request.param == "memory" else FolderStaging(tmp_path / "memory")


async def test_what_is_written_is_read_and_listed(staging: Staging) -> None:
    assert (await staging.read(ONE), await staging.ids()) == (None, ())
    await staging.write(ONE, b"1")
    await staging.write(OTHER, b"\xff\x00")
    assert (await staging.read(ONE), await staging.read(OTHER)) == (b"1", b"\xff\x00")
    assert set(await staging.ids()) == {ONE, OTHER}


async def test_writing_again_replaces(staging: Staging) -> None:
    await staging.write(ONE, b"1")
    await staging.write(ONE, b"2")
    assert (await staging.read(ONE), await staging.ids()) == (b"2", (ONE,))


async def test_removing_takes_away_and_what_is_not_there_is_no_error(staging: Staging) -> None:
    await staging.write(ONE, b"1")
    await staging.remove(ONE)
    await staging.remove(ONE)
    assert (await staging.read(ONE), await staging.ids()) == (None, ())


async def test_writes_side_by_side_leave_one_whole_file(staging: Staging) -> None:
    texts = [bytes([n]) * 5_000 for n in range(8)]
    await asyncio.gather(*(staging.write(ONE, text) for text in texts))
    assert await staging.read(ONE) in texts
    assert await staging.ids() == (ONE,)


async def test_the_folder_holds_nothing_but_whole_files(tmp_path: Path) -> None:
    staging = FolderStaging(tmp_path)
    folder = tmp_path / "_staging"
    folder.mkdir()
    dead, living = folder / f".{ONE}.json.dead", folder / f".{ONE}.json.living"
    for left in (dead, living):
        left.write_bytes(b"{")
    os.utime(dead, (0, left.stat().st_mtime - PARTIAL_AGE - 1))
    (folder / "notes.json").write_text("a person's")
    assert await staging.ids() == ()
    await staging.write(ONE, b"1")
    assert {p.name for p in folder.iterdir()} == {f"{ONE}.json", living.name, "notes.json"}


async def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("a file")
    staging = FolderStaging(tmp_path / "memory")
    with pytest.raises(StagingError, match="memory/_staging cannot be used"):
        await staging.write(ONE, b"1")


@pytest.mark.parametrize("bad", ["", "..", "../x", "x" * 36, ONE.upper()])
async def test_nothing_but_staging_ids_names_a_file(tmp_path: Path, bad: str) -> None:
    with pytest.raises(StagingError, match="no staging id"):
        await FolderStaging(tmp_path).write(bad, b"1")
